// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "engines/llama_library/llama_options.h"
#include "engines/llama_library/loaded_model.h"

namespace afterimage {

/// Increment on every change to how media become embeddings or KV becomes rows.
inline constexpr const char* kLlamaRevision = "1";

/// Reads the files of a model, and names them by their content, on a thread of its own: the library loads them
/// meanwhile. Destroying it stops the reading.
class ModelFiles {
 public:
  struct Names {
    std::string weights;
    std::string encoder;                // empty: the model has none
    std::vector<std::string> adapters;  // in the order of the options
  };

  explicit ModelFiles(const LlamaOptions& options);
  /// Waits. Once only. Errors as of content_name().
  Result<Names> names() { return names_.get(); }

 private:
  std::promise<Result<Names>> promise_;
  std::future<Result<Names>> names_ = promise_.get_future();
  std::jthread reader_;  // last: it uses the promise
};

/// Everything that affects a row; files are identified by content, not by name. `exact`: as the self-check found.
ModelIdentity identity_of(const LlamaOptions& options, const LoadedModel& model,
                          const ModelFiles::Names& files, bool exact);

}  // namespace afterimage
