// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/vetoes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace afterimage {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

struct Pair {
  const char* a;
  const char* b;
};

void expect_vetoed(Veto veto, const std::vector<Pair>& pairs) {
  for (const Pair& pair : pairs) {
    EXPECT_THAT(vetoes(pair.a, pair.b), Contains(veto)) << pair.a << " | " << pair.b;
    EXPECT_EQ(vetoes(pair.a, pair.b), vetoes(pair.b, pair.a)) << pair.a << " | " << pair.b;
    EXPECT_THAT(vetoes(pair.a, pair.a), IsEmpty()) << pair.a;
  }
}

TEST(Vetoes, LetTrueParaphrasesPass) {
  const Pair kPairs[] = {{"", ""},
                         {"How do I enable 2FA?", "How do I turn on 2FA?"},
                         {"What is the capital of France?", "what's the capital of france"},
                         {"What is a good way to learn Rust?", "Which way to learn Rust is good?"},
                         {"Are there two dogs?", "Are there 2 dogs?"},
                         {"Why isn't it open?", "Why is it not open?"},
                         {"Why isn\u2019t it open?", "Why isn't it open?"},
                         {"Who has my bag?", "Who holds my bag?"}};
  for (const Pair& pair : kPairs) {
    EXPECT_THAT(vetoes(pair.a, pair.b), IsEmpty()) << pair.a << " | " << pair.b;
  }
}

TEST(Vetoes, Numbers) {
  expect_vetoed(Veto::kNumber, {{"Are there 2 dogs?", "Are there 3 dogs?"},
                                {"Are there two dogs?", "Are there three dogs?"},
                                {"Are there 2 dogs?", "Are there dogs?"},
                                {"How far is 5km?", "How far is 5mi?"},
                                {"Who won in 2016?", "Who won in 2017?"},
                                {"Who came first?", "Who came second?"},
                                {"Does 2 + 3 + 2 fit?", "Does 2 + 3 + 3 fit?"}});
}

TEST(Vetoes, Negation) {
  expect_vetoed(Veto::kNegation, {{"Is the door open?", "Is the door not open?"},
                                  {"Does it bark?", "Doesn't it bark?"},
                                  {"Tea with milk?", "Tea without milk?"},
                                  {"Is it not unknown?", "Is it unknown?"},
                                  {"Is it not without milk?", "Is it without milk?"}});
}

TEST(Vetoes, Antonyms) {
  expect_vetoed(Veto::kAntonym, {{"How do I turn on dark mode?", "How do I turn off dark mode?"},
                                 {"What is left of the cup?", "What is right of the cup?"},
                                 {"Is the door locked?", "Is the door unlocked?"},
                                 {"How do I enable this?", "How do I disable this?"},
                                 {"What is my name?", "What is your name?"},
                                 {"How do I gain weight?", "How do I lose weight?"}});
}

TEST(Vetoes, Entities) {
  expect_vetoed(Veto::kEntity, {{"Who is mayor of Paris?", "Who is mayor of Rome?"},
                                {"What does NASA do?", "What does ESA do?"},
                                {"Is Java fast?", "Is JavaScript fast?"},
                                {"Is it fast?", "Is it fast in Java?"}});
}

TEST(Vetoes, Symbols) {
  expect_vetoed(Veto::kSymbol, {{"What is C?", "What is C++?"},
                                {"What is C++?", "What is C#?"},
                                {"What does --max-cost do?", "What does --max-heads do?"},
                                {"See internal/awsconf", "See internal/executor"},
                                {"What is a_b?", "What is a_c?"},
                                {"Who sang \"go\"?", "Who sang \"stay\"?"},
                                {"Is x < y?", "Is x > y?"}});
}

TEST(Vetoes, QuestionWords) {
  expect_vetoed(Veto::kQuestionWord, {{"Who is it?", "What is it?"},
                                      {"Where is it?", "When is it?"},
                                      {"How does it move?", "Why does it move?"},
                                      {"How many move?", "How do they move?"}});
}

TEST(Vetoes, WordsThatACapitalTurnsIntoOthers) {
  expect_vetoed(Veto::kCase, {{"Is Polish hard?", "Is polish hard?"},
                              {"How large is the US?", "How large are us?"},
                              {"What does the WHO say?", "What does the who say?"},
                              {"Is it warm in May?", "Is it warm in may?"}});
  const Pair kPairs[] = {{"What is the capital of France?", "What is the capital of france?"},
                         {"Is Excel slow?", "is excel slow"},
                         {"Polish is hard, is it not?", "Is Polish not hard?"},
                         {"Is Polish hard?", "Polish"}};
  for (const Pair& pair : kPairs) {
    EXPECT_THAT(vetoes(pair.a, pair.b), ::testing::Not(Contains(Veto::kCase)))
        << pair.a << " | " << pair.b;
  }
}

