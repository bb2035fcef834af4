// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_verifier.h"

#include <utility>

#include "engines/llama_library/loaded_verifier.h"

namespace afterimage {
namespace {

class LlamaVerifier final : public Verifier {
 public:
  explicit LlamaVerifier(std::unique_ptr<LoadedVerifier> model)
      : model_(std::move(model)), name_("gguf/" + model_->name()) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<std::vector<float>> score(
      std::string_view question, std::span<const std::string_view> candidates) override {
    std::vector<float> scores;
    for (const std::string_view candidate : candidates) {
      AFI_TRY(scores.emplace_back(), model_->score(question, candidate));
    }
    return scores;
  }

 private:
  std::unique_ptr<LoadedVerifier> model_;
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<Verifier>> make_llama_verifier(const std::string& path,
                                                      std::uint32_t threads) {
  AFI_TRY(auto model, LoadedVerifier::open(path, threads));
  return std::make_unique<LlamaVerifier>(std::move(model));
}

}  // namespace afterimage
