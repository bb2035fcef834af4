// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace afterimage {

/// Where a request is on its way through the gateway; DESIGN.md draws it.
enum class RequestStage : unsigned char {
  kReceived,           // who asks? is it an operation whose answers are reused?
  kReading,            // what does the body say?
  kFetchingMedia,      // media by address, if their hosts are allowed
  kLookingUp,          // is the answer in memory?
  kLookingUpArchive,   // is it on disk, or in the shared tier?
  kLookingUpSimilar,   // is the answer to a similar question right often enough?
  kJoining,            // is somebody asking the same? join, or start a response and lead it
  kLeasing,            // the leader: is another gateway asking the same?
  kWaitingForBackend,  // until the response has a head, or fails
  kResponding,         // a stored answer, or the response as it comes
  kDone,
};
inline constexpr std::size_t kRequestStages = 11;
/// "received", "reading", ….
std::string_view to_string(RequestStage stage);

/// How often a request goes back (to look up again, or to join another response) before it takes
/// what it has: others may complete, fail or leave each time.
inline constexpr std::uint32_t kMaxRestarts = 8;

/// The transitions of the machine.
[[nodiscard]] bool may_follow(RequestStage stage, RequestStage next);
/// Those that go back; bounded by kMaxRestarts.
[[nodiscard]] bool is_restart(RequestStage stage, RequestStage next);

}  // namespace afterimage
