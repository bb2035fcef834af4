// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "afterimage/block_keys.h"
#include "afterimage/engine.h"
#include "afterimage/identity.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/serve.h"
#include "lab/workload/trace.h"

namespace afterimage {

/// Makes a Trace of requests that were served: when they came, how long they were, which blocks
/// they share, and their media. Nothing of what was said; an agent becomes a number.
///
/// Blocks are told apart by their keys under a secret that is made for the recording and forgotten
/// with it. What follows the last full block has no key, and no block in the trace.
///
/// Threads  Not thread-safe.
class TraceRecorder {
 public:
  /// 64 tokens: two short prompts can share something, and a line of a long one stays readable.
  static constexpr std::uint32_t kBlockTokens = 64;

  static Result<TraceRecorder> open();

  /// `served` is what serving it gave, and `encodes` what encoding each of its media items took.
  /// Errors of Engine::prepare, and kInvalidArgument: an engine without an identity.
  Result<void> add(const Request& request, const Engine& engine, const Served& served,
                   std::span<const Duration> encodes, Duration arrived, TokenCount max_tokens);

  [[nodiscard]] const Trace& trace() const { return trace_; }

 private:
  explicit TraceRecorder(const Secret& root) : root_(root) { trace_.block_tokens = kBlockTokens; }

  Result<std::vector<BlockKey>> keys_of(const Request& request, const Engine& engine,
                                        const Sequence& prompt) const;

  Secret root_;
  Trace trace_;
  std::map<BlockKey, std::uint32_t> blocks_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> sessions_;  // tenant and agent
  std::map<std::pair<ContentDigest, TokenCount>, std::uint32_t> items_;
};

}  // namespace afterimage
