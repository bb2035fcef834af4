// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/vetoes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "caches/language/english.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

using ascii::is_beyond;
using ascii::is_digit;
using ascii::is_letter;
using ascii::is_upper;
using ascii::lowered;
using Terms = std::vector<std::string>;
using Features = std::multiset<std::string>;

/// A text split at spaces, without punctuation.
struct Cut {
  Terms words;  // unchanged
  Terms lower;
};

Cut cut(std::string_view text) {
  constexpr std::string_view kBetween = " \t\n\r";
  constexpr std::string_view kAfter = ".,;:?!";
  Cut cut;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
    if (text.empty()) return cut;
    std::string_view word = text.substr(0, text.find_first_of(kBetween));
    text.remove_prefix(word.size());
    word = word.substr(0, word.find_last_not_of(kAfter) + 1);
    if (word.empty()) continue;
    cut.words.emplace_back(word);
    std::string lower = lowered(word);
    if (const auto typographic = lower.find("\u2019"); typographic != std::string::npos) {
      lower.replace(typographic, std::string_view("\u2019").size(), "'");
    }
    cut.lower.push_back(std::move(lower));
  }
}

bool has(const Terms& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

using Pair = std::pair<std::string_view, std::string_view>;

constexpr auto kNumbers = std::to_array<Pair>({
    {"zero", "0"},          {"one", "1"},
    {"two", "2"},           {"three", "3"},
    {"four", "4"},          {"five", "5"},
    {"six", "6"},           {"seven", "7"},
    {"eight", "8"},         {"nine", "9"},
    {"ten", "10"},          {"eleven", "11"},
    {"twelve", "12"},       {"twenty", "20"},
    {"fifty", "50"},        {"first", "1."},
    {"second", "2."},       {"third", "3."},
    {"fourth", "4."},       {"last", "last"},
    {"once", "1x"},         {"twice", "2x"},
    {"half", "1/2"},        {"quarter", "1/4"},
    {"double", "2x"},       {"dozen", "12"},
    {"both", "2"},          {"single", "1"},
    {"couple", "2"},        {"pair", "2"},
    {"hundred", "100"},     {"thousand", "1000"},
    {"million", "1000000"}, {"billion", "1000000000"},
});

constexpr auto kNegations = std::to_array<std::string_view>(
    {"not",     "no",    "never",   "none",   "nobody", "nothing", "nowhere",
     "neither", "nor",   "without", "cannot", "hardly", "except",  "unless",
     "stop",    "avoid", "prevent", "refuse", "fail",   "lack"});

constexpr auto kAntonyms = std::to_array<Pair>({
    {"on", "off"},
    {"left", "right"},
    {"up", "down"},
    {"in", "out"},
    {"above", "below"},
    {"over", "under"},
    {"before", "after"},
    {"front", "back"},
    {"top", "bottom"},
    {"inside", "outside"},
    {"open", "close"},
    {"open", "closed"},
    {"opened", "closed"},
    {"start", "end"},
    {"begin", "end"},
    {"start", "finish"},
    {"increase", "decrease"},
    {"increase", "reduce"},
    {"raise", "lower"},
    {"gain", "lose"},
    {"win", "lose"},
    {"more", "less"},
    {"more", "fewer"},
    {"most", "least"},
    {"many", "few"},
    {"max", "min"},
    {"maximum", "minimum"},
    {"highest", "lowest"},
    {"high", "low"},
    {"higher", "lower"},
    {"largest", "smallest"},
    {"biggest", "smallest"},
    {"big", "small"},
    {"large", "small"},
    {"bigger", "smaller"},
    {"larger", "smaller"},
    {"longest", "shortest"},
    {"long", "short"},
    {"longer", "shorter"},
    {"tall", "short"},
    {"taller", "shorter"},
    {"best", "worst"},
    {"good", "bad"},
    {"better", "worse"},
    {"new", "old"},
    {"newer", "older"},
    {"newest", "oldest"},
    {"young", "old"},
    {"younger", "older"},
    {"hot", "cold"},
    {"warm", "cool"},
    {"wet", "dry"},
    {"light", "dark"},
    {"black", "white"},
    {"day", "night"},
    {"fast", "slow"},
    {"faster", "slower"},
    {"early", "late"},
    {"earlier", "later"},
    {"first", "last"},
    {"enable", "disable"},
    {"enabled", "disabled"},
    {"activate", "deactivate"},
    {"allow", "forbid"},
    {"allow", "deny"},
    {"allow", "block"},
    {"accept", "reject"},
    {"add", "remove"},
    {"add", "delete"},
    {"create", "delete"},
    {"install", "remove"},
    {"push", "pull"},
    {"buy", "sell"},
    {"send", "receive"},
    {"give", "take"},
    {"lend", "borrow"},
    {"import", "export"},
    {"encode", "decode"},
    {"encrypt", "decrypt"},
    {"upload", "download"},
    {"upgrade", "downgrade"},
    {"show", "hide"},
    {"same", "different"},
    {"true", "false"},
    {"yes", "no"},
    {"all", "none"},
    {"always", "never"},
    {"love", "hate"},
    {"like", "dislike"},
    {"agree", "disagree"},
    {"man", "woman"},
    {"men", "women"},
    {"boy", "girl"},
    {"male", "female"},
    {"husband", "wife"},
    {"mother", "father"},
    {"he", "she"},
    {"his", "her"},
    {"my", "your"},
    {"i", "you"},
    {"to", "from"},
    {"alive", "dead"},
    {"full", "empty"},
    {"east", "west"},
    {"north", "south"},
    {"positive", "negative"},
    {"advantages", "disadvantages"},
    {"advantage", "disadvantage"},
    {"pros", "cons"},
    {"import", "export"},
    {"public", "private"},
    {"safe", "dangerous"},
    {"cheap", "expensive"},
    {"cheapest", "expensive"},
    {"easy", "hard"},
    {"easy", "difficult"},
    {"can", "should"},
    {"this", "that"},
    {"these", "those"},
});

constexpr auto kOppositePrefixes = std::to_array<std::string_view>(
    {"un", "in", "im", "ir", "il", "dis", "non", "non-", "de", "mis"});

constexpr auto kQuestionWords = std::to_array<Pair>({
    {"what", "what"},
    {"what's", "what"},
    {"which", "what"},
    {"who", "who"},
    {"who's", "who"},
    {"whom", "who"},
    {"whose", "whose"},
    {"when", "when"},
    {"when's", "when"},
    {"where", "where"},
    {"where's", "where"},
    {"why", "why"},
    {"why's", "why"},
    {"how", "how"},
    {"how's", "how"},
});

/// Words that relate what stands before them to what stands after, and not the other way round.
constexpr auto kRelations = std::to_array<std::string_view>(
    {"above", "after", "against", "before", "behind", "below", "by", "from", "into", "left", "over",
     "right", "than", "to", "under", "versus", "vs"});

/// Words that, like fillers, may stand on either side without a change of meaning.
constexpr auto kSideless =
    std::to_array<std::string_view>({"and", "for", "how", "i", "in", "my", "on", "or", "our",
                                     "shall", "should", "we", "will", "your"});

Features numbers(const Cut& text) {
  Features found;
  for (const std::string& word : text.lower) {
    if (std::ranges::any_of(word, is_digit)) found.insert(word);
    const auto named = std::ranges::find(kNumbers, word, &Pair::first);
    if (named != kNumbers.end()) found.emplace(named->second);
  }
  return found;
}

Features negations(const Cut& text) {
  Features found;
  for (const std::string& word : text.lower) {
    if (word.ends_with("n't") || std::ranges::find(kNegations, word) != kNegations.end()) {
      found.insert("not");  // all negations count as one
    }
  }
  return found;
}

/// Capitalized words, except the first word and "I".
Features entities(const Cut& text) {
  Features found;
  for (std::size_t i = 1; i < text.words.size(); ++i) {
    const std::string& word = text.words[i];
    if (std::ranges::any_of(word, is_upper) && text.lower[i] != "i" &&
        !text.lower[i].starts_with("i'")) {
      found.insert(text.lower[i]);
    }
  }
  return found;
}

Features symbols(const Cut& text) {
  Features found;
  for (const std::string& word : text.words) {
    const auto plain = [](char c) {
      return is_letter(c) || is_beyond(c) || is_digit(c) || c == '\'' || c == '-';
    };
    if (!std::ranges::all_of(word, plain) || word.starts_with('-') || word.starts_with('\'')) {
      found.insert(word);
    }
  }
  return found;
}

/// "How many" asks something else than "how".
Features question_words(const Cut& text) {
  Features found;
  for (std::size_t i = 0; i < text.lower.size(); ++i) {
    const auto asks = std::ranges::find(kQuestionWords, text.lower[i], &Pair::first);
    if (asks == kQuestionWords.end()) continue;
    std::string word(asks->second);
    constexpr std::array<std::string_view, 6> kMeasures{"many", "much", "long",
                                                        "old",  "far",  "often"};
    if (word == "how" && i + 1 < text.lower.size() &&
        std::ranges::find(kMeasures, text.lower[i + 1]) != kMeasures.end()) {
      word += " " + text.lower[i + 1];
    }
    found.insert(std::move(word));
  }
  return found;
}

bool opposed(const Terms& a, const Terms& b) {
  for (const auto& [one, other] : kAntonyms) {
    if (has(a, one) && !has(b, one) && has(b, other) && !has(a, other)) return true;
  }
  for (const std::string& word : a) {
    for (const std::string_view prefix : kOppositePrefixes) {
      if (word.size() > 3 && !has(b, word) && has(b, std::string(prefix) + word)) return true;
    }
  }
  return false;
}

/// Whether a name in one text is no word of the other.
bool names_missing(const Features& names, const Cut& text) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return !has(text.lower, name); });
}

