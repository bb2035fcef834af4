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
#include "bench/workload/trace.h"

namespace afterimage {

/// The size of a replayed cache. Encoder outputs have a separate store, sized to the same share of
/// the trace's distinct items, counted in tokens.
struct ReplayCapacity {
  std::string name;          // as the caller spelled it, for the results: "5%", "20000"
  std::uint64_t blocks = 0;  // at least 1
};

struct ReplayOptions {
  /// A tier below the cache, such as a disk: every cached block is written to it once, it evicts
  /// first in first out, and blocks that the cache evicted are found there. 0 blocks: none.
  ReplayCapacity below;
  std::vector<std::string> policies;  // of replay_policies()
  std::vector<ReplayCapacity> capacities;
  /// The first share of the trace that is replayed and not counted.
  double warm_up = 0;
  /// Policies receive continuation_hints() that are wrong this often; none: the trace's own hints.
  std::optional<double> hint_error;
  std::uint64_t seed = 1;  // of the hints' errors
  /// Prefill computes the token at position p in (1 + p / attention_tokens) ÷ tokens_per_second.
  /// The defaults are those of an 8-billion-parameter model (Llama 3: 16 GFLOP per token and 0.52
  /// MFLOP for each preceding token) at 400 TFLOP/s, with 128 KiB of KV per token.
  double tokens_per_second = 25'000;
  double attention_tokens = 30'500;
  Bytes bytes_per_token = 128_KiB;
};

/// The result of one policy at one capacity, counted after the warm-up.
struct ReplayResult {
  std::string policy;
  std::string capacity;
  std::uint64_t capacity_blocks = 0;
  double token_hit_ratio = 0;      // hit tokens ÷ input tokens
  double compute_saved_ratio = 0;  // prefill seconds not spent ÷ those without a cache
  double seconds_saved = 0;        // of prefill and of encoding
  std::uint64_t hits = 0;          // blocks found in the cache
  std::uint64_t below_hits = 0;    // blocks found only in the tier below
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  Bytes bytes_read;     // KV that hits move to the engine, from either tier
  Bytes bytes_written;  // KV inserted into the cache
  Bytes below_read;     // KV read from the tier below
  Bytes below_written;
  std::uint64_t item_hits = 0;  // media items outside the prefix that was hit
  std::uint64_t item_misses = 0;
  Duration wall{0};  // time that replaying took
};

/// Called at least after every result: results done, their total, and what is running.
using ReplayProgress = std::function<void(std::size_t done, std::size_t of, std::string_view now)>;

/// The valid names for `policies`, the bounds last: "min" knows the future (Belady's rule, which is
/// optimal and prefix-closed here), "infinite" never evicts.
std::span<const std::string_view> replay_policies();

/// Replays the trace through each policy at each capacity, with the policies' own classes.
///
/// A request hits the leading blocks that are resident, which stay pinned while it runs. At its end
/// all its blocks are inserted, deepest first, and the policy's victims are evicted until the
/// capacity holds; a new block may be among them. Policies get a block's cost without attention, so
/// that every block has the same cost; the ratios include attention. Facts known at the end of a
/// request (output, stop) are passed to the policy then.
///
/// Order    Results are ordered by capacity, then by policy.
/// Errors   kInvalidArgument: an unknown policy (the message lists the valid ones), no capacity, a
///          ratio outside [0, 1].
Result<std::vector<ReplayResult>> replay(const Trace& trace, const ReplayOptions& options,
                                         const Clock& clock, const ReplayProgress& progress = {});

}  // namespace afterimage
