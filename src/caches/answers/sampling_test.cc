// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <string>

#include "afterimage/question.h"
#include "caches/answers/eligibility.h"

namespace afterimage {
namespace {

TEST(Eligibility, Cases) {
  using enum ReuseLimit;
  const struct {
    const char* name;
    SamplingFacts facts;
    ReuseLimit expected;
  } kCases[] = {
      {"temperature 0", {.temperature = 0.0}, kSimilarity},
      {"minus zero is zero", {.temperature = -0.0}, kSimilarity},
      {"no temperature", {}, kNothing},
      {"slightly above zero", {.temperature = 1e-9}, kNothing},
      {"seeded", {.temperature = 0.7, .seeded = true}, kExact},
      {"seeded, no temperature", {.seeded = true}, kExact},
      {"seeded at 0", {.temperature = 0.0, .seeded = true}, kSimilarity},
      {"two choices", {.temperature = 0.0, .choices = 2}, kExact},
      {"no choice", {.temperature = 0.0, .choices = 0}, kExact},
      {"probabilities", {.temperature = 0.0, .log_probabilities = true}, kExact},
      {"tools", {.temperature = 0.0, .offers_tools = true}, kExact},
      {"tool results", {.temperature = 0.0, .has_tool_results = true}, kExact},
      {"tools, left to chance", {.temperature = 0.5, .offers_tools = true}, kNothing},
  };
  for (const auto& c : kCases) {
    const Eligibility found = eligibility(c.facts, "What color is the car?");
    EXPECT_EQ(found.limit, c.expected) << c.name;
    EXPECT_FALSE(found.why.empty()) << c.name;
  }
}

TEST(Eligibility, AQuestionThatSpeaksOfTimeHasNoSimilarOnes) {
  const SamplingFacts greedy{.temperature = 0.0};
  for (const char* asked : {"What is the weather today?",
                            "Who is the CURRENT president?",
                            "now?",
                            "What's new this week",
                            "What time is it",
                            "the latest release, please",
                            "How old is the mayor?",
                            "What's the date?",
                            "Wie ist das Wetter heute in Rom?",
                            "Qui est au pouvoir aujourd'hui ?",
                            "¿Qué tiempo hará mañana?",
                            "Che ore sono adesso?",
                            "今天几号？",
                            "明日の天気は？",
                            "Welches Datum haben wir?",
                            "Quelle est la date\u00A0?",
                            "Quel temps fait-il aujourd\u2019hui\u202F?",
                            "\u00ABMaintenant\u00BB",
                            "¿Qué fecha es?",
                            "¿Qué hora es?",
                            "What\u2019s today\u2019s date",
                            "日期是什么",
                            "日付は？",
                            "今は何時ですか",
                            "現在の首相は誰ですか"}) {
    EXPECT_EQ(eligibility(greedy, asked).limit, ReuseLimit::kExact) << asked;
  }
  for (const char* asked : {"Do you know the car?", "Whether it rains", "How tall is the mayor?",
                            "snow", "", "Beschreibe den Strom im Widerstand", "L\u2019actualité",
                            "¿De qué color es?", "描述电阻", "抵抗器の電流", "\xE2\x80", "\xE4"}) {
    EXPECT_EQ(eligibility(greedy, asked).limit, ReuseLimit::kSimilarity) << asked;
  }
}

TEST(DependsOnTime, FindsEveryTimePhraseAnywhere) {
  for (const std::string phrase :
       {"today",     "today's",    "tonight",    "tomorrow",      "yesterday",     "now",
        "nowadays",  "currently",  "current",    "latest",        "recent",        "recently",
        "newest",    "upcoming",   "this week",  "this month",    "this year",     "this morning",
        "last week", "last month", "last year",  "next week",     "next month",    "next year",
        "so far",    "right away", "weather",    "news",          "what time",     "what day",
        "what date", "price of",   "stock",      "score of",      "exchange rate", "how old is",
        "ago",       "as of",      "these days", "at the moment", "up to date"}) {
    for (const std::string& asked :
         {phrase, "Say " + phrase, phrase + " or never", "Say, " + phrase + ", or never",
          "\n" + phrase + "?!", "a b c d " + phrase + " e"}) {
      EXPECT_TRUE(depends_on_time(asked)) << asked;
    }
    for (const std::string& asked : {"x" + phrase, phrase + "x", "say" + phrase + "or never",
                                     "0" + phrase + "0", phrase + "\xC3\xA9"}) {
      EXPECT_FALSE(depends_on_time(asked)) << asked;
    }
  }
}

TEST(DependsOnTime, PunctuationAndSpacesCountAsOneSpace) {
  EXPECT_TRUE(depends_on_time("THIS ... \t week"));
  EXPECT_TRUE(depends_on_time("the price-of fish"));
  EXPECT_FALSE(depends_on_time("this fine week"));
  EXPECT_FALSE(depends_on_time("price"));
  EXPECT_FALSE(depends_on_time(" \n ?"));
}

}  // namespace
}  // namespace afterimage
