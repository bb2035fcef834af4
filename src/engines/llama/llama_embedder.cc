// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_embedder.h"

#include <utility>

#include "engines/llama_library/loaded_embedder.h"

namespace afterimage {
namespace {

class LlamaEmbedder final : public Embedder {
 public:
  explicit LlamaEmbedder(std::unique_ptr<LoadedEmbedder> model)
      : model_(std::move(model)), name_("gguf/" + model_->name()) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return model_->dimensions(); }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    std::vector<Vector> vectors;
    for (const EmbedInput& input : inputs) {
      const auto* const text = std::get_if<std::string_view>(&input);
      if (text == nullptr) {
        return fail(ErrorCode::kUnsupported, "this embedder makes vectors of texts only");
      }
      AFI_TRY(vectors.emplace_back(), model_->embed(*text));
    }
    return vectors;
  }

 private:
  std::unique_ptr<LoadedEmbedder> model_;
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<Embedder>> make_llama_embedder(const std::string& path,
                                                      std::uint32_t threads) {
  AFI_TRY(auto model, LoadedEmbedder::open(path, threads));
  return std::make_unique<LlamaEmbedder>(std::move(model));
}

}  // namespace afterimage
