// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>

#include "afterimage/engine.h"
#include "engines/llama_library/llama_options.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// Runs a GGUF model through llama.cpp, on CPU or GPU. Images and audio need the model's mmproj
/// file. On top of llama.cpp, encoder outputs and KV can be captured and restored, so that neither
/// is computed twice, also across restarts.
///
/// Models   Decoder models in GGUF that the linked llama.cpp loads, with a chat template that it
///          has built in. KV is reused only if the library writes the model's sequence state in a
///          layout that sequence_state.h can parse; otherwise kv_layout() is nullptr, description()
///          gives the reason, and only encoder outputs are reused. Reuse is bit-exact on CPU only:
///          see exactness().
/// Media    Images and audio. A video is kUnsupported. Spans are not splittable: an image's rows
///          are reused as a whole or not at all.
/// Sampling As llama-server's: the library's samplers, in its order. Temperature 0 takes the most
///          likely token; ties go to the lowest token id.
/// Errors   create(): kNotFound, kCorruption, kUnsupported: a model file; kInvalidArgument: files
///          that do not belong together, or an option; kUnavailable: not enough memory. A build
///          without llama.cpp returns kUnsupported and says how to build with it.
/// Threads  Any. Up to `lanes` requests at a time generate their answers in shared batches; others
///          wait. prepare() and encode() run concurrently with them.
/// Source   src/engines/llama/DESIGN.md.
class LlamaEngine final : public Engine {
 public:
  static Result<std::unique_ptr<LlamaEngine>> create(LlamaOptions options);
  ~LlamaEngine() override;

  [[nodiscard]] const ModelIdentity& identity() const override;
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override;
  [[nodiscard]] MediaSize size_of(const MediaItem& item) const override;
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override;
  Result<PreparedRequest> prepare_answer(const Request& request,
                                         std::span<const ContentDigest> contents) const override;
  [[nodiscard]] std::vector<std::string> unenforced(const AnswerRules& rules) const override;
  /// Today's date, of a chat template that writes it (Llama 3, gpt-oss, Mistral Small).
  [[nodiscard]] std::string clock_in_prompts(WallTime now) const override;
  /// llama-server's defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no token limit.
  [[nodiscard]] GenerateOptions default_options() const override;
  [[nodiscard]] EngineLoad load() const override;
  [[nodiscard]] const Tokenizer* tokenizer() const override;
  /// With the model's own pooling, or LlamaOptions::pooling; of 2,048 tokens at most, or a context if
  /// that is smaller. The first call allocates a context of its own.
  [[nodiscard]] Result<std::vector<float>> embed(std::span<const TokenId> tokens) const override;
  /// The first call allocates a context of its own, and prompts are limited as answers are.
  [[nodiscard]] Result<std::vector<float>> hidden_state(
      const Sequence& prompt, std::span<const TensorViews> embeddings) const override;
  /// tensors[0]: [span length, row width], f32; tensors[1]: see span_parts.h.
  Result<EncoderOutput> encode(const MediaItem& item) const override;
  void encode_all(std::span<const MediaItem* const> items,
                  const std::function<void(std::vector<Encoded>)>& on_encoded) const override;
  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override;
  [[nodiscard]] const KvLayout* kv_layout() const override;
  /// Of models that take images: as the model's file says it, if the model's keys do so.
  [[nodiscard]] const KeyRotation* key_rotation() const override;
  [[nodiscard]] std::string why_no_rotation() const override;
  /// Of a media item whose tokens have no places in it: the place of its first token.
  [[nodiscard]] TokenPlace place_of(const Sequence& prompt, TokenCount at) const override;

  /// Of a self-check at load: the model computed the same tokens in several batches. See
  /// LlamaOptions::exact.
  [[nodiscard]] Exactness exactness() const override;
  /// For logs: library version, architecture, KV memories, and why KV is not reused if it is not.
  [[nodiscard]] std::string description() const;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override;

 private:
  struct State;
  explicit LlamaEngine(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace afterimage
