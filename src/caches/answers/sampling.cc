// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "afterimage/question.h"
#include "caches/answers/eligibility.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

// Words and phrases, each with a trailing space; sorted by first letter for the look-up.
constexpr auto kTimeWords = [] {
  auto words = std::to_array<std::string_view>(
      {"today ", "today's ", "tonight ", "tomorrow ", "yesterday ", "now ", "nowadays ",
       "currently ", "current ", "latest ", "recent ", "recently ", "newest ", "upcoming ",
       "this week ", "this month ", "this year ", "this morning ", "last week ", "last month ",
       "last year ", "next week ", "next month ", "next year ", "so far ", "right away ",
       "weather ", "news ", "what time ", "what day ", "what date ", "price of ", "stock ",
       "score of ", "exchange rate ", "how old is ", "ago ", "at the moment ", "these days ",
       "up to date ", "as of ", "the date ",
       // German
       "heute ", "heutige ", "heutigen ", "gestern ", "morgen ", "übermorgen ", "jetzt ",
       "derzeit ", "momentan ", "aktuell ", "aktuelle ", "aktuellen ", "aktueller ", "aktuelles ",
       "neueste ", "neuesten ", "wetter ", "nachrichten ", "datum ", "uhrzeit ", "wie spät ",
       "wie viel uhr ", "welcher tag ", "welchen tag ", "diese woche ", "diesen monat ",
       "dieses jahr ", "letzte woche ", "letztes jahr ", "nächste woche ", "nächstes jahr ",
       // French
       "aujourd'hui ", "demain ", "hier ", "maintenant ", "actuel ", "actuelle ", "actuels ",
       "actuellement ", "récemment ", "en ce moment ", "quel temps ", "météo ", "la date ",
       "quel jour ", "quelle heure ", "cette semaine ", "ce mois ", "cette année ",
       // Spanish
       "hoy ", "mañana ", "ayer ", "ahora ", "actual ", "actuales ", "actualmente ", "noticias ",
       "qué tiempo ", "fecha ", "qué día ", "qué hora ", "esta noche ", "esta semana ", "este mes ",
       "este año ",
       // Italian
       "oggi ", "domani ", "ieri ", "adesso ", "attuale "});
  std::ranges::sort(words);
  return words;
}();

/// Chinese and Japanese put no spaces between words.
constexpr auto kTimeParts = std::to_array<std::string_view>(
    {"今",   "昨天", "明天",   "现在",     "現在", "目前", "当前", "最近", "最新",
     "天气", "天気", "新闻",   "ニュース", "日期", "日付", "几点", "几号", "星期几",
     "何時", "何日", "何曜日", "昨日",     "明日", "去年", "明年", "昨年", "来年",
     "本周", "上周", "下周",   "先週",     "来週", "本月", "先月", "来月"});

/// Whether one of them begins with the byte.
constexpr auto kBeginsTimePart = [] {
  std::array<bool, 256> begins{};
  for (const std::string_view part : kTimeParts) {
    begins[static_cast<unsigned char>(part.front())] = true;
  }
  return begins;
}();

bool begins_with_time_part(std::string_view text) {
  if (!kBeginsTimePart[static_cast<unsigned char>(text.front())]) return false;
  return std::ranges::any_of(kTimeParts,
                             [&](std::string_view part) { return text.starts_with(part); });
}

/// The phrases that begin with a byte: from `begin` to before `end`.
struct TimeWordRange {
  std::uint8_t begin = 0;
  std::uint8_t end = 0;
};
constexpr auto kTimeWordsByFirst = [] {
  std::array<TimeWordRange, 256> ranges{};
  static_assert(kTimeWords.size() <= 255);
  for (std::size_t i = 0; i < kTimeWords.size(); ++i) {
    TimeWordRange& range = ranges[static_cast<unsigned char>(kTimeWords[i].front())];
    if (range.end == 0) range.begin = static_cast<std::uint8_t>(i);
    range.end = static_cast<std::uint8_t>(i + 1);
  }
  return ranges;
}();

/// By the first byte of a phrase, its second bytes: a bit each for their last six bits.
constexpr auto kSecondsOfTimeWords = [] {
  std::array<std::uint64_t, 256> seconds{};
  for (const std::string_view word : kTimeWords) {
    seconds[static_cast<unsigned char>(word[0])] |= std::uint64_t{1}
                                                    << (static_cast<unsigned char>(word[1]) & 63U);
  }
  return seconds;
}();
constexpr std::size_t kShortestTimeWord =
    std::ranges::min(kTimeWords, {}, &std::string_view::size).size();
constexpr std::size_t kLongestTimeWord =
    std::ranges::max(kTimeWords, {}, &std::string_view::size).size();

