// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "engines/llama/llama_options.h"

/// The engine that a verb computes with, as a call names it.
namespace afterimage {

struct EngineArgs {
  std::string engine = "reference";
  std::string size = "small";
  LlamaOptions llama;
  std::uint32_t context = 8'192;
  std::vector<std::string> adapters;  // PATH or PATH=SCALE
  bool fast = false;

  /// "reference (small)", "llama (dense.gguf)".
  [[nodiscard]] std::string name() const;
};

/// --engine and what goes with it, in a group of the help.
void add_engine_options(CLI::App& verb, EngineArgs& call);

/// Loads it, and draws how far that is on the standard error if somebody looks. kInvalidArgument:
/// options that do not go together; else what the engine says.
Result<std::unique_ptr<Engine>> make_engine(const EngineArgs& call, const Clock& clock);

}  // namespace afterimage
