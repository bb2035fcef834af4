// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>

#include "afterimage/engine.h"
#include "engines/llama/llama_options.h"

namespace afterimage {

/// Any GGUF model that llama.cpp runs, with pictures and sounds where there is an encoder for them,
/// on a CPU or a GPU. What it computes is what llama.cpp computes; what it adds is that encoder
/// outputs and KV go out, and in again, so that neither is computed twice, also after a restart.
///
/// Media    Pictures and sounds. A film is kUnsupported. Spans are not splittable: a picture's rows
///          are all there or none.
/// Greedy   The likeliest token, always; of equals the one with the lowest id.
/// Errors   create: kNotFound, kCorruption, kUnsupported: the files; kInvalidArgument: they do not
///          go together, or an option; kUnavailable: no room. In a build without llama.cpp it is
///          kUnsupported, and says how to get one with it.
/// Threads  Any. As many requests as there are lanes are computed turn by turn, a batch or a token
///          at a time; the others wait. Preparing and encoding runs beside.
/// Source   src/engine/llama/DESIGN.md.
class LlamaEngine final : public Engine {
 public:
  static Result<std::unique_ptr<LlamaEngine>> create(LlamaOptions options);
  ~LlamaEngine() override;

  [[nodiscard]] const ModelIdentity& identity() const override;
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override;
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override;
  /// tensors[0]: [span length, width of a row], f32; tensors[1]: see span_parts.h.
  Result<EncoderOutput> encode(const MediaItem& item) const override;
  void encode_all(std::span<const MediaItem* const> items,
                  const std::function<void(std::vector<Encoded>)>& on_encoded) const override;
  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override;
  [[nodiscard]] const KvLayout* kv_layout() const override;

  /// Whether resumed runs give the bits of cold ones: see LlamaOptions::exact.
  [[nodiscard]] bool exact() const;
  /// For people: library, architecture, memories, and why KV is not reused if it is not.
  [[nodiscard]] std::string description() const;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override;

 private:
  struct Parts;
  explicit LlamaEngine(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace afterimage
