// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/cli/experiment_engine.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afterimage/serve.h"
#include "caches/similarity/endpoint_embedder.h"
#include "cli/engine_args.h"
#include "engines/llama/llama_embedder.h"
#include "foundation/platform/environment.h"
#include "foundation/types/digest_hash.h"
#include "lab/experiment/endpoint_engine.h"
#include "runtime/engine_api/mean_vector.h"

namespace afterimage {
namespace {

constexpr const char* kOracle = "oracle";
constexpr const char* kReference = "reference";
constexpr const char* kKeyVariable = "OPENAI_API_KEY";

constexpr Duration kEncoderDeadline = std::chrono::seconds(30);
constexpr std::size_t kMostImages = 1'000;  // whose encoder outputs are kept

/// An engine of this process. It reuses KV and encoder outputs, as servers do. States are computed
/// with encoder outputs that it keeps.
class LocalEngine final : public SampleEngine {
 public:
  static Result<std::unique_ptr<SampleEngine>> create(const Engine& engine, std::string model,
                                                      const ExperimentSpec& spec,
                                                      const ImageRoots& images,
                                                      const Clock& clock) {
    AFI_TRY(auto reuse, Reuse::create({}, Secret{}, clock));
    return std::unique_ptr<SampleEngine>(
        new LocalEngine(engine, std::move(model), std::move(reuse), spec, images));
  }

  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    AFI_TRY(const Request request, request_for(sample, prompt, sample.content.has_value()));
    AFI_TRY(const Served served, serve(request, engine_, *reuse_, options_));
    reused_tokens_ = served.completion.resumed_from.value();
    // Also if max_tokens cut it: the limit is part of the scope, and the built-in engine never stops.
    return Answer{.text = served.completion.text, .finish_reason = "stop"};
  }
  [[nodiscard]] std::optional<std::uint64_t> reused_tokens() const override {
    return reused_tokens_;
  }
  [[nodiscard]] std::string model() const override { return model_; }

  [[nodiscard]] bool shows_states() const override { return true; }
  Result<std::vector<float>> state(const Sample& sample, const std::string& prompt,
                                   EngineState which) override {
    const bool needs_image = which != EngineState::kPrompt;
    if (needs_image && !sample.content.has_value()) return std::vector<float>{};
    AFI_TRY(const Request request, request_for(sample, prompt, needs_image));
    if (!needs_image) {
      AFI_TRY(const Sequence text, engine_.prepare(request, {}));
      return engine_.hidden_state(text, {});
    }
    AFI_TRY(const EncoderOutput* const output, encoded(sample, request));
    if (which == EngineState::kVision) return mean_of(output->front());
    AFI_TRY(const Sequence whole, engine_.prepare(request, {&*sample.content, 1}));
    AFI_TRY(const TensorViews views, views_of(*output));
    return engine_.hidden_state(whole, {&views, 1});
  }

 private:
  LocalEngine(const Engine& engine, std::string model, std::unique_ptr<Reuse> reuse,
              const ExperimentSpec& spec, const ImageRoots& images)
      : engine_(engine), model_(std::move(model)), reuse_(std::move(reuse)), images_(images) {
    options_.max_tokens = TokenCount(static_cast<TokenCount::rep>(spec.max_tokens));
    options_.sampling.temperature = static_cast<float>(spec.temperature);
  }

  [[nodiscard]] Result<Request> request_for(const Sample& sample, const std::string& prompt,
                                            bool with_image) const {
    Message message{.role = Role::kUser};
    if (with_image) {
      AFI_TRY(FileBytes image, images_.bytes_of(sample));
      message.parts.emplace_back(MediaItem{.files = {std::move(image)}, .name = sample.image_path});
    }
    message.parts.emplace_back(prompt);
    return Request{.id = RequestId(sample.dataset_id), .messages = {std::move(message)}};
  }

  Result<const EncoderOutput*> encoded(const Sample& sample, const Request& request) {
    const auto known = encoded_.find(*sample.content);
    if (known != encoded_.end()) return &known->second;
    AFI_TRY(EncoderOutput output, engine_.encode(*media_of(request).front()));
    if (encoded_.size() >= kMostImages) encoded_.clear();
    return &encoded_.emplace(*sample.content, std::move(output)).first->second;
  }

  /// Of the rows of a tensor [tokens, width], f32.
  static Result<std::vector<float>> mean_of(const Tensor& tensor) {
    if (tensor.dtype != DType::kF32 || tensor.shape.rank() != 2) {
      return fail(ErrorCode::kUnsupported, "the engine's encoder outputs are not rows of f32");
    }
    MeanVector mean;
    std::vector<float> row(tensor.shape[1]);
    for (std::size_t i = 0; i < tensor.shape[0]; ++i) {
      std::memcpy(row.data(), tensor.bytes.data() + i * row.size() * sizeof(float),
                  row.size() * sizeof(float));
      mean.add(row);
    }
    return mean.finish();
  }

