// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/engine.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage::testing {

/// Forwards to another engine; a test overrides the call that it wants to fail.
class ForwardingEngine : public Engine {
 public:
  explicit ForwardingEngine(const Engine& good) : good_(good) {}

  [[nodiscard]] const ModelIdentity& identity() const override { return good_.identity(); }
  [[nodiscard]] Exactness exactness() const override { return good_.exactness(); }
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override {
    return good_.recipe(modality);
  }
  [[nodiscard]] MediaSize size_of(const MediaItem& item) const override {
    return good_.size_of(item);
  }
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override {
    return good_.prepare(request, contents);
  }
  Result<PreparedRequest> prepare_answer(const Request& request,
                                         std::span<const ContentDigest> contents) const override {
    return good_.prepare_answer(request, contents);
  }
  [[nodiscard]] GenerateOptions default_options() const override { return good_.default_options(); }
  Result<EncoderOutput> encode(const MediaItem& item) const override { return good_.encode(item); }
  [[nodiscard]] Result<std::shared_ptr<const SplitMedia>> split(
      const MediaItem& item) const override {
    return good_.split(item);
  }
  void encode_parts(std::span<const PartToEncode> parts,
                    const std::function<void(std::vector<Encoded>)>& on_encoded) const override {
    good_.encode_parts(parts, on_encoded);
  }
  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override {
    return good_.generate(prompt, embeddings, options);
  }
  [[nodiscard]] Result<std::vector<float>> hidden_state(
      const Sequence& prompt, std::span<const TensorViews> embeddings) const override {
    return good_.hidden_state(prompt, embeddings);
  }
  [[nodiscard]] const KvLayout* kv_layout() const override { return good_.kv_layout(); }
  [[nodiscard]] const KeyRotation* key_rotation() const override { return good_.key_rotation(); }
  [[nodiscard]] std::string why_no_rotation() const override { return good_.why_no_rotation(); }
  [[nodiscard]] TokenPlace place_of(const Sequence& prompt, TokenCount at) const override {
    return good_.place_of(prompt, at);
  }

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    return good_.generate_from(prompt, embeddings, options, use);
  }

 private:
  const Engine& good_;
};

}  // namespace afterimage::testing
