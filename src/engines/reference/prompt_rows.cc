// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/prompt_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "engines/reference/token_places.h"
#include "engines/reference/tokenizer.h"

namespace afterimage {
namespace {

std::string name_of(const Sequence& prompt, std::size_t span) {
  return "span " + std::to_string(span) + " (" +
         std::string(to_string(prompt.spans[span].modality)) + " at token " +
         std::to_string(prompt.spans[span].offset.value()) + ")";
}

bool is_placeholder(TokenId id) {
  return id == token(SpecialToken::kImage) || id == token(SpecialToken::kAudio) ||
         id == token(SpecialToken::kVideo);
}

Result<void> check_token(const Sequence& prompt, std::size_t position, bool inside_span) {
  const auto id = static_cast<std::int64_t>(prompt.tokens[position]);
  if (id < 0 || id >= static_cast<std::int64_t>(kVocabulary)) {
    return fail(ErrorCode::kInvalidArgument,
                "token " + std::to_string(id) + " at " + std::to_string(position) +
                    "; the vocabulary has " + std::to_string(kVocabulary));
  }
  if (!inside_span && is_placeholder(prompt.tokens[position])) {
    return fail(ErrorCode::kInvalidArgument,
                "a media placeholder outside every span, at token " + std::to_string(position));
  }
  return {};
}

// Placeholders must be inside spans and only there.
Result<void> check_tokens(const Sequence& prompt) {
  std::size_t position = 0;
  for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
    const MediaSpan& span = prompt.spans[i];
    for (; position < span.offset.value(); ++position) {
      AFI_TRY_VOID(check_token(prompt, position, false));
    }
    for (; position < span.end().value(); ++position) {
      AFI_TRY_VOID(check_token(prompt, position, true));
      if (prompt.tokens[position] == placeholder(span.modality)) continue;
      return fail(ErrorCode::kInvalidArgument, name_of(prompt, i) + " covers token " +
                                                   std::to_string(position) +
                                                   ", which is not its placeholder");
    }
  }
  for (; position < prompt.tokens.size(); ++position) {
    AFI_TRY_VOID(check_token(prompt, position, false));
  }
  return {};
}

Result<void> check_tensors(const std::string& name, const TensorViews& tensors, std::size_t count,
                           const Shape& shape) {
  if (tensors.size() != count) {
    return fail(ErrorCode::kInvalidArgument, name + " has " + std::to_string(tensors.size()) +
                                                 " tensors; this model takes " +
                                                 std::to_string(count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i].dtype() == DType::kF32 && tensors[i].shape() == shape) continue;
    return fail(ErrorCode::kInvalidArgument, name + ": tensor " + std::to_string(i) + " is " +
                                                 std::string(to_string(tensors[i].dtype())) +
                                                 to_string(tensors[i].shape()) +
                                                 "; the span requires f32" + to_string(shape));
  }
  return {};
}

std::vector<float> first_numbers(const TensorView& tensor, std::size_t count) {
  std::vector<float> numbers(count);
  std::memcpy(numbers.data(), tensor.bytes().data(), count * sizeof(float));
  return numbers;
}

}  // namespace

Result<PromptRows> PromptRows::of(const Sequence& prompt, std::span<const TensorViews> embeddings,
                                  const Wanted& wanted) {
  AFI_TRY_VOID(check_sequence(prompt));
  AFI_TRY_VOID(check_tokens(prompt));
  if (embeddings.size() != prompt.spans.size()) {
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(embeddings.size()) + " embeddings for " +
                    std::to_string(prompt.spans.size()) + " media spans");
  }
  PromptRows result;
  for (const TokenId id : prompt.tokens) {
    result.rows_.push_back({.token = id});
  }
  if (wanted.places) {
    result.places_ = mrope_places(prompt);
    for (std::size_t i = 0; i < result.rows_.size(); ++i)
      result.rows_[i].place = &result.places_[i];
  }
  const std::size_t hidden = wanted.hidden;
  for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
    const MediaSpan& span = prompt.spans[i];
    const auto moved = std::ranges::find(wanted.moved, i, &MovedMedia::span);
    const std::size_t computed =
        (moved == wanted.moved.end() ? span.length : moved->recomputed).value();
    if (span.end() <= wanted.covered || computed == 0) continue;
    const std::size_t tensors = span.modality == Modality::kAudio ? 1 : 1 + wanted.planes;
    AFI_TRY_VOID(check_tensors(name_of(prompt, i), embeddings[i], tensors,
                               Shape{span.length.value(), hidden}));
    for (std::size_t t = 0; t < tensors; ++t) {
      const std::vector<float>& numbers =
          result.copies_.emplace_back(first_numbers(embeddings[i][t], computed * hidden));
      for (std::size_t row = 0; row < computed; ++row) {
        InputRow& input = result.rows_[span.offset.value() + row];
        (t == 0 ? input.media : input.planes[t - 1]) = numbers.data() + row * hidden;
      }
    }
  }
  return result;
}

}  // namespace afterimage
