// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/answer_erasures.h"

#include <gtest/gtest.h>

#include "afterimage/semantic/testing/questions.h"
#include "afterimage/testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

AnswerErasures no_erasures() { return AnswerErasures(Secret{std::byte{1}, std::byte{2}}); }

/// Kept when there had been so many erasures.
ArchivedAnswer kept_after(std::uint64_t erasures) {
  return {.scope = testing::scope(1),
          .question = "What is the Dog?",
          .erasures = erasures,
          .kept_at = WallTime(100s),
          .owner = TenantId("ann"),
          .tags = {"doc:1", "doc:2"},
          .answer = testing::answer("so")};
}

TEST(AnswerErasures, RefuseWhatWasKeptBeforeAndIsMeant) {
  const struct {
    const char* name;
    AnswerErasure erasure;
    bool refused;
  } kCases[] = {
      {"all", {}, true},
      {"the space", {.space = testing::scope(1).space}, true},
      {"another space", {.space = NamespaceId{{std::byte{9}}}}, false},
      {"the scope", {.scope = testing::scope(1).key}, true},
      {"another scope", {.scope = testing::scope(2).key}, false},
      {"the question", {.question = "What is the Dog?"}, true},
      {"a part of it", {.question = "What is the"}, false},
      {"a tag", {.tag = "doc:2"}, true},
      {"a part of a tag", {.tag = "doc"}, false},
      {"the owner", {.owner = TenantId("ann")}, true},
      {"another owner", {.owner = TenantId("bob")}, false},
      {"words", {.words = "THE dog"}, true},
      {"other words", {.words = "the dogs"}, false},
      {"kept later", {.kept_before = WallTime(100s)}, false},
      {"kept before", {.kept_before = WallTime(100s) + 1ns}, true},
      {"one of two", {.tag = "doc:1", .owner = TenantId("bob")}, false},
  };
  for (const auto& c : kCases) {
    AnswerErasures erasures = no_erasures();
    EXPECT_FALSE(erasures.refuses(kept_after(0)));
    ASSERT_TRUE(erasures.add(c.erasure).has_value());
    EXPECT_EQ(erasures.refuses(kept_after(0)), c.refused) << c.name;
    EXPECT_FALSE(erasures.refuses(kept_after(1))) << c.name << ": it was kept after";
    const auto read = AnswerErasures::from_bytes(erasures.to_bytes());
    ASSERT_TRUE(read.has_value()) << c.name;
    EXPECT_EQ(*read, erasures) << c.name;
  }
}

TEST(AnswerErasures, WhatIsAheadOfTheListIsRefused) {
  EXPECT_TRUE(no_erasures().refuses(kept_after(1))) << "by a list that is older than it";
}

TEST(AnswerErasures, TooManyToTellApartRefuseMoreAndNeverLess) {
  AnswerErasures erasures = no_erasures();
  for (std::size_t i = 0; i < AnswerErasures::kMost; ++i) {
    ASSERT_TRUE(erasures.add({.tag = "other:" + std::to_string(i)}).has_value());
  }
  EXPECT_FALSE(erasures.refuses(kept_after(0)));
  ASSERT_TRUE(erasures.add({.tag = "doc:1"}).has_value());
  EXPECT_EQ(erasures.told_apart(), AnswerErasures::kMost / 2 + 1);
  EXPECT_TRUE(erasures.refuses(kept_after(127)));
  EXPECT_TRUE(erasures.refuses(kept_after(128))) << "by its tag";
  ArchivedAnswer other = kept_after(127);
  other.tags.clear();
  EXPECT_TRUE(erasures.refuses(other)) << "nobody knows any more what the 128th was about";
  other.erasures = 128;
  EXPECT_FALSE(erasures.refuses(other));
  EXPECT_FALSE(erasures.refuses(kept_after(257)));
  EXPECT_EQ(AnswerErasures::from_bytes(erasures.to_bytes()), erasures);
}

TEST(AnswerErasures, WordsThatAreTooManyAreNotWrittenDown) {
  AnswerErasures erasures = no_erasures();
  const auto refused = erasures.add({.words = std::string(AnswerErasures::kMostBytes + 1, 'x')});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(erasures.count(), 0U);
}

TEST(AnswerErasuresProperty, OneBitElseIsNoList) {
  AnswerErasures erasures = no_erasures();
  ASSERT_TRUE(erasures.add({.question = "one", .kept_before = WallTime(5s)}).has_value());
  const auto bytes = erasures.to_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(AnswerErasures::from_bytes(std::span(bytes).first(size)).has_value()) << size;
  }
  testing::for_each_seed(500, [&](Rng& rng) {
    auto other = bytes;
    other[rng.below(other.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    ASSERT_FALSE(AnswerErasures::from_bytes(other).has_value());
  });
}

}  // namespace
}  // namespace afterimage
