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

/// What a byte is.
enum Class : unsigned char {
  kDigit = 1,
  kUpper = 2,
  kLower = 4,
  kHex = 8,
  kUnderscore = 16,
  kForeign = 32,  // beyond ASCII
  kJoin = 64,     // may stand between two pieces of a word
};
constexpr unsigned kLetter = kUpper | kLower;
constexpr unsigned kWord = kDigit | kLetter | kUnderscore;
constexpr auto kClasses = [] {
  std::array<unsigned char, 256> classes{};
  for (unsigned i = 0; i < classes.size(); ++i) {
    const auto c = static_cast<char>(i);
    unsigned is = i >= 0x80 ? kForeign : 0;
    if (c >= '0' && c <= '9') is |= kDigit | kHex;
    if (c >= 'A' && c <= 'Z') is |= kUpper | (c <= 'F' ? static_cast<unsigned>(kHex) : 0U);
    if (c >= 'a' && c <= 'z') is |= kLower | (c <= 'f' ? static_cast<unsigned>(kHex) : 0U);
    if (c == '_') is |= kUnderscore;
    if (std::string_view("-.+:/").contains(c)) is |= kJoin;
    classes[i] = static_cast<unsigned char>(is);
  }
  return classes;
}();
constexpr unsigned class_of(char c) { return kClasses[static_cast<unsigned char>(c)]; }

constexpr bool is_digit(char c) { return (class_of(c) & kDigit) != 0; }
constexpr bool is_upper(char c) { return (class_of(c) & kUpper) != 0; }
bool is_letter(char c) { return (class_of(c) & kLetter) != 0; }
bool is_word(char c) { return (class_of(c) & kWord) != 0; }
bool is_foreign(char c) { return (class_of(c) & kForeign) != 0; }
bool is_hex(char c) { return (class_of(c) & kHex) != 0; }

/// The word that a text begins with, and what was seen of it on the way.
struct ScannedWord {
  std::size_t size = 0;
  unsigned any = 0;     // classes that one of its bytes has
  unsigned all = 0xFF;  // classes that all of its bytes have

  [[nodiscard]] bool has(unsigned classes) const { return (any & classes) != 0; }
  [[nodiscard]] bool is_only(unsigned classes) const { return (all & classes) != 0; }
  void add(unsigned classes) {
    ++size;
    any |= classes;
    all &= classes;
  }
};

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

bool is_hash(const ScannedWord& word) {
  return word.size >= 16 && (word.is_only(kHex) || (word.has(kUpper) && word.has(kLower)));
}

/// 12, 3.14, 29th, 40ms.
bool is_number(std::string_view word) {
  const auto* const rest =
      std::ranges::find_if_not(word, [](char c) { return is_digit(c) || c == '.'; });
  const auto unit = static_cast<std::size_t>(word.end() - rest);
  return unit < word.size() && unit <= 2 &&
         std::ranges::all_of(word.substr(word.size() - unit), is_letter);
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

WordShape shape_with_digits(std::string_view word, const ScannedWord& read) {
  const bool is_joined = read.has(kJoin);
  const bool is_whole = read.is_only(kDigit);
  if ((is_joined || is_whole) && is_date(word)) return WordShape::kDate;
  if (is_joined && is_time(word)) return WordShape::kTime;
  if (is_whole) return is_unix_time(word) ? WordShape::kUnixTime : WordShape::kNumber;
  if (is_digit(word[0]) && is_number(word)) return WordShape::kNumber;
  const bool has_pieces = is_joined || read.has(kUnderscore);
  if (has_pieces && (is_uuid(word) || is_prefixed_id(word))) return WordShape::kId;
  if (is_hash(read)) return WordShape::kHash;
  const bool is_nonce = has_pieces ? is_mixed(word) : read.has(kLetter);
  return is_nonce ? WordShape::kNonce : WordShape::kText;
}

WordShape shape_of(std::string_view word, const ScannedWord& read) {
  if (word.empty()) return WordShape::kPunctuation;
  if (read.has(kDigit)) return shape_with_digits(word, read);
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
bool begins_with_date_and_time(std::string_view text) {
  return text.size() > 11 && text[10] == 'T' && is_digit(text[11]) && is_digit(text[0]) &&
         is_date(text.substr(0, 10));
}

ScannedWord scan_word(std::string_view text) {
  ScannedWord word;
  if (!text.empty() && is_foreign(text[0])) {
    const std::size_t most = std::min(text.size(), kLongestForeign);
    while (word.size < most && is_foreign(text[word.size])) word.add(kForeign);
    return word;
  }
  const std::size_t most =
      begins_with_date_and_time(text) ? 10 : std::min(text.size(), kLongestWord);
  while (word.size < most) {
    const unsigned classes = class_of(text[word.size]);
    if ((classes & kWord) == 0 && ((classes & kJoin) == 0 || !joins(text, word.size))) break;
    word.add(classes);
  }
  return word;
}

std::size_t gap_length(std::string_view text, std::size_t most) {
  most = std::min(text.size(), most);
  std::size_t end = 0;
  while (end < most && (class_of(text[end]) & (kWord | kForeign)) == 0) ++end;
  return end;
}

/// Of a word that has this print.
std::uint16_t hidden_word(std::string_view word, const ScannedWord& read, std::uint64_t print,
                          const PrintKey& key) {
  const auto hidden = static_cast<std::uint16_t>(print);
  if (!read.is_only(kDigit)) return hidden;
  std::uint64_t value = 0;
  const auto number = std::from_chars(word.data(), word.data() + word.size(), value);
  return number.ec == std::errc() ? key.hide(value) : hidden;
}

}  // namespace

void append_words(std::vector<WordPrint>& out, std::string_view text, const PrintKey& key) {
  text = text.substr(0, kPrintedBytes);
  while (!text.empty()) {
    const ScannedWord read = scan_word(text);
    const std::string_view word = text.substr(0, read.size);
    const std::size_t gap = gap_length(text.substr(read.size), kLongestPrint - read.size);
    const std::uint64_t print = key.print(word);
    // Most words stand before one space.
    const bool is_spaced = gap == 1 && text[read.size] == ' ';
    const std::uint64_t all =
        is_spaced ? print >> 32U : key.print(print, key.print(text.substr(read.size, gap)));
    out.push_back({.digest = static_cast<std::uint32_t>(all),
                   .word = hidden_word(word, read, print, key),
                   .length = static_cast<std::uint8_t>(read.size + gap),
                   .shape = shape_of(word, read)});
    text.remove_prefix(read.size + gap);
  }
}

}  // namespace afterimage
