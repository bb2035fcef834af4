// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/answer_cache.h"
#include "gateway/openai/request.h"
#include "gateway/openai/vector_response.h"

namespace afterimage {

/// A batch of embeddings some of whose vectors are stored: what it was, and what is known of its answer.
struct EmbeddingBatch {
  // Of the whole batch; while the rest is asked for, the request's subject is the rest.
  std::shared_ptr<const std::string> body;
  std::shared_ptr<const ApiRequest> api;
  Question question;
  std::vector<Question> inputs;
  std::optional<Question> frame_of;

  std::vector<std::optional<std::string>>
      vectors;                    // by input, at its position; nullopt: to be asked for
  std::vector<std::size_t> rest;  // those inputs
  std::array<std::uint64_t, 4> erasures = {};         // counts, before they were looked up
  std::optional<AnswerLookup> oldest = std::nullopt;  // of the stored vectors
  Duration saved{0};
  std::uint32_t prompt_tokens = 0;                     // of those that were asked for alone
  std::optional<VectorResponse> frame = std::nullopt;  // of one of these, or of the whole
  VectorResponse::Usage usage = VectorResponse::Usage::kNothing;  // of the frame
  std::optional<VectorResponse> answer = std::nullopt;            // the server's, for the rest
  bool is_rest = false;  // the rest is asked for; else the whole

  [[nodiscard]] std::size_t found() const { return vectors.size() - rest.size(); }
};

/// "X-Afterimage-Cached-Inputs: 2 of 3", of an answer to a batch some of whose vectors were stored.
inline constexpr std::string_view kCachedInputs = "X-Afterimage-Cached-Inputs";

}  // namespace afterimage
