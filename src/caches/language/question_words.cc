// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/question_words.h"

#include <cstdint>
#include <cstring>

#include "caches/language/english.h"

namespace afterimage {
namespace {

using ascii::is_beyond;
using ascii::is_letter;

constexpr char32_t kApostrophe = U'\u2019';
constexpr std::string_view kSpaces = " \t\n\r";
constexpr std::string_view kMarks = ",;.?!";

/// Takes one code point beyond ASCII from the front of `rest`; nullopt if it is not valid UTF-8
/// (RFC 3629).
std::optional<char32_t> take_code_point(std::string_view& rest) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4) return std::nullopt;
  if (rest.size() < length) return std::nullopt;
  char32_t point = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return std::nullopt;
    point = point << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
    return std::nullopt;
  }
  rest.remove_prefix(length);
  return point;
}

/// What a text holds besides letters, digits, spaces and most punctuation; found in one pass, since
/// most texts hold none of it.
enum Kind : unsigned char {
  kBeyondAscii = 1,
  kApostrophes = 2,
  kQuotes = 4,
  kCode = 8,      // back quotes, line breaks, tabs
  kControls = 16  // other control characters
};

constexpr auto kKinds = [] {
  std::array<unsigned char, 256> kinds{};
  for (unsigned byte = 0; byte < kinds.size(); ++byte) {
    const char c = static_cast<char>(byte);
    if (is_beyond(c)) kinds[byte] = kBeyondAscii;
    if (c == '\'') kinds[byte] = kApostrophes;
    if (c == '"') kinds[byte] = kQuotes;
    if (byte < 0x20 || byte == 0x7F) kinds[byte] = kControls;
    if (c == '`' || c == '\t' || c == '\n' || c == '\r') kinds[byte] = kCode;
  }
  return kinds;
}();

/// 0: none of these eight bytes has a kind, as most have none.
std::uint64_t may_have_kinds(std::uint64_t eight) {
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  constexpr std::uint64_t kHighs = 0x8080808080808080U;
  const auto is = [&](unsigned char c) {
    const std::uint64_t differs = eight ^ (kOnes * c);
    return (differs - kOnes) & ~differs;
  };
  return (eight | (eight - kOnes * 0x20U) | is('\'') | is('"') | is('`') | is(0x7F)) & kHighs;
}

unsigned kinds_in(std::string_view text) {
  unsigned kinds = 0;
  const auto look_at = [&](std::string_view few) {
    for (const char c : few) kinds |= kKinds[static_cast<unsigned char>(c)];
  };
  while (text.size() >= 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data(), sizeof eight);
    if (may_have_kinds(eight) != 0) look_at(text.substr(0, 8));
    text.remove_prefix(8);
  }
  look_at(text);
  return kinds;
}

/// Quotation and code marks other than ", and line breaks: their contents must not be folded.
bool is_opaque_mark(char32_t point) {
  return point == U'`' || point == U'\t' || point == U'\n' || point == U'\r' ||
         point == U'\u00AB' || point == U'\u00BB' || (point >= U'\u2018' && point <= U'\u201F') ||
         point == U'\u2039' || point == U'\u203A' || (point >= U'\u300C' && point <= U'\u300F');
}

/// Whether every apostrophe is inside a word, quotation marks are balanced, and nothing else
/// quotes.
bool is_transparent(std::string_view text) {
  std::size_t quotes = 0;
  bool after_letter = false;
  for (std::string_view rest = text; !rest.empty();) {
    char32_t point = static_cast<unsigned char>(rest.front());
    if (point < 0x80) {
      rest.remove_prefix(1);
      if (is_letter(static_cast<char>(point)) || point == U' ') {  // most of a text
        after_letter = point != U' ';
        continue;
      }
    } else {
      point = *take_code_point(rest);
    }
    if (point == U'\'' || point == kApostrophe) {
      const bool before_letter =
          !rest.empty() && (is_letter(rest.front()) || is_beyond(rest.front()));
      if (!after_letter || !before_letter) return false;
    } else if (is_opaque_mark(point)) {
      return false;
    }
    quotes += point == U'"' ? 1 : 0;
    after_letter = point >= 0x80 || is_letter(static_cast<char>(point));
  }
  return quotes % 2 == 0;
}

