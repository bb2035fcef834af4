// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/canonical_text.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "afterimage/question.h"
#include "afterimage/result.h"
#include "caches/language/english.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

using ascii::is_beyond;
using ascii::is_digit;
using ascii::is_letter;
using ascii::is_lower;
using ascii::is_upper;
using ascii::lowered;

constexpr char32_t kApostrophe = U'\u2019';
constexpr std::string_view kSpaces = " \t\n\r";
constexpr std::string_view kMarks = ",;.?!";
constexpr std::size_t kMinWords = 3;  // shorter texts are names or fragments

/// A token between spaces.
struct Word {
  std::string_view gap;   // the spaces before it
  std::string_view core;  // if prose: ASCII letters with ' or - inside; else the whole token
  std::string_view tail;  // if prose: the punctuation after it
  bool prose = false;

  [[nodiscard]] bool bare() const { return prose && tail.empty(); }
  bool operator==(const Word&) const = default;
};

/// The words of a text: parts of it, of the word lists, or of texts that are kept here.
class Words {
 public:
  [[nodiscard]] std::size_t size() const { return list_.size(); }
  Word& operator[](std::size_t i) { return list_[i]; }
  const Word& operator[](std::size_t i) const { return list_[i]; }
  [[nodiscard]] Word& front() { return list_.front(); }
  [[nodiscard]] Word& back() { return list_.back(); }
  [[nodiscard]] auto begin() { return list_.begin(); }
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() { return list_.end(); }
  [[nodiscard]] auto end() const { return list_.end(); }
  [[nodiscard]] const std::vector<Word>& list() const { return list_; }

  void reserve(std::size_t count) { list_.reserve(count); }
  void add(const Word& word) { list_.push_back(word); }
  void insert(std::size_t i, const Word& word) { list_.insert(at(i), word); }
  void erase(std::size_t from, std::size_t to) { list_.erase(at(from), at(to)); }
  /// A part for a word: it stays as long as the words do.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

 private:
  std::vector<Word>::iterator at(std::size_t i) {
    return list_.begin() + static_cast<std::ptrdiff_t>(i);
  }

  std::vector<Word> list_;
  std::deque<std::string> kept_;  // a deque: its elements stay where they are
};

bool all_lower(std::string_view text) { return std::ranges::all_of(text, is_lower); }

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

unsigned kinds_in(std::string_view text) {
  unsigned kinds = 0;
  for (const char c : text) kinds |= kKinds[static_cast<unsigned char>(c)];
  return kinds;
}

/// Whether the text is UTF-8 without control characters other than whitespace.
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
  const std::size_t size = plain.find_last_not_of(kMarks) + 1;
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