/// Whether a word that a capital turns into another has one in `a`, and none at any place of `b`
/// where its case says something.
bool differ_by_a_capital(const Cut& a, const Cut& b) {
  const auto is_small = [&](const std::string& word) {
    return std::any_of(b.words.begin() + 1, b.words.end(),
                       [&](const std::string& other) { return other == word; });
  };
  return b.words.size() > 1 && std::ranges::any_of(entities(a), [&](const std::string& word) {
           return english::kOtherWithACapital.contains(word) && is_small(word);
         });
}

/// What a text has before and after the first place of a relation.
struct Sides {
  std::set<std::string_view> before;
  std::set<std::string_view> after;
};

std::optional<Sides> sides_of(const Terms& words, std::string_view relation) {
  const auto at = std::ranges::find(words, relation);
  if (at == words.end()) return std::nullopt;
  Sides sides;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (english::kFillers.contains(*word)) continue;
    if (std::ranges::find(kSideless, *word) != kSideless.end()) continue;
    if (std::ranges::find(kRelations, *word) != kRelations.end()) continue;
    (word < at ? sides.before : sides.after).insert(*word);
  }
  return sides;
}

/// Whether a word of `here` is only on the other side, `there`, in the other text.
bool moves(const std::set<std::string_view>& here, const std::set<std::string_view>& not_here,
           const std::set<std::string_view>& there, const std::set<std::string_view>& not_there) {
  return std::ranges::any_of(here, [&](std::string_view word) {
    return there.contains(word) && !not_here.contains(word) && !not_there.contains(word);
  });
}

