// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>

#include "engines/reference/options.h"
#include "runtime/engine_api/engine.h"

namespace afterimage {

/// The built-in engine: a small vision-language transformer with random weights, on one core. It
/// says nothing clever. It needs no download, it has every kind of KV that real models have, and
/// what it computes can be compared bit for bit.
///
/// Shape    encode() gives f32 [embeddings, hidden]; 1 + deepstack_planes of them for pictures.
/// What
///          its KV consists of: kv_packing.h. It stops anywhere: alignment is 1.
/// Errors   kInvalidArgument: a sequence or embeddings that this model did not promise;
///          kLimitExceeded: prompt and completion do not fit max_context; what media/ says.
/// Threads  All calls but create() are const and may run at the same time.
/// Source   engine/DESIGN.md. The same options give the same bits on every machine whose kernels
///          round alike; identity() tells "fused" from "separate".
class ReferenceEngine final : public Engine {
 public:
  /// kInvalidArgument: no such model can be built; kUnsupported: no such kernels on this machine.
  static Result<std::unique_ptr<ReferenceEngine>> create(ReferenceOptions options);
  ~ReferenceEngine() override;

  [[nodiscard]] const ModelIdentity& identity() const override;
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override;
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override;
  Result<EncoderOutput> encode(const MediaItem& item) const override;
  /// Ties between logits go to the lowest token id. eos ends a completion and is its last token.
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