/// A word in lower case, without an allocation. Empty: it is longer than every word of the lists.
class LoweredWord {
 public:
  explicit LoweredWord(std::string_view word)
      : size_(word.size() <= lower_.size() ? word.size() : 0) {
    std::ranges::transform(word.substr(0, size_), lower_.begin(), [](char c) {
      return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }
  [[nodiscard]] std::string_view text() const { return {lower_.data(), size_}; }

 private:
  std::array<char, 32> lower_;
  std::size_t size_;
};

/// nullopt: the text must not be folded.
std::optional<Words> words_of(std::string_view text) {
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
  // libstdc++ 12 passes the capacity instead of the size.
  text.resize_and_overwrite(size, [&](char* out, std::size_t /*capacity*/) {
    for (const Word& word : words) {
      for (const std::string_view part : {word.gap, word.core, word.tail}) {
        out = std::ranges::copy(part, out).out;
      }
    }
    return size;
  });
  return text;
}

/// The core of word `i` if it is prose; empty beyond the end.
std::string_view core_at(const Words& words, std::size_t i) {
  return i < words.size() && words[i].prose ? words[i].core : "";
}

/// Whether a text that begins with this word is a question, a request, or may be either.
bool is_opener(std::string_view word) {
  return english::kQuestionOpeners.contains(word) || english::kRequestOpeners.contains(word) ||
         english::kOtherOpeners.contains(word);
}

void fold_first_capital(Words& words) {
  Word& first = words.front();
  if (!is_upper(first.core.front())) return;
  std::string lower = lowered(first.core);
  if (first.core.substr(1) != std::string_view(lower).substr(1)) return;  // WHO, McDonald
  if (is_opener(lower)) first.core = words.keep(std::move(lower));
}

struct Contraction {
  std::string_view from;
  std::string_view to;
  std::string_view and_then;  // empty: one word
  bool before_article = false;
};
// Unambiguous contractions. "He'd" is had or would; "what's" is has or is, but never has before an
// article.
constexpr auto kContractions = std::to_array<Contraction>({
    {"aren't", "are", "not"},
    {"can't", "cannot", ""},
    {"couldn't", "could", "not"},
    {"didn't", "did", "not"},
    {"doesn't", "does", "not"},
    {"don't", "do", "not"},
    {"hadn't", "had", "not"},
    {"hasn't", "has", "not"},
    {"haven't", "have", "not"},
    {"isn't", "is", "not"},
    {"shouldn't", "should", "not"},
    {"wasn't", "was", "not"},
    {"weren't", "were", "not"},
    {"won't", "will", "not"},
    {"wouldn't", "would", "not"},
    {"I'm", "I", "am"},
    {"I've", "I", "have"},
    {"I'll", "I", "will"},
    {"you're", "you", "are"},
    {"you've", "you", "have"},
    {"you'll", "you", "will"},
    {"we're", "we", "are"},
    {"we've", "we", "have"},
    {"we'll", "we", "will"},
    {"they're", "they", "are"},
    {"they've", "they", "have"},
    {"they'll", "they", "will"},
    {"what's", "what", "is", true},
    {"where's", "where", "is", true},
    {"there's", "there", "is", true},
    {"that's", "that", "is", true},
    {"it's", "it", "is", true},
});

void expand_contractions(Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view core = core_at(words, i);
    if (!core.contains('\'')) continue;
    const auto known = std::ranges::find(kContractions, core, &Contraction::from);
    if (known == kContractions.end()) continue;
    const std::string_view next = words[i].tail.empty() ? core_at(words, i + 1) : "";
    if (known->before_article && next != "a" && next != "an" && next != "the") continue;
    words[i].core = known->to;
    if (known->and_then.empty()) continue;
    const std::string_view tail = std::exchange(words[i].tail, "");
    words.insert(i + 1, {.gap = " ", .core = known->and_then, .tail = tail, .prose = true});
  }
}

/// "?" and its variants: "??", ".?", "?!". More than one dot is an ellipsis and stays.
bool asks_only(std::string_view marks) {
  return marks.contains('?') && marks.find_first_not_of(".?!") == std::string_view::npos &&
         std::ranges::count(marks, '.') <= 1;
}

/// The length of a final question mark after a number or name that is not part of it.
std::size_t plain_marks(const Word& last) {
  const std::string_view core = last.core;
  const std::size_t end = core.find_last_not_of(".?!") + 1;
  if (last.prose || end == 0 || !asks_only(core.substr(end))) return 0;
  const bool plain = std::ranges::all_of(core.substr(0, end), [](char c) {
    return is_letter(c) || is_digit(c) || is_beyond(c) || c == '-' || c == ',';
  });
  return plain ? core.size() - end : 0;
}

void erase_word(Words& words, std::size_t i) { words.erase(i, i + 1); }

void drop_last_mark(Words& words) {
  const std::string_view opener = words.front().tail.empty() ? core_at(words, 0) : "";
  const bool asks = english::kQuestionOpeners.contains(opener);
  if (!asks && !english::kRequestOpeners.contains(opener)) return;
  const auto ends_sentence = [](const Word& word) {
    return word.tail.find_first_of(".?!") != std::string_view::npos;
  };
  if (std::any_of(words.begin(), words.end() - 1, ends_sentence)) return;
  Word& last = words.back();
  if (last.tail == "." && last.core.size() >= 3 && all_lower(last.core)) {
    last.tail = {};
  } else if (!asks) {
    return;
  } else if (asks_only(last.tail)) {
    last.tail = {};
  } else if (asks_only(last.core) && words[words.size() - 2].bare() && words.size() > kMinWords) {
    erase_word(words, words.size() - 1);
  } else {
    last.core.remove_suffix(plain_marks(last));
  }
}

void single_spaces(Words& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].prose && words[i - 1].prose) words[i].gap = " ";
  }
}

void fold_typing(Words& words) {
  if (words.front().prose) {
    words.front().gap = {};
    fold_first_capital(words);
  }
  single_spaces(words);
  expand_contractions(words);
  drop_last_mark(words);
}

bool is_english(const Words& words) {
  if (!is_opener(core_at(words, 0))) return false;
  const auto all_ascii = [](const Word& word) {
    return std::ranges::none_of(word.core, ascii::is_beyond);
  };
  return std::ranges::all_of(words, all_ascii) && std::ranges::any_of(words, [](const Word& word) {
           return word.prose && english::kEnglish.contains(word.core);
         });
}

void drop_courtesy(Words& words) {
  if (words.size() <= kMinWords) return;
  const std::string_view first = core_at(words, 0);
  const auto is_please = [&](std::size_t i) { return core_at(words, i) == "please"; };
  if (is_please(0) && words[0].bare() && english::kRequestOpeners.contains(core_at(words, 1))) {
    erase_word(words, 0);
    words[0].gap = {};
  } else if ((first == "can" || first == "could" || first == "will" || first == "would") &&
             core_at(words, 1) == "you" && is_please(2) && words[1].bare() && words[2].bare()) {
    erase_word(words, 2);
  }
}