using Letters = std::vector<char32_t>;
constexpr char32_t kMarked = 0x200000;  // of a letter that a combining mark follows

/// Latin beyond ASCII, Greek and Cyrillic: letters that lose their marks in uncased models.
bool may_have_a_mark(char32_t letter) {
  return (letter >= 0xC0 && letter < 0x530) || (letter >= 0x1E00 && letter < 0x2000) ||
         letter >= kMarked;
}

char32_t lowered_letter(char32_t letter) {
  if ((letter >= 0xC0 && letter < 0xDF) || (letter >= 0x391 && letter < 0x3AA)) return letter + 32;
  if (letter >= 0x410 && letter < 0x430) return letter + 32;
  return letter >= 0x400 && letter < 0x410 ? letter + 80 : letter;
}

/// Of UTF-8; bytes that are none are letters of their own.
Letters letters(std::string_view word) {
  Letters found;
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0U) == 0x80 && !found.empty()) {
      found.back() = (found.back() << 6U) | (byte & 0x3FU);
    } else {
      found.push_back(byte < 0xC0 ? byte
                                  : byte & (byte < 0xE0   ? 0x1FU
                                            : byte < 0xF0 ? 0x0FU
                                                          : 0x07U));
    }
  }
  return found;
}

/// In lower case, combining marks joined to their letters.
Letters whole_letters(std::string_view word) {
  Letters whole;
  for (const char32_t letter : letters(word)) {
    if (letter >= 0x300 && letter < 0x370 && !whole.empty()) {
      whole.back() |= kMarked;
    } else {
      whole.push_back(lowered_letter(letter));
    }
  }
  return whole;
}

