// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <utility>

#include "foundation/http/url.h"
#include "lab/experiment/experiment.h"

namespace afterimage {

/// Where a model answers, and how it is asked.
struct EndpointEngineOptions {
  Url url;            // of the server, its /v1/chat/completions, or what is before that
  std::string model;  // as the server names it
  std::string key;    // empty: none
  std::uint64_t max_tokens = 64;
  double temperature = 0;
  Duration deadline = std::chrono::minutes(5);  // of one answer
};

/// A model behind an OpenAI-compatible server: each prompt is one chat request, with the sample's
/// image as a data URL.
///
/// Errors   kTimeout; kUnavailable: no answer, or not with 200; the message says what the server
///          says. kCorruption: not an answer of that API.
/// Threads  One at a time.
class EndpointEngine final : public SampleEngine {
 public:
  /// `images` outlives the engine.
  EndpointEngine(EndpointEngineOptions options, const ImageRoots& images)
      : options_(std::move(options)), images_(images) {}
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override;
  [[nodiscard]] std::optional<std::uint64_t> reused_tokens() const override {
    return reused_tokens_;
  }

 private:
  const EndpointEngineOptions options_;
  const ImageRoots& images_;
  std::optional<std::uint64_t> reused_tokens_;
};

}  // namespace afterimage
