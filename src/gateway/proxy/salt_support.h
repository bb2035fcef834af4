// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "afterimage/clock.h"
#include "foundation/http/caller.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Whether a server takes a `cache_salt`: as the setting says, or, where it says nothing, if the models
/// that GET /v1/models lists are owned by "vllm" or "sglang". Asked for the first request that has a salt,
/// with that client's key, then every ten minutes; a server that does not answer, every five seconds.
/// Until it has answered it is taken for one that takes none: other servers refuse members that
/// they do not know.
///
/// Threads  Any.
class SaltSupport {
 public:
  static constexpr Duration kKept = std::chrono::minutes(10);
  static constexpr Duration kAskAgain = std::chrono::seconds(5);

  /// `server` is the address without a path; `caller` and `clock` outlive it.
  SaltSupport(std::optional<bool> setting, Url server, HttpCaller& caller, const Clock& clock);

  /// Not known to take none.
  [[nodiscard]] bool may_take() const;
  [[nodiscard]] bool takes() const;
  /// The same, and asks the server with these headers if it is time to.
  [[nodiscard]] bool takes_now(const HttpHeaders& headers);

 private:
  class Listener;
  struct State;

  const std::optional<bool> setting_;
  const Url server_;
  HttpCaller& caller_;
  const Clock& clock_;
  const std::shared_ptr<State> state_;  // calls hold it, too
};

}  // namespace afterimage
