// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/answer_match.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace afterimage {
namespace {

/// The next code point and its number of bytes; bytes that are not UTF-8 count as themselves.
std::pair<std::uint32_t, std::size_t> code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return static_cast<unsigned char>(text[i]);
  };
  const std::uint32_t first = byte(0);
  const std::size_t size = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (size == 1 || text.size() < size) return {first, 1};
  std::uint32_t point = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {first, 1};
    point = point << 6U | (byte(i) & 0x3FU);
  }
  return {point, size};
}

bool within(std::uint32_t point, std::uint32_t first, std::uint32_t last) {
  return point >= first && point <= last;
}

std::uint32_t to_lower(std::uint32_t point) {
  if (within(point, 'A', 'Z') || within(point, 0x0410, 0x042F)) return point + 32;
  if ((within(point, 0xC0, 0xDE) && point != 0xD7) || within(point, 0x0391, 0x03A9)) {
    return point + 32;
  }
  return within(point, 0x0400, 0x040F) ? point + 80 : point;
}

/// Letters and digits; in other scripts everything outside the punctuation blocks.
bool is_of_word(std::uint32_t point) {
  if (point < 0x80) {
    return within(point, 'a', 'z') || within(point, 'A', 'Z') || within(point, '0', '9');
  }
  return !within(point, 0x80, 0xBF) && !within(point, 0x2000, 0x206F) && point != 0xD7 &&
         !within(point, 0x3000, 0x303F) && !within(point, 0xFF00, 0xFF0F) &&
         !within(point, 0xFF1A, 0xFF20);
}

/// Han, Kana, Thai, Lao, Khmer and Burmese: scripts without spaces between words.
bool is_unspaced(std::uint32_t point) {
  return within(point, 0x3040, 0x30FF) || within(point, 0x3400, 0x9FFF) ||
         within(point, 0xF900, 0xFAFF) || within(point, 0x20000, 0x3FFFF) ||
         within(point, 0x0E00, 0x0EFF) || within(point, 0x1780, 0x17FF) ||
         within(point, 0x1000, 0x109F);
}

using Word = std::vector<std::uint32_t>;

bool is_digit(std::uint32_t point) { return within(point, '0', '9'); }

/// A sign before a number, or a point within one: 5 is in neither -5 nor 1.5.
bool is_of_number(std::uint32_t point, const Word* word, std::string_view after) {
  if (after.empty() || !is_digit(static_cast<unsigned char>(after.front()))) return false;
  if (word == nullptr) return point == '-' || point == 0x2212;
  return point == '.' && is_digit(word->back());
}

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  bool in_word = false;
  while (!text.empty()) {
    const auto [point, size] = code_point(text);
    text.remove_prefix(size);
    if (is_of_number(point, in_word ? &words.back() : nullptr, text)) {
      if (!in_word) words.emplace_back();
      words.back().push_back(point == '.' ? '.' : '-');
      in_word = true;
    } else if (in_word && (point == '+' || point == '#')) {
      words.back().push_back(point);
    } else if (!is_of_word(point)) {
      in_word = false;
    } else {
      if (!in_word || is_unspaced(point)) words.emplace_back();
      words.back().push_back(to_lower(point));
      in_word = !is_unspaced(point);
    }
  }
  return words;
}

}  // namespace

std::optional<bool> answer_matches(std::string_view output, std::string_view reference) {
  if (reference.empty()) return std::nullopt;
  const std::vector<Word> sought = words_of(reference);
  if (sought.empty()) return output == reference;
  const std::vector<Word> words = words_of(output);
  return !std::ranges::search(words, sought).empty();
}

}  // namespace afterimage
