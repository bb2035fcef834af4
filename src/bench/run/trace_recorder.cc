// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/trace_recorder.h"

#include "afterimage/secret.h"
#include "runtime/reuse/plan.h"

namespace afterimage {
Result<TraceRecorder> TraceRecorder::open() {
  AFI_TRY(const Secret root, random_secret());
  return TraceRecorder(root);
}

Result<std::vector<BlockKey>> TraceRecorder::keys_of(const Request& request, const Engine& engine,
                                                     const Sequence& prompt) const {
  AFI_TRY(const Namespace space, Namespace::of(engine.identity(), request.tenant, root_));
  // All requests of a recording use one engine, so its layout need not be part of the keys.
  const BlockScope scope{.block_tokens = TokenCount(kBlockTokens),
                         .layout = {.groups = {{.row_bytes = 1_B}}}};
  AFI_TRY(const BlockChain chain, BlockChain::open(space, scope));
  std::vector<BlockKey> keys;
  AFI_TRY_VOID(chain.extend(prompt, keys));
  return keys;
}

Result<void> TraceRecorder::add(const Request& request, const Engine& engine, const Served& served,
                                std::span<const Duration> encodes, Duration arrived,
                                TokenCount max_tokens) {
  AFI_TRY(const Sequence prompt, engine.prepare(request, served.prints.contents));
  AFI_TRY(const std::vector<BlockKey> keys, keys_of(request, engine, prompt));
  const auto answer_tokens = static_cast<std::uint32_t>(served.completion.tokens.size());
  TraceRequest line{
      .at = arrived,
      .input_tokens = static_cast<std::uint32_t>(prompt.tokens.size()),
      .output_tokens = answer_tokens,
      .kind = turn_kind(request),
      .stop = answer_tokens < max_tokens.value() ? StopReason::kEndTurn : StopReason::kOther,
      .hint = request.hints.conversation};
  if (!request.hints.agent.empty()) {
    const auto [it, fresh] =
        sessions_.emplace(std::pair(request.tenant.text(), request.hints.agent), trace_.sessions);
    if (fresh) ++trace_.sessions;
    line.session = it->second;
  }
  for (const BlockKey& key : keys) {
    const auto [it, fresh] = blocks_.emplace(key, trace_.distinct_blocks);
    if (fresh) ++trace_.distinct_blocks;
    line.blocks.push_back(it->second);
  }
  for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
    const MediaSpan& span = prompt.spans[i];
    const auto [it, fresh] = items_.emplace(std::pair(span.content, span.length),
                                            static_cast<std::uint32_t>(trace_.items.size()));
    if (fresh) {
      trace_.items.push_back({.modality = span.modality,
                              .content = span.content,
                              .tokens = span.length.value(),
                              .encode = encodes[i]});
    }
    line.media.push_back({.item = it->second, .offset = span.offset.value()});
  }
  trace_.requests.push_back(std::move(line));
  return {};
}

}  // namespace afterimage
