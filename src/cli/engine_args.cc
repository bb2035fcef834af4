// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/engine_args.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>

#include "afterimage/reference_engine.h"
#include "engines/llama/llama_engine.h"
#include "foundation/platform/terminal.h"

namespace afterimage {
namespace {

Result<std::unique_ptr<Engine>> make_reference(const std::string& size, const Clock& clock) {
  ReferenceOptions options = size == "tiny" ? ReferenceOptions::tiny() : ReferenceOptions::small();
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
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--adapter '{}': a number belongs behind '='", text));
}

void draw_loading(std::string_view what, float share) {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(share * kWidth);
  fmt::print(stderr, "\rloading {:<7} [{:=<{}}{:{}}] {:3.0f} %\033[K", what, "", filled, "",
             kWidth - filled, share * 100);
  if (share >= 1) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

Result<std::unique_ptr<Engine>> make_llama(const EngineArgs& call, const Clock& clock) {
  LlamaOptions options = call.llama;
  if (options.model.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--engine llama needs a model: --model FILE.gguf; for pictures --mmproj, too");
  }
  for (const std::string& text : call.adapters) {
    AFI_TRY(options.adapters.emplace_back(), read_adapter(text));
  }
  options.context = TokenCount(call.context);
  options.exact = !call.fast;
  options.clock = &clock;
  if (standard_error_is_terminal()) options.progress = draw_loading;
  AFI_TRY(auto engine, LlamaEngine::create(std::move(options)));
  fmt::print(stderr, "{}\n", engine->description());
  return engine;
}

}  // namespace

std::string EngineArgs::name() const {
  if (engine != "llama") return fmt::format("{} ({})", engine, size);
  return fmt::format("llama ({})", std::filesystem::path(llama.model).filename().string());
}

void add_engine_options(CLI::App& verb, EngineArgs& call) {
  auto* const group = verb.add_option_group("Engine");
  group
      ->add_option("--engine", call.engine,
                   "Which engine computes: the built-in one, or llama.cpp with a model of yours")
      ->check(CLI::IsMember({"reference", "llama"}))
      ->capture_default_str();
  group
      ->add_option("--size", call.size,
                   "Of the built-in engine: tiny is instant, small takes real time")
      ->check(CLI::IsMember({"tiny", "small"}))
      ->capture_default_str();
  group->add_option("--model", call.llama.model, "llama: the model")->type_name("GGUF");
  group->add_option("--mmproj", call.llama.mmproj, "llama: its encoder of pictures and sounds")
      ->type_name("GGUF");
  group->add_option("--adapter", call.adapters, "llama: a LoRA adapter, with =SCALE if not 1")
      ->type_name("GGUF");
  group->add_option("--context", call.context, "llama: tokens of one request and its answer")
      ->capture_default_str()
      ->type_name("N");
  group
      ->add_option("--lanes", call.llama.lanes,
                   "llama: requests computed at a time, each with a context's memory")
      ->capture_default_str()
      ->type_name("N");
  group
      ->add_option("--gpu-layers", call.llama.gpu_layers,
                   "llama: layers on the GPU, if it is built for one; -1: all")
      ->capture_default_str()
      ->type_name("N");
  group->add_option("--threads", call.llama.threads, "llama: 0: as many as there are cores")
      ->capture_default_str()
      ->type_name("N");
  group
      ->add_option("--chat-template", call.llama.chat_template,
                   "llama: a template by name (chatml, gemma, …), not the model's own")
      ->type_name("NAME");
  group->add_flag("--fast", call.fast,
                  "llama: fused attention and small windows; what is resumed then differs in the\n"
                  "last bits of what is not");
}

Result<std::unique_ptr<Engine>> make_engine(const EngineArgs& call, const Clock& clock) {
  return call.engine == "llama" ? make_llama(call, clock) : make_reference(call.size, clock);
}

}  // namespace afterimage