/// The end of the word at `at`: the next space outside of quotation marks.
std::size_t end_of_word(std::string_view text, std::size_t at) {
  bool quoted = false;
  for (; at < text.size() && (quoted || text[at] != ' '); ++at) quoted ^= text[at] == '"';
  return at;
}

std::string with_plain_apostrophes(std::string_view chunk) {
  constexpr std::string_view kTypographic = "\u2019";
  std::string plain(chunk);
  for (std::size_t at = plain.find(kTypographic); at != std::string::npos;
       at = plain.find(kTypographic, at + 1)) {
    plain.replace(at, kTypographic.size(), "'");
  }
  return plain;
}

/// `is_ascii`: the chunk has no typographic apostrophes.
void add_word(Words& words, std::string_view gap, std::string_view chunk, bool is_ascii) {
  const std::string_view plain = is_ascii ? chunk : words.keep(with_plain_apostrophes(chunk));
  const std::size_t size =
      is_letter(plain.back()) ? plain.size() : plain.find_last_not_of(kMarks) + 1;
  const std::string_view core = plain.substr(0, size);
  const auto joins = [](char c) { return c == '\'' || c == '-'; };
  const bool prose = size > 0 && is_letter(core.front()) && is_letter(core.back()) &&
                     std::ranges::all_of(core, [&](char c) { return is_letter(c) || joins(c); });
  if (prose) {
    words.add({.gap = gap, .core = core, .tail = plain.substr(size), .prose = true});
  } else {
    words.add({.gap = gap, .core = chunk, .tail = {}, .prose = false});
  }
}

}  // namespace

bool is_text(std::string_view text) {
  if ((kinds_in(text) & (kBeyondAscii | kControls)) == 0) return true;
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    if (c >= 0x80) {
      if (!take_code_point(text).has_value()) return false;
      continue;
    }
    if (c == 0x7F || (c < 0x20 && !kSpaces.contains(text.front()))) return false;
    text.remove_prefix(1);
  }
  return true;
}

std::optional<Words> words_of(std::string_view text) {
  if (text.size() > kMaxFolded) return std::nullopt;
  const std::size_t end = text.find_last_not_of(kSpaces) + 1;
  const std::size_t begin = std::min(text.find_first_not_of(kSpaces), end);
  // Leading spaces are stored separately, not dropped: they may be an indentation.
  const std::size_t line = text.substr(0, begin).find_last_of("\t\n\r");
  const std::string_view lead =
      text.substr(0, begin).substr(line == std::string_view::npos ? 0 : line + 1);
  text = text.substr(begin, end - begin);
  const unsigned kinds = kinds_in(text);
  if (kinds != 0 && !is_transparent(text)) return std::nullopt;
  const bool is_ascii = (kinds & kBeyondAscii) == 0;
  const bool has_quotes = (kinds & kQuotes) != 0;
  Words words;
  words.reserve(text.size() / 5 + 1);
  words.set_may_have_apostrophes((kinds & (kApostrophes | kBeyondAscii)) != 0);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = text.find_first_not_of(' ', at);
    const std::size_t stop =
        has_quotes ? end_of_word(text, start) : std::min(text.find(' ', start), text.size());
    add_word(words, text.substr(at, start - at), text.substr(start, stop - start), is_ascii);
    at = stop;
    const std::string_view core = words.back().core;
    if (core.ends_with(':')) return std::nullopt;  // what follows is material, not the question
    if (words.back().prose && english::kAboutText.may_contain(core) &&
        english::kAboutText.contains(LoweredWord(core).text()))
      return std::nullopt;
  }
  if (words.size() < kMinWords) return std::nullopt;
  if (!words.front().prose) words.front().gap = lead;
  return words;
}

std::string joined(std::span<const Word> words) {
  std::size_t size = 0;
  for (const Word& word : words) size += word.gap.size() + word.core.size() + word.tail.size();
  std::string text;
  text.reserve(size);
  // Most words stand behind each other in the text that they are of, and are copied at once.
  std::string_view run;
  for (const Word& word : words) {
    for (const std::string_view part : {word.gap, word.core, word.tail}) {
      if (part.data() == run.data() + run.size()) {
        run = {run.data(), run.size() + part.size()};
      } else if (!part.empty()) {
        text.append(run);
        run = part;
      }
    }
  }
  return text.append(run);
}

}  // namespace afterimage
