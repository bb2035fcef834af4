// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "caches/similarity/embedder.h"
#include "lab/experiment/experiment.h"

namespace afterimage {

/// What answers the samples of `experiment` and `sweep`: the data set itself, the built-in engine,
/// llama.cpp in this process, or a server; and what makes the vectors of their questions. Each model
/// is loaded once.
///
/// Threads  Not thread-safe.
class ExperimentEngines {
 public:
  /// Adds --engine.
  CLI::Option* add_option(CLI::App& verb);
  /// What --engine says: for experiments that name no engine.
  [[nodiscard]] const std::string& wanted() const { return wanted_; }
  /// The model that it is: for experiments that name none.
  [[nodiscard]] std::string wanted_model() const;
  /// Loads that one. kInvalidArgument: it names no engine. Errors of loading.
  Result<void> load(const Clock& clock);
  /// The engine of one experiment. `images` outlives it, and the object does. Errors of load().
  [[nodiscard]] Result<std::unique_ptr<SampleEngine>> engine_for(const ExperimentSpec& spec,
                                                                 const ImageRoots& images);
  /// What makes the vectors of an experiment's keys; nullptr: what is built in. Errors of loading.
  [[nodiscard]] Result<Embedder*> encoder_for(const ExperimentSpec& spec);

 private:
  /// An engine of this process; nullptr: `name` is the oracle or a server.
  Result<const Engine*> local(const std::string& name);

  std::string wanted_ = "oracle";
  std::map<std::string, std::unique_ptr<Engine>> local_;
  std::map<std::string, std::unique_ptr<Embedder>> encoders_;
  const Clock* clock_ = nullptr;
};

}  // namespace afterimage
