// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "lab/experiment/experiment.h"

namespace afterimage {

/// What answers the samples of `experiment` and `sweep`: the data set itself, the built-in engine,
/// llama.cpp in this process, or a server.
///
/// Threads  Not thread-safe.
class ExperimentEngines {
 public:
  /// Adds --engine.
  CLI::Option* add_option(CLI::App& verb);
  /// Loads what is asked for. kInvalidArgument: it names no engine. Errors of loading.
  Result<void> load(const Clock& clock);
  /// An engine for one experiment. `images` outlives it, and the object does.
  [[nodiscard]] Result<std::unique_ptr<SampleEngine>> engine_for(const ExperimentSpec& spec,
                                                                 const ImageRoots& images) const;

 private:
  std::string wanted_ = "oracle";
  std::unique_ptr<Engine> local_;  // nullptr: oracle or a server
  const Clock* clock_ = nullptr;
};

}  // namespace afterimage
