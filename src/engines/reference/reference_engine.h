// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>

#include "engines/reference/options.h"
#include "runtime/engine_api/engine.h"

namespace afterimage {

/// The built-in engine: a small vision-language transformer with random weights, on one core. Its
/// answers are meaningless. It needs no download, has every kind of KV that real models have, and
/// its results can be compared bit for bit.
///
/// Shape    encode() returns f32 [embeddings, hidden]; 1 + deepstack_planes of them for images and
///          video. KV rows: kv_packing.h. It can resume at any position: alignment is 1.
/// Errors   kInvalidArgument: a sequence or embeddings that do not match the model; kLimitExceeded:
///          prompt and completion do not fit max_context; errors of the media component.
/// Threads  All calls but create() are const and may run concurrently.
/// Source   src/engines/reference/DESIGN.md. The same options give the same bits on every machine
///          whose kernels round alike; identity() distinguishes "fused" from "separate".
class ReferenceEngine final : public Engine {
 public:
  /// kInvalidArgument: options that describe no model; kUnsupported: kernels that this machine
  /// lacks.
  static Result<std::unique_ptr<ReferenceEngine>> create(ReferenceOptions options);
  ~ReferenceEngine() override;

  [[nodiscard]] const ModelIdentity& identity() const override;
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override;
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override;
  Result<EncoderOutput> encode(const MediaItem& item) const override;
  /// Ties between logits go to the lowest token id. EOS ends a completion and is its last token.
  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override;
  [[nodiscard]] const KvLayout* kv_layout() const override;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override;

 private:
  struct Model;
  explicit ReferenceEngine(std::unique_ptr<const Model> model);

  std::unique_ptr<const Model> model_;
};

}  // namespace afterimage
