// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/sample_engine.h"

#include <fmt/format.h>

namespace afterimage {

Result<std::vector<float>> SampleEngine::state(const Sample& /*sample*/,
                                               const std::string& /*prompt*/,
                                               EngineState /*which*/) {
  return fail(ErrorCode::kUnsupported,
              "this engine does not expose its states: use --engine reference or a GGUF file");
}

Result<Answer> OracleEngine::answer(const Sample& sample, const std::string& /*prompt*/) {
  const std::string& reference = sample.answer.empty() ? sample.full_answer : sample.answer;
  if (reference.empty()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("the data set has no answer to {}", sample.dataset_id));
  }
  return Answer{.text = reference, .finish_reason = "stop", .model = "oracle"};
}

}  // namespace afterimage