  const Engine& engine_;
  std::string model_;
  std::unique_ptr<Reuse> reuse_;
  const ImageRoots& images_;
  GenerateOptions options_;
  std::optional<std::uint64_t> reused_tokens_;
  std::unordered_map<ContentDigest, EncoderOutput, DigestHash> encoded_;
};

/// An encoder that keeps what it made: the experiments of a sweep ask for the same texts.
class KeepingEmbedder final : public Embedder {
 public:
  explicit KeepingEmbedder(std::unique_ptr<Embedder> embedder) : embedder_(std::move(embedder)) {}

  [[nodiscard]] const std::string& name() const override { return embedder_->name(); }
  [[nodiscard]] std::size_t dimensions() const override { return embedder_->dimensions(); }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    std::vector<Vector> vectors;
    for (const EmbedInput& input : inputs) {
      const auto* const text = std::get_if<std::string_view>(&input);
      if (text == nullptr) return embedder_->embed(inputs);
      const auto known = kept_.find(std::string(*text));
      if (known != kept_.end()) {
        vectors.push_back(known->second);
        continue;
      }
      AFI_TRY(Vector vector, embedder_->embed_one(input));
      if (kept_.size() < kMostTexts) kept_.emplace(*text, vector);
      vectors.push_back(std::move(vector));
    }
    return vectors;
  }

 private:
  static constexpr std::size_t kMostTexts = 100'000;
  std::unique_ptr<Embedder> embedder_;
  std::unordered_map<std::string, Vector> kept_;
};

/// Of an engine of this process: "reference", "seer.gguf".
std::string model_name(const std::string& engine) {
  return std::filesystem::path(engine).filename().string();
}

/// "model.gguf" has its encoder of images in "model.mmproj.gguf".
std::string mmproj_of(const std::string& model) {
  std::filesystem::path path(model);
  path.replace_extension(".mmproj.gguf");
  return std::filesystem::exists(path) ? path.string() : "";
}

}  // namespace

CLI::Option* ExperimentEngines::add_option(CLI::App& verb) {
  return verb
      .add_option("--engine", wanted_,
                  "Answers to the samples: oracle, the data set's own (the default); reference,\n"
                  "the built-in engine; a GGUF file, on llama.cpp, with X.mmproj.gguf beside\n"
                  "X.gguf; or the URL of an OpenAI-compatible server (its key: OPENAI_API_KEY)")
      ->type_name("oracle|reference|GGUF|URL");
}

std::string ExperimentEngines::wanted_model() const {
  const bool is_named = wanted_ == kOracle || wanted_.contains("://");
  return is_named ? "Qwen/Qwen3-VL-2B-Instruct" : model_name(wanted_);
}

Result<void> ExperimentEngines::load(const Clock& clock) {
  clock_ = &clock;
  AFI_TRY_VOID(local(wanted_));
  return {};
}

Result<const Engine*> ExperimentEngines::local(const std::string& name) {
  if (name == kOracle) return nullptr;
  if (name.contains("://")) {
    AFI_TRY(const Url url, parse_url(name));
    return nullptr;
  }
  if (const auto loaded = local_.find(name); loaded != local_.end()) return loaded->second.get();
  EngineArgs args;
  if (name != kReference) {
    if (!name.ends_with(".gguf")) {
      return fail(ErrorCode::kInvalidArgument,
                  "engine: expected oracle, reference, a .gguf file or a URL, got '" + name + "'");
    }
    args.engine = "llama";
    args.llama.model = name;
    args.llama.mmproj = mmproj_of(name);
  }
  AFI_TRY(std::unique_ptr<Engine> engine, make_engine(args, *clock_));
  return (local_[name] = std::move(engine)).get();
}

Result<std::unique_ptr<SampleEngine>> ExperimentEngines::engine_for(const ExperimentSpec& spec,
                                                                    const ImageRoots& images) {
  const std::string& name = spec.engine.empty() ? wanted_ : spec.engine;
  AFI_TRY(const Engine* const engine, local(name));
  if (engine != nullptr) {
    return LocalEngine::create(*engine, model_name(name), spec, images, *clock_);
  }
  if (name == kOracle) return std::make_unique<OracleEngine>();
  EndpointEngineOptions options{.model = spec.model,
                                .key = environment(kKeyVariable).value_or(""),
                                .max_tokens = static_cast<std::uint64_t>(spec.max_tokens),
                                .temperature = spec.temperature};
  AFI_TRY(options.url, parse_url(name));
  return std::make_unique<EndpointEngine>(std::move(options), images);
}

Result<Embedder*> ExperimentEngines::encoder_for(const ExperimentSpec& spec) {
  if (!names_encoder(spec)) return nullptr;
  const std::string& name = spec.index_encoder;
  if (const auto loaded = encoders_.find(name); loaded != encoders_.end()) {
    return loaded->second.get();
  }
  std::unique_ptr<Embedder> encoder;
  if (name.contains("://")) {
    ModelEndpointOptions options{.deadline = kEncoderDeadline};
    AFI_TRY(options.url, parse_url(name));
    AFI_TRY(encoder, EndpointEmbedder::create(std::move(options), *clock_));
  } else {
    AFI_TRY(encoder, make_llama_embedder(name));
  }
  auto& kept = encoders_[name] = std::make_unique<KeepingEmbedder>(std::move(encoder));
  return kept.get();
}

}  // namespace afterimage
