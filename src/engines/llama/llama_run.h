// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "engines/llama/lanes.h"
#include "engines/llama/sequence_rows.h"
#include "engines/llama_library/loaded_model.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// One request on a model, in one borrowed sequence.
class LlamaRun {
 public:
  /// `kv` is nullptr if KV is neither restored nor captured, `rotation` if none is moved. All
  /// arguments outlive the run.
  LlamaRun(const LoadedModel& model, const SequenceRows* kv, const KeyRotation* rotation,
           TokenCount context, const Clock& clock, const Lanes::Lane& lane, const Sequence& prompt,
           std::span<const TensorViews> embeddings, const KvUse& use);
  /// Records in the lane what the sequence now holds. After a failure the sequence is cleared. If
  /// the logits were not finite, its cells are also overwritten with zeros, because unfused
  /// attention adds even masked cells, times zero.
  ~LlamaRun();
  LlamaRun(const LlamaRun&) = delete;
  LlamaRun& operator=(const LlamaRun&) = delete;

  /// `options.max_tokens` is a number of tokens that fits the context.
  Result<Generation> generate(const GenerateOptions& options) &&;

 private:
  Result<void> start();
  Result<void> resume(const KvSlice& slice);
  Result<void> restore(const StateOutline& state);
  void hold_rows();
  Result<void> prefill(const std::stop_token& cancel);
  Result<void> append_text(std::uint32_t until, const std::stop_token& cancel);
  /// The first `count` tokens of a media item.
  Result<void> append_media(std::size_t span, std::uint32_t count);
  Result<void> append_moved(const MovedMedia& item);
  [[nodiscard]] std::vector<std::byte> turned(const MovedMedia& item, std::size_t group,
                                              std::int32_t at) const;
  Result<void> decode(const GenerateOptions& options);
  Result<void> feed_back(TokenId token, const std::stop_token& cancel,
                         const std::function<void()>& meanwhile);
  Result<void> take_snapshot(KvSlice& kv, KvBuffers& buffers);
  Result<void> capture(const KvWanted& wanted, KvSlice& kv,
                       const std::shared_ptr<KvBuffers>& buffers);
  void capture_end();
  [[nodiscard]] std::uint32_t covered() const { return static_cast<std::uint32_t>(after_.size()); }

  const LoadedModel& model_;
  const SequenceRows* kv_;
  const KeyRotation* rotation_;
  TokenCount context_;
  const Clock& clock_;
  std::int32_t sequence_;
  HeldRows& held_;
  const Sequence& prompt_;
  std::span<const TensorViews> embeddings_;
  const KvUse& use_;
  /// The position after each token in the sequence. Of restored tokens only the last one is known.
  std::vector<std::int32_t> after_;
  std::size_t next_snapshot_ = 0;
  std::vector<float> logits_;       // of the last token
  std::vector<float> next_logits_;  // of the token that is being computed
  bool logits_not_finite_ = false;
  bool restored_ = false;
  Generation result_;
  std::shared_ptr<KvBuffers> buffers_ = std::make_shared<KvBuffers>();  // of result_.kv
};

/// kInvalidArgument: a prompt that this model cannot take.
Result<void> check_llama_prompt(const LoadedModel& model, const Sequence& prompt,
                                std::span<const TensorViews> embeddings, const KvUse& use);

}  // namespace afterimage
