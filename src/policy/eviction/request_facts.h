// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/request.h"
#include "afterimage/units.h"

namespace afterimage {

/// What asked for this turn. Appended to, never renumbered: policies use it as an index.
enum class TurnKind : unsigned char { kUnknown, kHuman, kToolResult };
/// Why the model stopped: after kToolUse the next turn is a machine's, and mostly soon.
enum class StopReason : unsigned char { kUnknown, kEndTurn, kToolUse, kOther };
/// What an eviction policy may know of a request that uses entries.
struct RequestFacts {
  Duration now{0};  // since any beginning; never falls
  std::uint32_t output_tokens = 0;
  TurnKind kind = TurnKind::kUnknown;
  StopReason stop = StopReason::kUnknown;
  ContinuationHint hint = ContinuationHint::kNone;
};

}  // namespace afterimage
