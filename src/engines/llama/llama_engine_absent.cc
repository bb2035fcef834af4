// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/absent.h"
#include "engines/llama/llama_engine.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

// No object of this class is ever created; its members are needed for linking.
struct LlamaEngine::State {
  ModelIdentity identity;
};

LlamaEngine::LlamaEngine(std::unique_ptr<const State> state) : state_(std::move(state)) {}
LlamaEngine::~LlamaEngine() = default;

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::create(LlamaOptions /*options*/) {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

const ModelIdentity& LlamaEngine::identity() const { return state_->identity; }
PreprocessRecipe LlamaEngine::recipe(Modality /*modality*/) const { return {}; }
const KvLayout* LlamaEngine::kv_layout() const { return nullptr; }
const KeyRotation* LlamaEngine::key_rotation() const { return nullptr; }
std::string LlamaEngine::why_no_rotation() const { return kHowToGetLlama; }
TokenPlace LlamaEngine::place_of(const Sequence& prompt, TokenCount at) const {
  return Engine::place_of(prompt, at);
}
const Tokenizer* LlamaEngine::tokenizer() const { return nullptr; }
std::string LlamaEngine::clock_in_prompts(WallTime now) const {
  return Engine::clock_in_prompts(now);
}
std::vector<std::string> LlamaEngine::unenforced(const AnswerRules& rules) const {
  return Engine::unenforced(rules);
}
Result<std::vector<float>> LlamaEngine::embed(std::span<const TokenId> tokens) const {
  return Engine::embed(tokens);
}
Result<std::vector<float>> LlamaEngine::hidden_state(
    const Sequence& prompt, std::span<const TensorViews> embeddings) const {
  return Engine::hidden_state(prompt, embeddings);
}
EngineLoad LlamaEngine::load() const { return {}; }
Exactness LlamaEngine::exactness() const { return {}; }
MediaSize LlamaEngine::size_of(const MediaItem& item) const { return Engine::size_of(item); }
std::string LlamaEngine::description() const { return kHowToGetLlama; }

Result<Sequence> LlamaEngine::prepare(const Request& /*request*/,
                                      std::span<const ContentDigest> /*contents*/) const {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

Result<PreparedRequest> LlamaEngine::prepare_answer(
    const Request& /*request*/, std::span<const ContentDigest> /*contents*/) const {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

GenerateOptions LlamaEngine::default_options() const { return {}; }

Result<EncoderOutput> LlamaEngine::encode(const MediaItem& /*item*/) const {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

void LlamaEngine::encode_all(std::span<const MediaItem* const> items,
                             const std::function<void(std::vector<Encoded>)>& on_encoded) const {
  Engine::encode_all(items, on_encoded);
}

Result<Completion> LlamaEngine::generate(const Sequence& /*prompt*/,
                                         std::span<const TensorViews> /*embeddings*/,
                                         const GenerateOptions& /*options*/) const {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

Result<Generation> LlamaEngine::run(const Sequence& /*prompt*/,
                                    std::span<const TensorViews> /*embeddings*/,
                                    const GenerateOptions& /*options*/,
                                    const KvUse& /*use*/) const {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

}  // namespace afterimage
