// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/word_prints.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "foundation/text/ascii.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

constexpr auto kCalendarNames = std::to_array<std::string_view>(
    {"january",   "february", "march",     "april",    "may",    "june",     "july",   "august",
     "september", "october",  "november",  "december", "jan",    "feb",      "mar",    "apr",
     "jun",       "jul",      "aug",       "sep",      "sept",   "oct",      "nov",    "dec",
     "monday",    "tuesday",  "wednesday", "thursday", "friday", "saturday", "sunday", "mon",
     "tue",       "wed",      "thu",       "fri",      "sat",    "sun"});
constexpr auto kClockNames = std::to_array<std::string_view>(
    {"am", "pm", "utc", "gmt", "cet", "cest", "est", "edt", "pst", "pdt"});

bool is_calendar(std::string_view word) {
  static constexpr ShortWords kWords(kCalendarNames);
  return is_foreign(word[0]) ? word == "年" || word == "月" || word == "日" : kWords.contains(word);
}
bool is_clock(std::string_view word) {
  static constexpr ShortWords kWords(kClockNames);
  return kWords.contains(word);
}

constexpr std::uint64_t kEachByte = 0x0101010101010101U;

/// The first eight bytes of a word of letters, the first one lowest, in lower case; zeros behind a shorter one.
constexpr std::uint64_t lower_letters(std::string_view word) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(word.size(), 8); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(word[i]) | 0x20U} << (8 * i);
  }
  return value;
}

/// Letters that no name of the calendar or the clock begins with are text: one look, which is right for most words.
class NamesBegin {
 public:
  consteval NamesBegin() {
    for (const std::string_view name : kCalendarNames) add(name);
    for (const std::string_view name : kClockNames) add(name);
  }
  [[nodiscard]] bool may_contain(std::uint64_t letters) const {
    const std::uint64_t place = place_of(letters);
    return ((bits_[place / 64] >> (place % 64)) & 1U) != 0;
  }

 private:
  static constexpr std::uint64_t place_of(std::uint64_t letters) {
    return (letters * 0x9E3779B97F4A7C15U) >> 52U;
  }
  constexpr void add(std::string_view name) {
    const std::uint64_t place = place_of(lower_letters(name));
    bits_[place / 64] |= std::uint64_t{1} << (place % 64);
  }

  std::array<std::uint64_t, 64> bits_{};
};

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

std::uint64_t load_bytes(const char* from) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

constexpr std::size_t kLookedAt = 16;

/// A bit for each of kLookedAt bytes, the first one lowest: whether it is an ASCII letter.
unsigned letters_at(const char* text) {
#if defined(__SSE2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
  const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
  const __m128i from_a = _mm_sub_epi8(lower, _mm_set1_epi8('a'));
  const __m128i up_to_z = _mm_min_epu8(from_a, _mm_set1_epi8('z' - 'a'));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(from_a, up_to_z)));
#else
  unsigned letters = 0;
  for (std::size_t i = 0; i < kLookedAt; ++i) letters |= (is_letter(text[i]) ? 1U : 0U) << i;
  return letters;
#endif
}

/// What leaves the first bytes of two numbers of eight, for each count of them.
struct FirstBytes {
  std::uint64_t begin = 0;
  std::uint64_t rest = 0;
};
constexpr auto kFirstBytes = [] {
  std::array<FirstBytes, kLookedAt + 1> masks{};
  for (std::size_t count = 1; count < masks.size(); ++count) {
    masks[count] = masks[count - 1];
    std::uint64_t& half = count <= 8 ? masks[count].begin : masks[count].rest;
    half |= std::uint64_t{0xFF} << (8 * ((count - 1) % 8));
  }
  return masks;
}();

/// A word of up to 15 letters before one space and another word, as most are.
class PlainWord {
 public:
  /// Of a text that has kRead bytes.
  explicit PlainWord(const char* text) : begin_(load_bytes(text)), rest_(load_bytes(text + 8)) {
    size_ = static_cast<std::size_t>(std::countr_one(letters_at(text)));
    is_plain_ = size_ - 1 < kShortWord && text[size_] == ' ' &&
                (class_of(text[size_ + 1]) & (kWord | kForeign)) != 0;
    begin_ &= kFirstBytes[size_].begin;
    rest_ &= kFirstBytes[size_].rest;
  }
  static constexpr std::size_t kRead = kShortWord + 2;

  explicit operator bool() const { return is_plain_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::uint64_t print(const PrintKey& key) const {
    return key.print_short(begin_, rest_, size_);
  }
  [[nodiscard]] bool may_be_a_name() const {
    static constexpr NamesBegin kNames;
    return kNames.may_contain(begin_ | (kFirstBytes[size_].begin & (0x20U * kEachByte)));
  }

 private:
  std::uint64_t begin_;
  std::uint64_t rest_;
  std::size_t size_ = 0;
  bool is_plain_ = false;
};

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

/// The plain words that a text begins with. Returns their bytes.
std::size_t append_plain_words(std::vector<WordPrint>& out, std::string_view text,
                               const PrintKey& key) {
  std::size_t at = 0;
  while (text.size() - at >= PlainWord::kRead) {
    const PlainWord plain(text.data() + at);
    if (!plain || plain.may_be_a_name()) break;
    const std::uint64_t print = plain.print(key);
    out.push_back({.digest = static_cast<std::uint32_t>(print >> 32U),
                   .word = static_cast<std::uint16_t>(print),
                   .length = static_cast<std::uint8_t>(plain.size() + 1)});
    at += plain.size() + 1;
  }
  return at;
}

/// The word that a text begins with, whatever it is. Returns its bytes.
[[gnu::noinline]] std::size_t append_word(std::vector<WordPrint>& out, std::string_view text,
                                          const PrintKey& key) {
  const ScannedWord read = scan_word(text);
  const std::string_view word = text.substr(0, read.size);
  const std::size_t gap = gap_length(text.substr(read.size), kLongestPrint - read.size);
  const std::uint64_t print = key.print_word(word);
  // Most words stand before one space.
  const bool is_spaced = gap == 1 && text[read.size] == ' ';
  const std::uint64_t all =
      is_spaced ? print >> 32U : key.print(print, key.print(text.substr(read.size, gap)));
  out.push_back({.digest = static_cast<std::uint32_t>(all),
                 .word = hidden_word(word, read, print, key),
                 .length = static_cast<std::uint8_t>(read.size + gap),
                 .shape = shape_of(word, read)});
  return read.size + gap;
}

}  // namespace

void append_words(std::vector<WordPrint>& out, std::string_view text, const PrintKey& key) {
  text = text.substr(0, kPrintedBytes);
  while (true) {
    text.remove_prefix(append_plain_words(out, text, key));
    if (text.empty()) return;
    text.remove_prefix(append_word(out, text, key));
  }
}

}  // namespace afterimage
