// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/experiment_engine.h"

#include <filesystem>
#include <utility>

#include "afterimage/serve.h"
#include "cli/engine_args.h"
#include "foundation/platform/environment.h"
#include "lab/experiment/endpoint_engine.h"

namespace afterimage {
namespace {

constexpr const char* kOracle = "oracle";
constexpr const char* kReference = "reference";
constexpr const char* kKeyVariable = "OPENAI_API_KEY";

/// An engine of this process that reuses nothing: the experiment measures the reuse of answers.
class LocalEngine final : public SampleEngine {
 public:
  LocalEngine(const Engine& engine, const ExperimentSpec& spec, const ImageRoots& images,
              const Clock& clock)
      : engine_(engine), images_(images), clock_(clock) {
    options_.max_tokens = TokenCount(static_cast<TokenCount::rep>(spec.max_tokens));
    options_.sampling.temperature = static_cast<float>(spec.temperature);
  }

  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    Message message{.role = Role::kUser};
    if (sample.content.has_value()) {
      AFI_TRY(FileBytes image, images_.bytes_of(sample));
      message.parts.emplace_back(MediaItem{.files = {std::move(image)}, .name = sample.image_path});
    }
    message.parts.emplace_back(prompt);
    const Request request{.id = RequestId(sample.dataset_id), .messages = {std::move(message)}};
    AFI_TRY(const Served served, serve_without_reuse(request, engine_, clock_, options_));
    return Answer{.text = served.completion.text,
                  .finish_reason = served.completion.ended ? "stop" : "length"};
  }

 private:
  const Engine& engine_;
  const ImageRoots& images_;
  const Clock& clock_;
  GenerateOptions options_;
};

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

Result<void> ExperimentEngines::load(const Clock& clock) {
  clock_ = &clock;
  if (wanted_ == kOracle) return {};
  if (wanted_.contains("://")) {
    AFI_TRY(const Url url, parse_url(wanted_));
    return {};
  }
  EngineArgs args;
  if (wanted_ != kReference) {
    if (!wanted_.ends_with(".gguf")) {
      return fail(
          ErrorCode::kInvalidArgument,
          "--engine: expected oracle, reference, a .gguf file or a URL, got '" + wanted_ + "'");
    }
    args.engine = "llama";
    args.llama.model = wanted_;
    args.llama.mmproj = mmproj_of(wanted_);
  }
  AFI_TRY(local_, make_engine(args, clock));
  return {};
}

Result<std::unique_ptr<SampleEngine>> ExperimentEngines::engine_for(
    const ExperimentSpec& spec, const ImageRoots& images) const {
  if (local_ != nullptr) return std::make_unique<LocalEngine>(*local_, spec, images, *clock_);
  if (wanted_ == kOracle) return std::make_unique<OracleEngine>();
  EndpointEngineOptions options{.model = spec.model,
                                .key = environment(kKeyVariable).value_or(""),
                                .max_tokens = static_cast<std::uint64_t>(spec.max_tokens),
                                .temperature = spec.temperature};
  AFI_TRY(options.url, parse_url(wanted_));
  return std::make_unique<EndpointEngine>(std::move(options), images);
}

}  // namespace afterimage
