// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/units.h"

namespace afterimage {

/// One replica, as it was when a request was routed.
struct RouteCandidate {
  std::string replica;
  std::string state;  // "ready", "full", "draining", "asleep", "ejected", "other-model", "tried"
  std::uint64_t in_flight = 0;
  double resident_tokens = 0;        // of the prompt, expected in its prefix cache
  double confirmed_tokens = 0;       // of those, reported by the server for an earlier request
  std::uint64_t resident_media = 0;  // whose encoder outputs are expected there
  double compute_s = 0;              // expected: prefill and encoding of the rest
  double saved_s = 0;                // expected: what is resident need not be computed
  double wait_s = 0;                 // expected: for the requests before it
};

/// Which replica got a request, and why.
struct Route {
  std::string replica;       // empty: none
  std::uint64_t starts = 0;  // of that replica: how often it may have been started again
  /// One token: "prefix", "media": what it holds; "spread": another holds more, and its queue costs
  /// more than that saves; "least-loaded", "round-robin", "only", "retry".
  std::string_view reason;
  std::string why;  // a sentence for a person
  std::vector<RouteCandidate> candidates;
  std::uint32_t attempt = 1;
  Duration queued{0};  // until a replica had room
};

}  // namespace afterimage