TEST(Vetoes, Order) {
  expect_vetoed(
      Veto::kOrder,
      {{"Is the pink bar taller than the green bar?", "Is the green bar taller than the pink bar?"},
       {"How do I convert miles to kilometers?", "How do you convert kilometers to miles?"},
       {"Is the ring left of the cross?", "Is the cross left of the ring?"},
       {"Was Ann seen by Bob?", "Was Bob seen by Ann?"},
       {"Are there more rings than cups?", "Are there more cups than rings here?"}});
  // Nothing changes places with the word that moves.
  const Pair kPairs[] = {
      {"In Rome, what is higher than the dome?", "What is higher than the dome in Rome?"},
      {"What color is the cup to the left of the fork?",
       "The cup to the left of the fork: what color is it?"},
      {"Is the cup left of the fork, or the fork left of the cup?",
       "Is the fork left of the cup, or the cup left of the fork?"}};
  for (const Pair& pair : kPairs) {
    EXPECT_THAT(vetoes(pair.a, pair.b), IsEmpty()) << pair.a << " | " << pair.b;
  }
}

TEST(Vetoes, Accent) {
  expect_vetoed(Veto::kAccent, {{"Wie kann ich zahlen?", "Wie kann ich zählen?"},
                                {"Wie kann ich zahlen?", "Wie kann man za\u0308hlen?"},
                                {"¿Dónde está la papa?", "¿Dónde está la papá?"},
                                {"Где мой дом?", "Где мои дом?"},
                                {"Was ist schön?", "Was ist schon?"}});
  const Pair kPairs[] = {{"Über was?", "über was?"},
                         {"Где дом?", "где дом"},
                         {"Wie kann ich zählen?", "Wie kann man zählen?"},
                         {"What is a cup?", "What is a cap?"},
                         {"这是什么", "那是什么"}};
  for (const Pair& pair : kPairs) {
    EXPECT_THAT(vetoes(pair.a, pair.b), ::testing::Not(Contains(Veto::kAccent)))
        << pair.a << " | " << pair.b;
  }
}

TEST(DifferOnlyIn, WordsOfTheSet) {
  const WordSet words{"where", "is", "do", "you", "see", "the"};
  const struct {
    const char* name;
    const char* a;
    const char* b;
    bool expected;
  } kCases[] = {
      {"both empty", "", "", true},
      {"one empty", "", "Where is the cup?", false},
      {"other words around the same thing", "Where is the cup?", "Do you see the cup", true},
      {"another thing", "Where is the cup?", "Where is the cap?", false},
      {"one more thing", "Where is the cup?", "Where is the red cup?", false},
      {"a word of no form", "Where is the cup?", "Where is the cup now?", false},
      {"a negation", "Is the cup there?", "Is the cup not there?", false},
      {"things exchanged", "Is the cup left of the fork?", "Is the fork left of the cup?", false},
      {"a thing twice", "Where is the cup cup?", "Where is the cup?", false},
      {"a plural", "Where is the cup?", "Where is the cups?", false},
      {"capitals", "Where is the Cup?", "where is the cup?", true},
      {"another script", "ถ้วยอยู่ที่ไหน", "หมวกอยู่ที่ไหน", false}};
  for (const auto& c : kCases) {
    EXPECT_EQ(differ_only_in(words, c.a, c.b), c.expected) << c.name;
    EXPECT_EQ(differ_only_in(words, c.b, c.a), c.expected) << c.name;
  }
}

TEST(DifferByAQuestionWord, AndArticles) {
  const struct {
    const char* a;
    const char* b;
    bool expected;
  } kCases[] = {{"Where is the cup?", "What is the cup?", true},
                {"Tell me where you see the cup.", "What is a cup?", true},
                {"Where is the cup?", "Is there a cup?", true},
                {"How many cups do you see?", "What cups do you see?", false},  // and in "many"
                {"How old is the cup?", "What is the old cup?", true},
                {"How big is the cup?", "Is the cup big?", false},
                {"How big is the cup?", "What size is the cup?", false},
                {"In which corner is the cup?", "Where is the cup?", false},
                {"What is the colour of the cup?", "Tell me the colour of the cup.", false},
                {"Which cup is it?", "What is the cup?", false},
                {"Where is the cup?", "Where is the cap?", false},
                {"", "Where?", true},
                {"", "", false}};
  for (const auto& c : kCases) {
    EXPECT_EQ(differ_by_a_question_word(c.a, c.b), c.expected) << c.a << " | " << c.b;
    EXPECT_EQ(differ_by_a_question_word(c.b, c.a), c.expected) << c.b << " | " << c.a;
  }
}

}  // namespace
}  // namespace afterimage
