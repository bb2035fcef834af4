// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/word_prints.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

constexpr std::size_t kLongestWord = 200;
constexpr std::size_t kLongestForeign = 48;
constexpr std::size_t kLongestPrint = 255;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_upper(c) || is_lower(c); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_foreign(char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_ascii_word(char c) { return is_word(c) && !is_foreign(c); }

bool all(std::string_view text, auto is) { return !text.empty() && std::ranges::all_of(text, is); }

/// The numbers of a text with two of one separator between them.
struct ThreeNumbers {
  std::array<std::size_t, 3> digits{};
  bool found = false;
};
ThreeNumbers three_numbers(std::string_view word, std::string_view separators) {
  ThreeNumbers read;
  const std::size_t first = word.find_first_of(separators);
  if (first == std::string_view::npos) return read;
  const std::size_t second = word.find(word[first], first + 1);
  if (second == std::string_view::npos) return read;
  const std::array<std::string_view, 3> parts{
      word.substr(0, first), word.substr(first + 1, second - first - 1), word.substr(second + 1)};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!all(parts[i], is_digit)) return read;
    read.digits[i] = parts[i].size();
  }
  read.found = true;
  return read;
}

/// 2026-11-29, 29.11.2026, 11/29/26, 20261129.
bool is_date(std::string_view word) {
  if (word.size() == 8 && all(word, is_digit)) {
    return (word.starts_with("19") || word.starts_with("20")) && word.substr(4, 2) <= "12" &&
           word.substr(6, 2) <= "31";
  }
  const ThreeNumbers read = three_numbers(word, "-./");
  if (!read.found || read.digits[1] > 2) return false;
  return (read.digits[0] == 4 && read.digits[2] <= 2) ||
         (read.digits[0] <= 2 && (read.digits[2] == 4 || (read.digits[2] == 2 && word.size() > 6)));
}

/// 14:05, T14:05:59.123Z, 14:05:59+02:00, 2:05pm.
bool is_time(std::string_view word) {
  if (word.starts_with('T')) word.remove_prefix(1);
  const std::size_t colon = word.find(':');
  if (colon == 0 || colon > 2 || word.size() < colon + 3) return false;
  if (!all(word.substr(0, colon), is_digit) || !all(word.substr(colon + 1, 2), is_digit)) {
    return false;
  }
  return std::ranges::all_of(word.substr(colon + 3), [](char c) {
    return is_digit(c) || std::string_view(":.+-ZAPMapm").contains(c);
  });
}

/// In seconds, milliseconds, microseconds or nanoseconds.
bool is_unix_time(std::string_view digits) {
  const auto size = digits.size();
  return digits.starts_with('1') && (size == 10 || size == 13 || size == 16 || size == 19);
}

/// A short word in lower case as one number: its length, and its first eight bytes but for the last bits.
constexpr std::uint64_t packed(std::string_view word) {
  std::uint64_t value = 0;
  for (const char c : word.substr(0, 8)) {
    const auto byte = static_cast<unsigned char>(c);
    value = (value << 7U) | (is_upper(c) ? byte | 0x20U : byte & 0x7FU);
  }
  return (value << 4U) | word.size();
}

template <std::size_t size>
class ShortWords {
 public:
  explicit consteval ShortWords(const std::array<std::string_view, size>& words) {
    std::ranges::transform(words, packed_.begin(), packed);
    std::ranges::sort(packed_);
  }
  [[nodiscard]] bool contains(std::string_view word) const {
    return word.size() <= 9 && std::ranges::binary_search(packed_, packed(word));
  }

 private:
  std::array<std::uint64_t, size> packed_{};
};

bool is_calendar(std::string_view word) {
  static constexpr ShortWords kWords(std::to_array<std::string_view>(
      {"january",   "february", "march",     "april",    "may",    "june",     "july",   "august",
       "september", "october",  "november",  "december", "jan",    "feb",      "mar",    "apr",
       "jun",       "jul",      "aug",       "sep",      "sept",   "oct",      "nov",    "dec",
       "monday",    "tuesday",  "wednesday", "thursday", "friday", "saturday", "sunday", "mon",
       "tue",       "wed",      "thu",       "fri",      "sat",    "sun"}));
  return is_foreign(word[0]) ? word == "年" || word == "月" || word == "日" : kWords.contains(word);
}
bool is_clock(std::string_view word) {
  static constexpr ShortWords kWords(std::to_array<std::string_view>(
      {"am", "pm", "utc", "gmt", "cet", "cest", "est", "edt", "pst", "pdt"}));
  return kWords.contains(word);
}

bool is_uuid(std::string_view word) {
  if (word.size() != 36) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? word[i] != '-' : !is_hex(word[i])) return false;
  }
  return true;
}

