// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/hashed_ngrams.h"

#include <xxhash.h>

#include <algorithm>

#include "caches/similarity/dot.h"

namespace afterimage {
namespace {

/// Separates feature kinds, so that a word and an equal n-gram hash differently.
enum class Feature : std::uint64_t { kWord = 1, kPair = 2, kPiece = 3 };

constexpr std::size_t kShortestPiece = 3;
constexpr std::size_t kLongestPiece = 5;

void add(std::span<float> vector, Feature kind, std::string_view text, float weight) {
  const std::uint64_t hash =
      XXH3_64bits_withSeed(text.data(), text.size(), static_cast<std::uint64_t>(kind));
  const bool negative = (hash >> 63U) != 0;
  vector[(hash & 0xFFFF'FFFFU) % vector.size()] += negative ? -weight : weight;
}

bool is_part_of_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' ||
         c == '+' || c == '#';
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool part = is_part_of_word(c);
    if (part && !inside) words.emplace_back();
    if (part) words.back().push_back(c);
    inside = part;
  }
  return words;
}

void add_pieces(std::span<float> vector, const std::string& word) {
  const std::string padded = " " + word + " ";
  std::size_t pieces = 0;
  for (std::size_t n = kShortestPiece; n <= std::min(kLongestPiece, padded.size()); ++n) {
    pieces += padded.size() - n + 1;
  }
  for (std::size_t n = kShortestPiece; n <= std::min(kLongestPiece, padded.size()); ++n) {
    for (std::size_t at = 0; at + n <= padded.size(); ++at) {
      add(vector, Feature::kPiece, std::string_view(padded).substr(at, n),
          1.0F / static_cast<float>(pieces));
    }
  }
}

Vector embed_text(std::string_view text, std::size_t dimensions) {
  Vector vector(dimensions, 0.0F);
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    add(vector, Feature::kWord, words[i], 1.0F);
    add_pieces(vector, words[i]);
    if (i > 0) add(vector, Feature::kPair, words[i - 1] + ' ' + words[i], 0.5F);
  }
  normalize(vector);
  return vector;
}

}  // namespace

HashedNgrams::HashedNgrams(std::size_t dimensions)
    : dimensions_(dimensions), name_("hashed-ngrams-1/" + std::to_string(dimensions)) {}

Result<HashedNgrams> HashedNgrams::create(std::size_t dimensions) {
  if (dimensions < 16 || dimensions > 65'536) {
    return fail(ErrorCode::kInvalidArgument,
                "hashed n-grams have 16 to 65536 dimensions, not " + std::to_string(dimensions));
  }
  return HashedNgrams(dimensions);
}

Result<std::vector<Vector>> HashedNgrams::embed(std::span<const EmbedInput> inputs) {
  std::vector<Vector> vectors;
  for (const EmbedInput& input : inputs) {
    const auto* text = std::get_if<std::string_view>(&input);
    if (text == nullptr) {
      return fail(ErrorCode::kUnsupported, name_ + " embeds texts only; the input is an image");
    }
    vectors.push_back(embed_text(*text, dimensions_));
  }
  return vectors;
}

}  // namespace afterimage
