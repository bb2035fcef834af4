// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/prompt_media.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace afterimage {

Result<PromptMedia> prompt_media(const LoadedModel& model, const Sequence& prompt,
                                 std::size_t index, const TensorViews& views) {
  PromptMedia media;
  AFI_TRY(media.parts, parts_of(views[1]));
  const TokenCount length = prompt.spans[index].length;
  if (length_of(media.parts) != length) {
    return fail(ErrorCode::kInvalidArgument,
                "media item " + std::to_string(index + 1) + " has embeddings for " +
                    std::to_string(length_of(media.parts).value()) + " tokens, but " +
                    std::to_string(length.value()) + " tokens in the prompt");
  }
  for (const SpanPart& part : media.parts) {
    const auto* const text = std::get_if<SpanText>(&part);
    if (text == nullptr ||
        std::ranges::all_of(*text, [&](TokenId token) { return model.is_in_vocabulary(token); })) {
      continue;
    }
    return fail(ErrorCode::kCorruption, "a media item has tokens outside the vocabulary");
  }
  const std::span<const std::byte> bytes = views[0].bytes();
  const std::size_t floats = bytes.size() / sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0) {
    media.rows = {reinterpret_cast<const float*>(bytes.data()), floats};
    return media;
  }
  media.aligned.resize(floats);
  std::memcpy(media.aligned.data(), bytes.data(), bytes.size());
  media.rows = media.aligned;
  return media;
}

Result<std::vector<float>> llama_hidden_state(const LoadedModel& model, const Sequence& prompt,
                                              std::span<const TensorViews> embeddings) {
  std::vector<PromptMedia> media;
  for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
    AFI_TRY(PromptMedia one, prompt_media(model, prompt, i, embeddings[i]));
    media.push_back(std::move(one));
  }
  const std::span<const TokenId> tokens = prompt.tokens;
  std::vector<LoadedModel::PromptPart> parts;
  std::size_t at = 0;
  for (std::size_t i = 0; i < media.size(); ++i) {
    const std::size_t begin = prompt.spans[i].offset.value();
    if (at < begin) parts.push_back({.text = tokens.subspan(at, begin - at)});
    at = prompt.spans[i].end().value();
    std::span<const float> left = media[i].rows;
    for (const SpanPart& part : media[i].parts) {
      const auto own = left.first(length_of(part).value() * model.facts().row_width);
      left = left.subspan(own.size());
      if (const auto* text = std::get_if<SpanText>(&part)) {
        parts.push_back({.text = *text});
      } else {
        parts.push_back({.media = &std::get<SpanMedia>(part), .rows = own});
      }
    }
  }
  parts.push_back({.text = tokens.subspan(at)});
  return model.hidden_state(parts);
}

}  // namespace afterimage
