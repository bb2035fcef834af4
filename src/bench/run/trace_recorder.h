// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "afterimage/engine.h"
#include "afterimage/identity.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/serve.h"
#include "bench/workload/trace.h"
#include "caches/identity/block_keys.h"

namespace afterimage {

/// Records served requests as a Trace: arrival times, lengths, shared blocks and media. No text is
/// recorded; an agent becomes a number.
///
/// Blocks are identified by keys under a random secret that is discarded with the recorder. Tokens
/// after the last full block have no key and no block in the trace.
///
/// Threads  Not thread-safe.
class TraceRecorder {
 public:
  /// 64 tokens: short prompts can share a block, and a line for a long prompt stays readable.
  static constexpr std::uint32_t kBlockTokens = 64;

  static Result<TraceRecorder> open();

  /// `served` is the result of serving the request, `encodes` the encoding time of each media item.
  /// Errors of Engine::prepare; kInvalidArgument: an engine without an identity.
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