void fold_ability(Words& words) {
  if (core_at(words, 0) != "how" || core_at(words, 1) != "can" || core_at(words, 2) != "I") return;
  const std::string_view verb = core_at(words, 3);
  if (words[0].bare() && words[1].bare() && words[2].bare() && all_lower(verb) && !verb.empty() &&
      !english::kStates.contains(verb)) {
    words[1].core = "do";
  }
}

std::string singular(std::string_view plural) {
  if (plural.ends_with("ies")) return std::string(plural.substr(0, plural.size() - 3)) + "y";
  return std::string(plural.substr(0, plural.size() - 1));
}

bool is_plural(std::string_view noun) {
  if (noun.size() < 4 || !all_lower(noun) || noun.back() != 's') return false;
  if (noun.ends_with("ies") && noun.size() < 6) return false;  // ties, dies
  const std::string stem = singular(noun);
  return !std::string_view("aiosu").contains(stem.back()) &&
         !english::kFunctionWords.contains(noun) && !english::kFunctionWords.contains(stem) &&
         !english::kNotPlural.contains(noun);
}

/// Whether a preceding name can modify this word: the Chilcot report.
bool is_noun_like(std::string_view word) {
  return word.size() >= 4 && all_lower(word) && !english::kFunctionWords.contains(word) &&
         !word.ends_with("ed") && !word.ends_with("s") && !word.ends_with("ly");
}

/// "What's it like": "has" occurs only before a participle.
void expand_is(Words& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view next = core_at(words, i + 1);
    if (!words[i].bare() || !words[i].core.contains('\'') || !all_lower(next) || next.empty() ||
        english::kDone.contains(next) || next.ends_with("ed") || next.ends_with("en")) {
      continue;
    }
    const auto known = std::ranges::find(kContractions, core_at(words, i), &Contraction::from);
    if (known == kContractions.end() || !known->before_article) continue;
    words[i].core = known->to;
    words.insert(i + 1, {.gap = " ", .core = "is", .tail = {}, .prose = true});
  }
}

/// "What are some good books" asks for good books.
void drop_some(Words& words) {
  if (words.size() <= kMinWords + 1 || core_at(words, 0) != "what" || core_at(words, 1) != "are" ||
      core_at(words, 2) != "some") {
    return;
  }
  if (!words[0].bare() || !words[1].bare() || !words[2].bare()) return;
  const bool of = core_at(words, 3) == "of" && words[3].bare();
  const std::size_t the = of ? 4 : 3;
  const std::size_t praise =
      the + (of && core_at(words, the) == "the" && words[the].bare() ? 1 : 0);
  if (!english::kSuperlatives.contains(core_at(words, praise)) &&
      !english::kPraise.contains(core_at(words, praise))) {
    return;
  }
  words.erase(2, the);
}

/// "business model of": a noun, optionally with another before it, followed by "of".
bool is_said_of(const Words& words, std::size_t noun) {
  for (const std::size_t of : {noun + 1, noun + 2}) {
    if (!is_noun_like(core_at(words, of - 1)) || !words[of - 1].bare()) return false;
    if (core_at(words, of) == "of") return words[of].bare();
  }
  return false;
}

/// The best of a kind is asked for in four ways: what or which, singular or plural. So is the
/// difference between two things.
void fold_number(Words& words) {
  const std::string_view asked = core_at(words, 0);
  const std::string_view verb = core_at(words, 1);
  if ((asked != "what" && asked != "which") || (verb != "is" && verb != "are")) return;
  if (!words[0].bare() || !words[1].bare()) return;
  const std::size_t noun = core_at(words, 2) == "the" && words[2].bare() ? 3 : 2;
  if (english::kSuperlatives.contains(core_at(words, noun)) && words[noun].bare()) {
    words[0].core = "what";
    words[1].core = "is";
  } else if (asked == "what" && core_at(words, noun).starts_with("difference") &&
             core_at(words, noun + 1) == "between" && words[noun].bare()) {
    words[1].core = "is";
  }
}

/// Folds the capital of a listed word, unless it may be part of a name.
void fold_capitals(Words& words) {
  const auto capital = [&](std::size_t i) {
    return i < words.size() && is_upper(words[i].core.front()) && words[i].core != "I";
  };
  const auto ordinary = [&](std::size_t i) {
    const std::string_view core = core_at(words, i);
    const std::string lower = lowered(core);
    return core.substr(1) == std::string_view(lower).substr(1) &&
           english::kOrdinary.contains(lower);
  };
  for (std::size_t i = 1; i < words.size();) {
    std::size_t end = i;
    bool all = true;
    for (; capital(end); ++end) all = all && !core_at(words, end).empty() && ordinary(end);
    for (; i < end; ++i) {
      if (all) words[i].core = words.keep(lowered(words[i].core));
    }
    ++i;
  }
}

