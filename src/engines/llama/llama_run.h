// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "engines/llama/lanes.h"
#include "engines/llama/loaded_model.h"
#include "engines/llama/sequence_rows.h"

namespace afterimage {

/// One request through a model, in one of its sequences.
class LlamaRun {
 public:
  /// `kv` is nullptr where KV neither comes nor goes. All outlive the run.
  LlamaRun(const LoadedModel& model, const SequenceRows* kv, TokenCount context, const Clock& clock,
           const Lanes::Lane& lane, const Sequence& prompt, std::span<const TensorViews> embeddings,
           const KvUse& use);
  /// What it leaves in the sequence is what the lane says that it holds: after a failure nothing,
  /// not even where it lay, if that was no number, since the library adds up rows that nobody sees,
  /// times zero.
  ~LlamaRun();
  LlamaRun(const LlamaRun&) = delete;
  LlamaRun& operator=(const LlamaRun&) = delete;

  Result<Generation> generate(const GenerateOptions& options) &&;

 private:
  Result<void> start();
  Result<void> resume(const KvState& state);
  void keep();
  Result<void> prefill();
  Result<void> append_words(std::uint32_t until);
  Result<void> append_media(std::size_t span);
  Result<void> decode(const GenerateOptions& options);
  Result<void> say(std::string text, const GenerateOptions& options);
  Result<void> take_snapshot();
  Result<void> capture();
  [[nodiscard]] std::uint32_t covered() const { return static_cast<std::uint32_t>(after_.size()); }

  const LoadedModel& model_;
  const SequenceRows* kv_;
  TokenCount context_;
  const Clock& clock_;
  std::int32_t sequence_;
  HeldRows& held_;
  const Sequence& prompt_;
  std::span<const TensorViews> embeddings_;
  const KvUse& use_;
  /// The position behind each token that the sequence holds. Of restored ones only the last is
  /// known.
  std::vector<std::int32_t> after_;
  std::size_t next_snapshot_ = 0;
  std::vector<float> logits_;  // of the last token
  bool has_no_numbers_ = false;
  bool restored_ = false;
  Generation made_;
};

/// kInvalidArgument, kLimitExceeded: a prompt that this model cannot take.
Result<void> check_llama_prompt(const LoadedModel& model, TokenCount context,
                                const Sequence& prompt, std::span<const TensorViews> embeddings,
                                TokenCount max_tokens, const KvUse& use);

}  // namespace afterimage
