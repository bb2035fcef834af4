// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/engine_args.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>

#include "engines/llama/llama_engine.h"
#include "engines/reference/reference_engine.h"
#include "foundation/platform/terminal.h"

namespace afterimage {
namespace {

Result<std::unique_ptr<Engine>> make_reference(const std::string& size, const Clock& clock) {
  ReferenceOptions options = ReferenceOptions::small();
  if (size == "tiny") options = ReferenceOptions::tiny();
  if (size.starts_with("full")) options = ReferenceOptions::full();
  if (size.starts_with("flat")) options = ReferenceOptions::flat();
  if (size == "tiled") options = ReferenceOptions::tiled();
  if (size.ends_with("-mrope")) options = options.with_mrope();
  options.clock = &clock;
  return ReferenceEngine::create(std::move(options));
}

/// "lora.gguf" or "lora.gguf=0.5".
Result<LlamaAdapter> read_adapter(const std::string& text) {
  LlamaAdapter adapter{.path = text};
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) return adapter;
  adapter.path = text.substr(0, equals);
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + equals + 1, end, adapter.scale);
  if (read.ec == std::errc() && read.ptr == end) return adapter;
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("--adapter '{}': expected a number after '=', as in lora.gguf=0.5", text));
}

void draw_loading(std::string_view what, float share) {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(share * kWidth);
  fmt::print(stderr, "\rloading: {:<10} [{:=<{}}{:{}}] {:3.0f} %\033[K", what, "", filled, "",
             kWidth - filled, share * 100);
  if (share >= 1) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

Result<std::unique_ptr<Engine>> make_llama(const EngineArgs& args, const Clock& clock) {
  LlamaOptions options = args.llama;
  if (options.model.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--engine llama needs a model: add --model FILE.gguf, and --mmproj for images");
  }
  for (const std::string& text : args.adapters) {
    AFI_TRY(options.adapters.emplace_back(), read_adapter(text));
  }
  options.context = TokenCount(args.context);
  options.exact = !args.fast;
  if (args.reasoning != "auto") options.thinks = args.reasoning == "on";
  options.clock = &clock;
  if (standard_error_is_terminal()) options.progress = draw_loading;
  AFI_TRY(auto engine, LlamaEngine::create(std::move(options)));
  fmt::print(stderr, "{}\n", engine->description());
  return engine;
}

void add_llama_options(CLI::Option_group& group, EngineArgs& args) {
  group.add_option("--model", args.llama.model, "llama: the model file")->type_name("GGUF");
  group
      .add_option("--mmproj", args.llama.mmproj,
                  "llama: the model's encoder for images and "
                  "audio")
      ->type_name("GGUF");
  group
      .add_option("--adapter", args.adapters,
                  "llama: a LoRA adapter; append =SCALE for a "
                  "scale other than 1")
      ->type_name("GGUF");
  group
      .add_option("--context", args.context,
                  "llama: tokens of a prompt and its answer; at most the "
                  "model's own")
      ->capture_default_str()
      ->type_name("N");
  group
      .add_option("--lanes", args.llama.lanes,
                  "llama: requests computed concurrently; each takes the memory of one context")
      ->capture_default_str()
      ->type_name("N");
  group
      .add_option("--gpu-layers", args.llama.gpu_layers,
                  "llama: layers on the GPU, if llama.cpp was built for one; -1: all")
      ->capture_default_str()
      ->type_name("N");
  group.add_option("--threads", args.llama.threads, "llama: CPU threads; 0: one per core")
      ->capture_default_str()
      ->type_name("N");
  group
      .add_option("--image-min-tokens", args.llama.image_min_tokens,
                  "llama: tokens of a picture at least, for encoders of any size")
      ->type_name("N");
  group
      .add_option("--image-max-tokens", args.llama.image_max_tokens,
                  "llama: tokens of a picture at most, or of two frames of a video")
      ->type_name("N");
  group
      .add_option("--chat-template", args.llama.chat_template,
                  "llama: a chat template by name (chatml, gemma, …) instead of the model's own")
      ->type_name("NAME");
  group
      .add_option("--reasoning", args.reasoning,
                  "llama: whether models think before they answer, for requests that do not say")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  group
      .add_option("--pooling", args.llama.pooling,
                  "llama: how embeddings are pooled, instead of the model's own way")
      ->check(CLI::IsMember({"mean", "cls", "last"}));
  group.add_flag("--fast", args.fast,
                 "llama: attention windows take less memory; outputs with and without reuse\n"
                 "then differ in the last bits");
  group
      .add_option("--kernels", args.llama.kernels,
                  "llama: what computes on the CPU: our kernels for a kind of processor, or "
                  "llama.cpp's\n"
                  "own (library); by default the fastest of ours that the processor has")
      ->check(CLI::IsMember({"avx512", "avx2", "neon-dot", "neon", "library"}));
}

}  // namespace

std::string EngineArgs::name() const {
  if (engine != "llama") return fmt::format("{} ({})", engine, size);
  return fmt::format("llama ({})", std::filesystem::path(llama.model).filename().string());
}

std::string prefix_words(const Engine& engine) {
  const KvLayout* const layout = engine.kv_layout();
  if (layout == nullptr) return "KV prefixes are not cached: the engine's KV cannot be reused";
  std::string words =
      fmt::format("KV prefixes are cached; requests resume from them {}",
                  engine.exactness().exact ? "exactly" : "with rounding differences");
  for (const LayerGroup& group : layout->groups) {
    if (group.kind == KvKind::kFull) words += "; full attention";
    if (group.kind == KvKind::kSliding)
      words += fmt::format("; sliding window {}", group.window.value());
    if (group.kind == KvKind::kRecurrent) words += "; recurrent state";
  }
  return words;
}

void add_engine_options(CLI::App& verb, EngineArgs& args) {
  auto* const group = verb.add_option_group("Engine");
  group
      ->add_option("--engine", args.engine,
                   "The engine: the built-in reference model, or llama.cpp with your own model")
      ->check(CLI::IsMember({"reference", "llama"}))
      ->capture_default_str();
  group
      ->add_option("--size", args.size,
                   "Size of the reference model: tiny is instant, small takes measurable time. Of\n"
                   "small's sizes, with full attention only: full has four layers, flat has one;\n"
                   "tiled: small, with images cut into tiles and audio into windows of two seconds")
      ->check(CLI::IsMember({"tiny", "small", "full", "full-mrope", "flat", "flat-mrope", "tiled"}))
      ->capture_default_str();
  add_llama_options(*group, args);
}

Result<std::unique_ptr<Engine>> make_engine(const EngineArgs& args, const Clock& clock) {
  return args.engine == "llama" ? make_llama(args, clock) : make_reference(args.size, clock);
}

}  // namespace afterimage
