// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gateway/prompts/keyed_print.h"

namespace afterimage {

/// What a word looks like.
enum class WordShape : unsigned char {
  kText,         // letters
  kPunctuation,  // no word: what stands before the first one
  kNumber,
  kDate,      // 2026-11-29, 29.11.2026
  kTime,      // 14:05, 14:05:59.123Z
  kUnixTime,  // of these decades, in seconds to nanoseconds
  kCalendar,  // November, Sun, 年: makes a date of numbers beside it
  kClock,     // AM, UTC: makes a time of numbers beside it
  kId,        // a UUID, or a prefix and random characters
  kHash,      // 16 or more hexadecimal or base64 digits
  kNonce,     // letters mixed with digits
};

/// A word of a text with what stands behind it up to the next word.
struct WordPrint {
  std::uint32_t digest = 0;  // of all of it
  /// Of the word alone; of a number its value, plus a secret: differences of two can be seen.
  std::uint16_t word = 0;
  std::uint8_t length = 0;  // of all of it, in bytes; longer words are several
  WordShape shape = WordShape::kText;
  bool operator==(const WordPrint&) const = default;
};
static_assert(sizeof(WordPrint) == 8);

/// The words of the first 64 KiB of a text.
inline constexpr std::size_t kPrintedBytes = 64UL * 1024;

/// Appends the words of `text`. From these nobody without the key can tell the words.
/// Cost     About 20 ns a word.
/// Threads  Any.
void append_words(std::vector<WordPrint>& out, std::string_view text, const PrintKey& key);

}  // namespace afterimage
