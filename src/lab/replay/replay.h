// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "lab/workload/trace.h"

namespace afterimage {

/// How large a replayed cache is. Encoder outputs have a store of their own, which holds the same
/// part of the trace's distinct items, counted in tokens.
struct ReplayCapacity {
  std::string name;          // as the caller spelled it, for the results: "5%", "20000"
  std::uint64_t blocks = 0;  // at least 1
};

struct ReplayOptions {
  /// A tier below the cache, such as a disk: every block that is kept is written to it, once, the
  /// oldest leave it first, and what the cache has let go of is found there. 0 blocks: none.
  ReplayCapacity below;
  std::vector<std::string> policies;  // of replay_policies()
  std::vector<ReplayCapacity> capacities;
  /// Requests in this part of the trace, from its beginning, are replayed and not counted.
  double warm_up = 0;
  /// Policies are told continuation_hints() that are wrong this often; none: the trace's own hints.
  std::optional<double> hint_error;
  std::uint64_t seed = 1;  // of the hints' errors
  /// Prefill computes the token at position p in (1 + p / attention_tokens) ÷ tokens_per_second.
  /// The defaults are those of an 8-billion-parameter model (Llama 3: 16 GFLOP a token and 0.52
  /// MFLOP a token before it) at 400 TFLOP/s, with 128 KiB of KV a token.
  double tokens_per_second = 25'000;
  double attention_tokens = 30'500;
  Bytes bytes_per_token = 128_KiB;
};

/// One policy at one capacity. Counts are those of the requests after the warm-up.
struct ReplayResult {
  std::string policy;
  std::string capacity;
  std::uint64_t capacity_blocks = 0;
  double token_hit_ratio = 0;      // hit tokens ÷ input tokens
  double compute_saved_ratio = 0;  // prefill seconds not spent ÷ those without a cache
  double seconds_saved = 0;        // of prefill and of encoding
  std::uint64_t hits = 0;          // blocks in the cache
  std::uint64_t below_hits = 0;    // blocks that were only below
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  Bytes bytes_read;     // KV that hits bring back to the engine, from either tier
  Bytes bytes_written;  // KV that is kept in the cache
  Bytes below_read;     // KV that comes up from below
  Bytes below_written;
  std::uint64_t item_hits = 0;  // media items outside the prefix that was hit
  std::uint64_t item_misses = 0;
  Duration wall{0};  // what replaying took
};

/// Told at least after every result: results done, of how many, and what is running.
using ReplayProgress = std::function<void(std::size_t done, std::size_t of, std::string_view now)>;

/// The names that `policies` may hold, the bounds last: "min" knows the future (Belady's rule,
/// which here is optimal and prefix-closed), "infinite" never evicts.
std::span<const std::string_view> replay_policies();

/// Replays the trace through each policy at each capacity, with the policies' own classes.
///
/// A request hits the leading blocks that are resident, which stay while it runs. At its end all
/// its blocks are there; they are put in, deepest first, and those leave that the policy names
/// until the capacity holds, a newcomer perhaps among them. Policies are told what a block costs
/// without attention, so that every block weighs the same; the ratios count it with attention. What
/// is known of a request when it ends (output, stop) is told with it.
///
/// Order    Results are in the order of capacities, and of policies within each.
/// Errors   kInvalidArgument: a policy that is not there (the message names those that are), no
///          capacity, a ratio outside [0, 1].
Result<std::vector<ReplayResult>> replay(const Trace& trace, const ReplayOptions& options,
                                         const Clock& clock, const ReplayProgress& progress = {});

}  // namespace afterimage
