// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "afterimage/engine.h"
#include "foundation/platform/random.h"
#include "testing/media_files.h"

/// Prompts for any engine: text, and the media that it supports.
namespace afterimage::testing {

/// Embeddings are views into the PromptMaker that created it.
struct EnginePrompt {
  Sequence sequence;
  std::vector<TensorViews> embeddings;

  [[nodiscard]] TokenCount size() const {
    return TokenCount(static_cast<std::uint32_t>(sequence.tokens.size()));
  }
};

/// A conversation of `head`, `answer` and `tail`.
inline EnginePrompt continued(EnginePrompt head, std::span<const TokenId> answer,
                              const EnginePrompt& tail) {
  auto& tokens = head.sequence.tokens;
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  const TokenCount shift = head.size();
  tokens.insert(tokens.end(), tail.sequence.tokens.begin(), tail.sequence.tokens.end());
  for (MediaSpan span : tail.sequence.spans) {
    span.offset += shift;
    head.sequence.spans.push_back(span);
  }
  head.embeddings.insert(head.embeddings.end(), tail.embeddings.begin(), tail.embeddings.end());
  return head;
}

/// `prompt` as presented together with a state of `covered` tokens: without unneeded embeddings.
inline EnginePrompt without_covered_embeddings(EnginePrompt prompt, TokenCount covered) {
  for (std::size_t i = 0; i < prompt.embeddings.size(); ++i) {
    if (prompt.sequence.spans[i].end() <= covered) prompt.embeddings[i].clear();
  }
  return prompt;
}

class PromptMaker {
 public:
  using Part = std::variant<std::string, std::size_t>;  // text, or the index of a media item

  explicit PromptMaker(const Engine& engine) : engine_(engine) {
    std::vector<float> wave(5'000);
    for (std::size_t i = 0; i < wave.size(); ++i) wave[i] = static_cast<float>(i % 40) / 80.0F;
    std::vector<FileContent> frames;
    for (std::uint32_t i = 1; i < 4; ++i) frames.push_back(make_png(make_picture(16, 16, i)));
    offer(media_item(Modality::kImage, make_png(make_picture(40, 24, 1))));
    offer(media_item(Modality::kImage, make_png(make_picture(8, 8, 2))));
    offer(media_item(Modality::kAudio, make_wav(wave, 16'000)));
    offer(folder_item(std::move(frames), 1'000));
  }
  PromptMaker(const PromptMaker&) = delete;
  PromptMaker& operator=(const PromptMaker&) = delete;

  /// Media items that this engine supports.
  [[nodiscard]] std::size_t media() const { return media_.size(); }
  [[nodiscard]] std::vector<MediaItem> items() const {
    std::vector<MediaItem> all;
    for (const Encoded& encoded : media_) all.push_back(encoded.item);
    return all;
  }

  [[nodiscard]] EnginePrompt of(const std::vector<Part>& parts) const {
    Message message{.role = Role::kUser, .parts = {}};
    std::vector<ContentDigest> contents;
    EnginePrompt prompt;
    for (const Part& part : parts) {
      if (const auto* text = std::get_if<std::string>(&part)) {
        message.parts.emplace_back(*text);
        continue;
      }
      const std::size_t index = std::get<std::size_t>(part);
      message.parts.emplace_back(media_[index].item);
      contents.emplace_back().bytes[0] = std::byte(index + 1);
      prompt.embeddings.push_back(views_of(media_[index].output).value());
    }
    Request request;
    request.messages.push_back(std::move(message));
    prompt.sequence = engine_.prepare(request, contents).value();
    return prompt;
  }

  /// Every media item with text in between, then text up to `length` tokens.
  [[nodiscard]] EnginePrompt everything(std::size_t length = 0) const {
    std::vector<Part> parts{"Compare "};
    for (std::size_t i = 0; i < media(); ++i) {
      parts.emplace_back(i);
      if (i % 2 == 0) parts.emplace_back("and");  // some media are adjacent
    }
    EnginePrompt prompt = of(parts);
    while (prompt.size().value() < length) {
      parts.emplace_back("more and more ");
      prompt = of(parts);
    }
    return prompt;
  }

  [[nodiscard]] EnginePrompt random(Rng& rng) const {
    std::vector<Part> parts{random_text(12 + rng.below(20), rng)};
    for (std::uint64_t more = rng.below(4); more > 0; --more) {
      if (media() > 0 && rng.chance(0.6)) {
        parts.emplace_back(static_cast<std::size_t>(rng.below(media())));
      } else {
        parts.emplace_back(random_text(1 + rng.below(30), rng));
      }
    }
    EnginePrompt prompt = of(parts);
    for (MediaSpan& span : prompt.sequence.spans) {
      span.splittable = span.splittable && rng.chance(0.7);
    }
    return prompt;
  }

 private:
  struct Encoded {
    MediaItem item;
    EncoderOutput output;
  };

  void offer(MediaItem item) {
    auto output = engine_.encode(item);
    if (output.has_value()) {
      media_.push_back({std::move(item), *std::move(output)});
    } else {
      EXPECT_EQ(output.error().code, ErrorCode::kUnsupported) << to_string(output.error());
    }
  }

  static std::string random_text(std::uint64_t length, Rng& rng) {
    std::string text;
    for (; length > 0; --length) text += static_cast<char>('a' + rng.below(26));
    return text;
  }

  const Engine& engine_;
  std::vector<Encoded> media_;
};

}  // namespace afterimage::testing
