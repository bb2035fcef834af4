// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "engines/llama_library/llama_options.h"

/// The engine options that several verbs share.
namespace afterimage {

struct EngineArgs {
  std::string engine = "reference";
  std::string size = "small";
  LlamaOptions llama;
  std::uint32_t context = 8'192;
  std::vector<std::string> adapters;  // PATH or PATH=SCALE
  bool fast = false;
  std::string reasoning = "auto";

  /// "reference (small)", "llama (dense.gguf)".
  [[nodiscard]] std::string name() const;
};

/// What a resumed request reuses of this engine's KV, in plain words.
[[nodiscard]] std::string prefix_words(const Engine& engine);

/// Adds --engine and its options, as one group of the help.
void add_engine_options(CLI::App& verb, EngineArgs& args);

/// Loads the engine; draws the progress on standard error if that is a terminal.
/// Errors   kInvalidArgument: options that contradict each other; otherwise the engine's errors.
Result<std::unique_ptr<Engine>> make_engine(const EngineArgs& args, const Clock& clock);

}  // namespace afterimage