/// What each byte is in spaced text: letters in lower case, digits, apostrophes and what is beyond
/// ASCII as they are; 0: it parts words.
constexpr auto kWordBytes = [] {
  std::array<char, 256> bytes{};
  for (unsigned i = 0; i < bytes.size(); ++i) {
    char c = static_cast<char>(i);
    if (ascii::is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
    const bool part = ascii::is_letter(c) || ascii::is_digit(c) || ascii::is_beyond(c) || c == '\'';
    bytes[i] = part ? c : '\0';
  }
  return bytes;
}();

/// Which bytes are a part of a word whatever is beside them.
constexpr auto kPlainWordBytes = [] {
  std::array<bool, 256> bytes{};
  for (unsigned i = 0; i < bytes.size(); ++i) {
    bytes[i] = !ascii::is_beyond(static_cast<char>(i)) && kWordBytes[i] != '\0';
  }
  return bytes;
}();

/// The character at the beginning, as in kWordBytes: spaces and marks beyond ASCII part words, and a
/// typographic apostrophe is an apostrophe.
struct WordByte {
  char value = 0;
  std::size_t bytes = 1;
};
WordByte word_byte(std::string_view text) {
  const char first = text.front();
  if (first == '\xE2' && text.starts_with("\xE2\x80") && text.size() > 2) {  // U+2000 to U+203F
    return {.value = text[2] == '\x99' ? '\'' : '\0', .bytes = 3};
  }
  if (first == '\xC2') {
    for (const std::string_view mark : {"\u00A0", "¿", "¡", "«", "»"}) {
      if (text.starts_with(mark)) return {.value = '\0', .bytes = mark.size()};
    }
  }
  return {.value = kWordBytes[static_cast<unsigned char>(first)], .bytes = 1};
}

/// Lower case, with one space between words and after the last, as far as `out` has room.
std::string_view spaced(std::string_view text, std::span<char> out) {
  std::size_t size = 0;
  for (std::size_t at = 0; at < text.size() && size < out.size();) {
    const WordByte read = word_byte(text.substr(at));
    at += read.bytes;
    if (read.value != '\0') {
      out[size++] = read.value;
    } else if (size > 0 && out[size - 1] != ' ') {
      out[size++] = ' ';
    }
  }
  if (size < out.size()) out[size++] = ' ';
  return {out.data(), size};
}

/// Whether the first two letters of a text that begins with a word are those of one of the phrases.
bool may_begin_with_time_word(std::string_view text) {
  const bool is_plain = text.size() > 1 && !ascii::is_beyond(text[0]) && !ascii::is_beyond(text[1]);
  if (!is_plain) return true;
  const auto first = static_cast<unsigned char>(kWordBytes[static_cast<unsigned char>(text[0])]);
  const char second = kWordBytes[static_cast<unsigned char>(text[1])];
  const auto place = static_cast<unsigned char>(second == '\0' ? ' ' : second) & 63U;
  return (kSecondsOfTimeWords[first] >> place & 1U) != 0;
}

/// Whether a text that begins with a word, and may begin with one of the phrases, does.
bool begins_with_time_word(std::string_view text) {
  const auto first = static_cast<unsigned char>(kWordBytes[static_cast<unsigned char>(text[0])]);
  const TimeWordRange range = kTimeWordsByFirst[first];
  if (range.begin == range.end) return false;
  // "the" and "to" begin many texts' words and phrases: the fourth letter tells most of them.
  std::array<char, kShortestTimeWord> few{};
  const std::string_view start = spaced(text, few);
  std::array<char, kLongestTimeWord> beginning{};
  std::string_view words;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (!kTimeWords[i].starts_with(start)) continue;
    if (words.empty()) words = spaced(text, beginning);
    if (words.starts_with(kTimeWords[i])) return true;
  }
  return false;
}

}  // namespace

std::string_view to_string(ReuseLimit limit) {
  constexpr std::array<std::string_view, 4> kNames{"nothing", "exact", "text", "similarity"};
  return kNames[static_cast<std::size_t>(limit)];
}

bool depends_on_time(std::string_view question) {
  const auto is_plain_word = [&](std::size_t place) {
    return kPlainWordBytes[static_cast<unsigned char>(question[place])];
  };
  // One pass, however many phrases there are.
  bool is_in_word = false;
  std::size_t at = 0;
  while (at < question.size()) {
    const std::string_view rest = question.substr(at);
    if (is_plain_word(at)) {
      if (!is_in_word && may_begin_with_time_word(rest) && begins_with_time_word(rest)) return true;
      is_in_word = true;
      while (++at < question.size() && is_plain_word(at)) {
      }
      continue;
    }
    WordByte read;
    if (ascii::is_beyond(rest.front())) {
      if (begins_with_time_part(rest)) return true;
      read = word_byte(rest);
    }
    const bool is_word = read.value != '\0';
    if (is_word && !is_in_word && may_begin_with_time_word(rest) && begins_with_time_word(rest)) {
      return true;
    }
    is_in_word = is_word;
    at += read.bytes;
  }
  return false;
}

Eligibility eligibility(const SamplingFacts& facts) {
  using enum ReuseLimit;
  const bool greedy = facts.temperature == 0.0;
  if (!greedy && !facts.seeded) {
    return facts.temperature.has_value()
               ? Eligibility{kNothing, "temperature above 0 and no seed: answers may vary"}
               : Eligibility{kNothing, "no temperature: the server's default is seldom 0"};
  }
  if (facts.choices != 1) return {kExact, "several choices are requested"};
  if (facts.log_probabilities) return {kExact, "log probabilities are requested"};
  if (facts.offers_tools) return {kExact, "tools are offered"};
  if (facts.has_tool_results) return {kExact, "tool or search results are included"};
  if (!greedy) return {kExact, "a seed repeats an answer for the same text only"};
  return {kSimilarity, "temperature 0"};
}

/// The model has no clock: it answers the same question alike at any time. But "today" and "tomorrow"
/// are alike to an embedding, and answers about them are not.
Eligibility eligibility(const SamplingFacts& facts, std::string_view question) {
  const Eligibility eligible = eligibility(facts);
  const bool may_loosen = eligible.limit > ReuseLimit::kExact;
  return may_loosen && depends_on_time(question) ? kSpeaksOfTime : eligible;
}

}  // namespace afterimage