bool has_digit(std::string_view word) { return std::ranges::any_of(word, is_digit); }

/// "call_9f3b2c1d", "session-1a2b3c4d".
bool is_prefixed_id(std::string_view word) {
  const std::size_t mark = word.find_first_of("_-");
  if (mark == std::string_view::npos || mark < 2 || mark > 12) return false;
  const std::string_view tail = word.substr(mark + 1);
  return all(word.substr(0, mark), is_letter) && tail.size() >= 8 && has_digit(tail);
}

bool is_hash(std::string_view word) {
  if (word.size() < 16 || !has_digit(word)) return false;
  if (all(word, is_hex)) return true;
  return std::ranges::any_of(word, is_upper) && std::ranges::any_of(word, is_lower);
}

/// 12, 3.14, 29th, 40ms.
bool is_number(std::string_view word) {
  const std::size_t end = word.find_first_not_of("0123456789.");
  if (end == 0) return false;
  return end == std::string_view::npos ||
         (word.size() - end <= 2 && all(word.substr(end), is_letter));
}

/// One of its pieces has letters and digits.
bool is_mixed(std::string_view word) {
  bool letters = false;
  bool digits = false;
  for (const char c : word) {
    if (!is_letter(c) && !is_digit(c)) letters = digits = false;
    letters = letters || is_letter(c);
    digits = digits || is_digit(c);
    if (letters && digits) return true;
  }
  return false;
}

WordShape shape_with_digits(std::string_view word) {
  if (is_date(word)) return WordShape::kDate;
  if (is_time(word)) return WordShape::kTime;
  if (all(word, is_digit)) return is_unix_time(word) ? WordShape::kUnixTime : WordShape::kNumber;
  if (is_number(word)) return WordShape::kNumber;
  if (is_uuid(word) || is_prefixed_id(word)) return WordShape::kId;
  if (is_hash(word)) return WordShape::kHash;
  return is_mixed(word) ? WordShape::kNonce : WordShape::kText;
}

WordShape shape_of(std::string_view word) {
  if (word.empty()) return WordShape::kPunctuation;
  if (has_digit(word)) return shape_with_digits(word);
  if (is_calendar(word)) return WordShape::kCalendar;
  return is_clock(word) ? WordShape::kClock : WordShape::kText;
}

/// Whether text[at] joins two pieces of one word.
bool joins(std::string_view text, std::size_t at) {
  if (at == 0 || at + 1 >= text.size()) return false;
  const char before = text[at - 1];
  const char after = text[at + 1];
  if (is_foreign(before) || is_foreign(after)) return false;
  const char c = text[at];
  if (c == ':' || c == '/') return is_digit(before) && is_digit(after);
  return (c == '-' || c == '.' || c == '+') && is_word(before) && is_word(after);
}

/// Of "2026-11-29T14:05" the first ten: the time changes more often than the date.
bool ends_date(std::string_view word, std::string_view rest) {
  return word.size() == 10 && rest.size() > 1 && rest[0] == 'T' && is_digit(rest[1]) &&
         is_date(word);
}

std::size_t word_length(std::string_view text) {
  std::size_t end = 0;
  if (!text.empty() && is_foreign(text[0])) {
    while (end < std::min(text.size(), kLongestForeign) && is_foreign(text[end])) ++end;
    return end;
  }
  while (end < std::min(text.size(), kLongestWord) &&
         (is_ascii_word(text[end]) || joins(text, end))) {
    if (ends_date(text.substr(0, end), text.substr(end))) break;
    ++end;
  }
  return end;
}

std::size_t gap_length(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  while (end < std::min(text.size(), most) && !is_word(text[end]) && !is_foreign(text[end])) ++end;
  return end;
}

std::uint16_t print_of_word(std::string_view word, const PrintKey& key) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_whole = read.ec == std::errc() && read.ptr == word.data() + word.size();
  return is_whole && !word.empty() ? key.hide(value) : static_cast<std::uint16_t>(key.print(word));
}

}  // namespace

void append_words(std::vector<WordPrint>& out, std::string_view text, const PrintKey& key) {
  text = text.substr(0, kPrintedBytes);
  while (!text.empty()) {
    const std::size_t word = word_length(text);
    const std::size_t all = word + gap_length(text.substr(word), kLongestPrint - word);
    const std::string_view shown = text.substr(0, word);
    out.push_back({.digest = static_cast<std::uint32_t>(key.print(text.substr(0, all))),
                   .word = print_of_word(shown, key),
                   .length = static_cast<std::uint8_t>(all),
                   .shape = shape_of(shown)});
    text.remove_prefix(all);
  }
}

}  // namespace afterimage
