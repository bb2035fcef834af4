// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <utility>

#include "testing/forwarding_engine.h"

namespace afterimage::testing {

/// A single-lane engine that computes something else before it resumes, so that a resumed run uses
/// the state it is given and never what the lane still holds.
class ForgetfulEngine : public ForwardingEngine {
 public:
  explicit ForgetfulEngine(std::unique_ptr<const Engine> engine)
      : ForwardingEngine(*engine), engine_(std::move(engine)) {}

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    if (use.resume_from != nullptr) {
      const Sequence other{.tokens = {prompt.tokens.back()}, .spans = {}};
      AFI_TRY_VOID(engine_->generate(other, {}, {.max_tokens = TokenCount(1), .on_text = {}}));
    }
    return ForwardingEngine::run(prompt, embeddings, options, use);
  }

 private:
  std::unique_ptr<const Engine> engine_;
};

}  // namespace afterimage::testing