/// Whether the text asks the same without the article at `i`, which is not the first word.
bool is_idle_article(const Words& words, std::size_t i) {
  const std::string_view article = core_at(words, i);
  if (article != "a" && article != "an" && article != "the") return false;
  if (!words[i].bare() || !words[i - 1].bare()) return false;
  const std::string_view before = core_at(words, i - 1);
  const std::string_view next = core_at(words, i + 1);
  if (next.size() < 2 || english::kFunctionWords.contains(lowered(next))) return false;
  if (english::kBoundArticles.contains(before)) return false;
  const std::string_view then = words[i + 1].bare() ? core_at(words, i + 2) : "";
  if (!all_lower(next)) {  // the Oort cloud and the NASA, but not the Who, a Picasso, in the US
    const bool acronym = next.size() > 2 && std::ranges::all_of(next, is_upper);
    return acronym || (article == "the" && is_noun_like(then));
  }
  const bool relational = english::kRelational.contains(next) ||
                          (is_plural(next) && english::kRelational.contains(singular(next)));
  if (article == "the" && (english::kSuperlatives.contains(next) ||
                           (relational && english::kRelations.contains(then)) ||
                           (next == "different" && is_plural(then)))) {
    return true;
  }
  if (article == "the" && english::kBeing.contains(before) && is_said_of(words, i + 1)) return true;
  if (english::kArticleMatters.contains(next)) return false;
  const bool verb = english::kAuxiliaries.contains(before);
  if (!verb && english::kQuestionOpeners.contains(before)) return false;  // what a man wants
  if (article != "the") return !english::kLabelled.contains(before);
  // "Is the water cold?" is about specific water, "do the cats purr?" about specific cats.
  return !verb && !is_plural(next);
}

void fold_wording(Words& words) {
  drop_courtesy(words);
  expand_is(words);
  drop_some(words);
  fold_ability(words);
  fold_capitals(words);
  fold_number(words);
  for (std::size_t i = 1; i < words.size();) {
    if (words.size() > kMinWords && is_idle_article(words, i)) {
      erase_word(words, i);
    } else {
      ++i;
    }
  }
  for (Word& word : words) {
    if (word.prose && is_plural(word.core)) word.core = words.keep(singular(word.core));
  }
}

/// Applies `fold` until nothing changes. Each round shortens the text or rewrites a word that is
/// not rewritten again, so there are few rounds.
std::string folded(Words words, void (*fold)(Words&)) {
  std::string before = joined(words.list());
  while (true) {
    fold(words);
    std::string after = joined(words.list());
    if (after == before) return after;
    before = std::move(after);
  }
}

/// Whether a word is English, or folding may make it English: capitals, contractions, plurals.
bool may_become_english(const Word& word) {
  if (!word.prose) return false;
  if (word.core == "I" || word.core.contains('\'')) return true;
  const LoweredWord lower(word.core);
  const std::string_view stem = lower.text().substr(0, lower.text().find_last_not_of('s') + 1);
  return english::kEnglish.contains(lower.text()) || english::kEnglish.contains(stem);
}

/// Whether the text has no near form, as its first word tells, which folding does not replace by
/// another, or all its words: most texts are neither questions nor requests, or in another language.
bool is_surely_not_english(const Words& words) {
  const std::string_view first = core_at(words, 0);
  if (!is_opener(LoweredWord(first).text()) && !is_plural(first)) return true;
  return std::ranges::none_of(words, may_become_english);
}

}  // namespace

std::string_view to_string(MatchLevel rung) {
  constexpr std::array<std::string_view, kMatchLevels.size()> kNames{"text:exact", "text:canonical",
                                                                     "text:near"};
  return kNames[static_cast<std::size_t>(rung)];
}

std::optional<std::string> fold_text(std::string_view question, MatchLevel rung) {
  if (rung == MatchLevel::kExact) return std::string(question);
  if (!is_text(question)) return std::nullopt;
  auto words = words_of(question);
  if (rung == MatchLevel::kCanonical) {
    return words.has_value() ? folded(*std::move(words), fold_typing) : std::string(question);
  }
  if (!words.has_value() || is_surely_not_english(*words)) return std::nullopt;
  std::string near = folded(*std::move(words), [](Words& w) {
    fold_typing(w);
    fold_wording(w);
  });
  // Folding may produce a word that forbids folding (spells, spell), or remove the only English
  // one.
  const auto still = words_of(near);
  if (!still.has_value() || !is_english(*still)) return std::nullopt;
  return near;
}

}  // namespace afterimage