/// Whether two words differ, and only in letters that may have a mark.
bool only_marks_differ(const Letters& one, const Letters& other) {
  return one != other && std::ranges::equal(one, other, [](char32_t a, char32_t b) {
           return a == b || may_have_a_mark(a) || may_have_a_mark(b);
         });
}

std::vector<Letters> words_beyond(const Terms& words, const Terms& others) {
  std::vector<Letters> found;
  for (const std::string& word : words) {
    if (!has(others, word)) found.push_back(whole_letters(word));
  }
  return found;
}

bool differ_by_an_accent(const Terms& a, const Terms& b) {
  const auto others = words_beyond(b, a);
  return std::ranges::any_of(words_beyond(a, b), [&](const Letters& word) {
    return std::ranges::any_of(
        others, [&](const Letters& other) { return only_marks_differ(word, other); });
  });
}

/// Whether words change places around a relation. One that only moves to the other side, as in
/// "In Rome, is it hotter than here?", does not.
bool exchanged(const Terms& a, const Terms& b) {
  return std::ranges::any_of(kRelations, [&](std::string_view relation) {
    const auto one = sides_of(a, relation);
    if (!one.has_value()) return false;
    const auto other = sides_of(b, relation);
    return other.has_value() && moves(one->before, one->after, other->after, other->before) &&
           moves(one->after, one->before, other->before, other->after);
  });
}

bool fires(Veto veto, const Cut& a, const Cut& b) {
  switch (veto) {
    case Veto::kNumber:
      return numbers(a) != numbers(b);
    case Veto::kNegation:
      return negations(a) != negations(b);
    case Veto::kAntonym:
      return opposed(a.lower, b.lower) || opposed(b.lower, a.lower);
    case Veto::kEntity:
      return names_missing(entities(a), b) || names_missing(entities(b), a);
    case Veto::kSymbol:
      return symbols(a) != symbols(b);
    case Veto::kQuestionWord:
      return question_words(a) != question_words(b);
    case Veto::kOrder:
      return exchanged(a.lower, b.lower);
    case Veto::kCase:
      return differ_by_a_capital(a, b) || differ_by_a_capital(b, a);
    case Veto::kAccent:
      return differ_by_an_accent(a.lower, b.lower);
    case Veto::kWord:
      return false;
  }
  return true;
}

}  // namespace

std::string_view to_string(Veto veto) {
  constexpr std::array<std::string_view, kVetoes.size()> kNames{
      "number",        "negation", "antonym", "entity", "symbol",
      "question_word", "order",    "case",    "accent", "word"};
  return kNames[static_cast<std::size_t>(veto)];
}

std::vector<Veto> vetoes(std::string_view a, std::string_view b) {
  const Cut one = cut(a);
  const Cut other = cut(b);
  std::vector<Veto> fired;
  std::ranges::copy_if(kVetoes, std::back_inserter(fired),
                       [&](Veto veto) { return fires(veto, one, other); });
  return fired;
}

bool differ_by_a_question_word(std::string_view a, std::string_view b) {
  const auto asks = [](const Cut& text) {
    Features words = question_words(text);
    words.erase("what");
    return words;
  };
  const auto others = [](Terms terms) {
    std::erase_if(terms, [](const std::string& term) {
      return english::kFillers.contains(term) ||
             std::ranges::find(kQuestionWords, term, &Pair::first) != kQuestionWords.end();
    });
    return terms;
  };
  const Cut one = cut(a);
  const Cut other = cut(b);
  return asks(one) != asks(other) && others(one.lower) == others(other.lower);
}

bool differ_only_in(const WordSet& words, std::string_view a, std::string_view b) {
  const auto others = [&](std::string_view text) {
    Terms terms = cut(text).lower;
    std::erase_if(terms, [&](const std::string& term) { return words.contains(term); });
    return terms;
  };
  return others(a) == others(b);
}

}  // namespace afterimage
