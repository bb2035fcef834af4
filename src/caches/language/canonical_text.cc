// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/canonical_text.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "afterimage/question.h"
#include "caches/language/english.h"
#include "caches/language/question_words.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

using ascii::is_beyond;
using ascii::is_digit;
using ascii::is_letter;
using ascii::is_lower;
using ascii::is_upper;
using ascii::lowered;

bool all_lower(std::string_view text) { return std::ranges::all_of(text, is_lower); }

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
  if (!words.may_have_apostrophes()) return;
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
    // A gap that is one space stays the text's own, so that words behind each other are copied at once.
    if (words[i].prose && words[i - 1].prose && words[i].gap.size() != 1) words[i].gap = " ";
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
  if (!words.may_have_apostrophes()) return;
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
std::string folded(std::string_view text, Words words, void (*fold)(Words&)) {
  std::string before;
  for (std::string_view last = text;; last = before) {
    fold(words);
    std::string after = joined(words.list());
    if (after == last) return after;
    before = std::move(after);
  }
}

/// Whether a word is English, or folding may make it English: capitals, contractions, plurals.
bool may_become_english(const Word& word) {
  if (!word.prose) return false;
  if (word.core == "I") return true;
  const LoweredWord lower(word.core);
  const std::string_view stem = lower.text().substr(0, lower.text().find_last_not_of('s') + 1);
  return english::kEnglish.contains(lower.text()) || english::kEnglish.contains(stem);
}

/// Whether the text has no near form, as its first word tells, which folding does not replace by
/// another, or all its words: most texts are neither questions nor requests, or in another language.
bool is_surely_not_english(const Words& words) {
  const std::string_view first = core_at(words, 0);
  if (!is_opener(LoweredWord(first).text()) && !is_plural(first)) return true;
  const auto has_apostrophe = [](const Word& word) {
    return word.prose && word.core.contains('\'');
  };
  if (words.may_have_apostrophes() && std::ranges::any_of(words, has_apostrophe)) return false;
  return std::ranges::none_of(words, may_become_english);
}

/// The question where folding changed nothing; else its form, in `place`.
std::string_view unless_same(std::string form, std::string_view question, std::string& place) {
  if (form == question) return question;
  return place = std::move(form);
}

}  // namespace

std::string_view to_string(MatchLevel level) {
  constexpr std::array<std::string_view, kMatchLevels.size()> kNames{"text:exact", "text:canonical",
                                                                     "text:near"};
  return kNames[static_cast<std::size_t>(level)];
}

std::optional<std::string> fold_text(std::string_view question, MatchLevel level) {
  std::string place;
  const auto form = fold_text(question, level, place);
  return form.has_value() ? std::optional(std::string(*form)) : std::nullopt;
}

std::optional<CanonicalForm> canonical_form(std::string_view question, std::string& place) {
  if (!is_text(question)) return std::nullopt;
  auto words = words_of(question);
  if (!words.has_value()) return CanonicalForm{.text = question};
  const bool may_have_near = !is_surely_not_english(*words);
  return CanonicalForm{
      .text = unless_same(folded(question, *std::move(words), fold_typing), question, place),
      .may_have_near = may_have_near};
}

std::optional<std::string_view> fold_text(std::string_view question, MatchLevel level,
                                          std::string& place) {
  if (level == MatchLevel::kExact) return question;
  if (level == MatchLevel::kCanonical) {
    const auto canonical = canonical_form(question, place);
    return canonical.has_value() ? std::optional(canonical->text) : std::nullopt;
  }
  if (!is_text(question)) return std::nullopt;
  auto words = words_of(question);
  if (!words.has_value() || is_surely_not_english(*words)) return std::nullopt;
  std::string near = folded(question, *std::move(words), [](Words& w) {
    fold_typing(w);
    fold_wording(w);
  });
  // Folding may produce a word that forbids folding (spells, spell), or remove the only English
  // one.
  const auto still = words_of(near);
  if (!still.has_value() || !is_english(*still)) return std::nullopt;
  return unless_same(std::move(near), question, place);
}

}  // namespace afterimage
