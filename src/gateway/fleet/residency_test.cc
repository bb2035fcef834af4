// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/residency.h"

#include <gtest/gtest.h>

#include <list>
#include <string>

#include "foundation/crypto/sha256.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

/// "abc": three links of 100 tokens, each known by all letters up to it; upper case: a media item.
struct Prompt {
  explicit Prompt(const std::string& letters) {
    for (std::size_t i = 1; i <= letters.size(); ++i) {
      const std::string up_to = letters.substr(0, i);
      ChainLink link{.key = {sha256(std::as_bytes(std::span(up_to)))}};
      const char last = up_to.back();
      link.is_media = last >= 'A' && last <= 'Z';
      if (link.is_media) link.media.bytes = sha256(std::as_bytes(std::span(&last, 1)));
      chain.links.push_back(link);
    }
    tokens.assign(chain.links.size(), 100);
  }
  ContentChain chain;
  std::vector<float> tokens;
};

Resident find(const Residency& record, const std::string& letters, Duration now = 0s) {
  const Prompt prompt(letters);
  return record.find(prompt.chain, prompt.tokens, now);
}
void assume(Residency& record, const std::string& letters, Duration now = 0s) {
  const Prompt prompt(letters);
  record.assume(prompt.chain, prompt.tokens, now);
}
/// A request that the engine answers, and says how much of it was cached.
void ask(Residency& record, const std::string& letters, double cached) {
  const Prompt prompt(letters);
  const Resident before = record.find(prompt.chain, prompt.tokens, 0s);
  record.assume(prompt.chain, prompt.tokens, 0s);
  record.learn(prompt.chain, prompt.tokens, cached, before);
}

TEST(Residency, HoldsTheLongestPrefixThatWasThere) {
  Residency record;
  EXPECT_EQ(find(record, "abc").links, 0U);
  assume(record, "abc");
  EXPECT_EQ(find(record, "abc").tokens, 300);
  EXPECT_EQ(find(record, "abx").tokens, 200);
  EXPECT_EQ(find(record, "abcd").tokens, 300);
  EXPECT_EQ(find(record, "xbc").tokens, 0);
  EXPECT_EQ(find(record, "abc").confirmed_tokens, 0);
}

TEST(Residency, MediaCountBeyondThePrefixAndOnce) {
  Residency record;
  assume(record, "aPb");
  EXPECT_EQ(find(record, "aPb").media, 0U) << "its KV is there, so that it is not encoded";
  EXPECT_EQ(find(record, "xPyP").media, 1U);
  EXPECT_EQ(find(record, "xQ").media, 0U);
}

TEST(Residency, WhatWasNotUsedForHalfAnHourIsNotExpected) {
  Residency record;
  assume(record, "abP", 0s);
  EXPECT_EQ(find(record, "abP", 30min).tokens, 300);
  EXPECT_EQ(find(record, "abP", 30min + 1ns).tokens, 0);
  EXPECT_EQ(find(record, "xP", 30min + 1ns).media, 0U);
}

TEST(Residency, TheBeginningOfAPromptIsDroppedLast) {
  Residency record({.links = 4});
  assume(record, "abcd");
  assume(record, "x");
  EXPECT_EQ(record.links(), 4U);
  EXPECT_EQ(find(record, "abcd").tokens, 300);
  EXPECT_EQ(find(record, "x").tokens, 100);
  assume(record, "abcdefgh");  // more than it holds
  EXPECT_EQ(record.links(), 4U);
  EXPECT_EQ(find(record, "abcdefgh").tokens, 400);
}

TEST(Residency, MediaAreBounded) {
  Residency record({.media = 2});
  for (const char* letters : {"A", "B", "A", "C"}) assume(record, letters);
  EXPECT_EQ(record.media(), 2U);
  EXPECT_EQ(find(record, "xA").media, 1U);
  EXPECT_EQ(find(record, "xB").media, 0U);
  EXPECT_EQ(find(record, "xC").media, 1U);
}

TEST(Residency, WhatTheEngineReportsIsConfirmed) {
  Residency record;
  ask(record, "abc", 0);
  EXPECT_EQ(find(record, "abc").confirmed_tokens, 0);
  ask(record, "abcd", 300);
  EXPECT_EQ(find(record, "abcd").tokens, 400);
  EXPECT_EQ(find(record, "abcd").confirmed_tokens, 300);
}

TEST(Residency, LearnsHowMuchTheEngineHolds) {
  Residency record({.least_capacity = 100});
  // An engine with room for 1,000 tokens, least recently used first: 20 prompts of 200 tokens.
  std::list<std::string> engine;
  int expected_and_gone = 0;
  for (int round = 0; round < 30; ++round) {
    for (char letter = 'a'; letter < 'a' + 20; ++letter) {
      const std::string prompt = {letter, 'z'};
      const auto held = std::ranges::find(engine, prompt);
      const bool hit = held != engine.end();
      if (hit) engine.erase(held);
      engine.push_front(prompt);
      if (engine.size() > 5) engine.pop_back();
      if (round > 3 && find(record, prompt).tokens > 0 && !hit) ++expected_and_gone;
      ask(record, prompt, hit ? 200 : 0);
    }
  }
  // A capacity that never grew again would be learnt once and kept for ever.
  EXPECT_LE(expected_and_gone, 20) << "of 520";
  EXPECT_LT(record.capacity(), 4'000);
}

TEST(Residency, ACapacityLearntTooSmallGrowsAgain) {
  Residency record({.least_capacity = 100});
  ask(record, "abc", 0);
  assume(record, "defg");
  ask(record, "abc", 0);  // it was gone after 400 tokens
  const double small = record.capacity();
  EXPECT_LT(small, 400);
  for (int i = 0; i < 3; ++i) {
    assume(record, std::string("hijklmno") + static_cast<char>('a' + i));
    ask(record, "abc", 300);
  }
  EXPECT_GE(record.capacity(), 800);
}

TEST(Residency, AReportOfNothingConfirmsNothing) {
  Residency record;
  const Prompt prompt("abc");
  const std::vector<float> few(3, 20);  // less than what a report may be wrong by
  record.assume(prompt.chain, few, 0s);
  record.learn(prompt.chain, few, 0, {});
  EXPECT_EQ(record.find(prompt.chain, few, 0s).confirmed_tokens, 0);
}

TEST(Residency, EvictionsOfTheEngineDropTheLeastRecentlyUsed) {
  Residency record;
  assume(record, "ab");
  assume(record, "xy");
  record.forget_share(0.3);
  EXPECT_EQ(find(record, "ab").tokens, 0);
  EXPECT_EQ(find(record, "xy").tokens, 200);
  record.forget_share(1);
  EXPECT_EQ(record.links(), 0U);
  EXPECT_EQ(record.tokens(), 0);
}

TEST(Residency, WhatTheEngineNamesOutlivesWhatIsAssumed) {
  const auto named = [](Residency& record) {
    for (const ChainLink& link : Prompt("ab").chain.links) record.report_held(link.key, 100, 0s);
    assume(record, "xyP");
  };
  Residency record;
  named(record);
  record.forget_share(0.3);  // of 300 tokens that are assumed
  EXPECT_EQ(find(record, "ab").confirmed_tokens, 200);
  EXPECT_EQ(find(record, "xyP").tokens, 200);
  record.forget_share(1);
  EXPECT_EQ(find(record, "ab").confirmed_tokens, 200);
  EXPECT_EQ(find(record, "xyP").tokens, 0);
  Residency broken;
  named(broken);
  broken.forget_assumed();
  EXPECT_EQ(find(broken, "ab").confirmed_tokens, 200);
  EXPECT_EQ(find(broken, "xyP").tokens, 0);
  EXPECT_EQ(find(broken, "P").media, 0U);
  EXPECT_EQ(broken.tokens(), 200);
}

TEST(Residency, WhatTheEngineNamesIsThereUntilItSaysOtherwise) {
  Residency record;
  const Prompt prompt("abc");
  for (const ChainLink& link : prompt.chain.links) record.report_held(link.key, 100, 0s);
  // Confirmed without a request from here, however old, and whatever the capacity seems to be.
  record.limit_capacity(0);
  const Resident found = find(record, "abcd", 24h);
  EXPECT_EQ(found.links, 3U);
  EXPECT_EQ(found.confirmed_tokens, 300);
  ask(record, "abc", 0);  // a report that contradicts it changes nothing
  EXPECT_EQ(find(record, "abc").confirmed_tokens, 300);
  record.report_lost(prompt.chain.links[1].key);
  EXPECT_EQ(find(record, "abc").links, 1U);
  EXPECT_EQ(record.tokens(), 200);
  record.report_lost(prompt.chain.links[1].key);
  EXPECT_EQ(record.tokens(), 200);
  record.clear();
  EXPECT_EQ(find(record, "abc").links, 0U);
}

TEST(Residency, AReportContradictsTheEventsOnlyWhereTheyStillNameWhatWasComputed) {
  Residency record;
  const Prompt prompt("abc");
  const auto contradicted = [&](double cached, const Resident& before) {
    return record.is_contradicted(prompt.chain, prompt.tokens, cached, before, 0s);
  };
  assume(record, "abc");
  EXPECT_FALSE(contradicted(0, find(record, "abc"))) << "nothing was named";
  for (const ChainLink& link : prompt.chain.links) record.report_held(link.key, 100, 0s);
  const Resident before = find(record, "abc");
  EXPECT_EQ(before.named_tokens, 300);
  EXPECT_FALSE(contradicted(300, before));
  EXPECT_FALSE(contradicted(150, before));
  EXPECT_TRUE(contradicted(149, before));
  EXPECT_TRUE(contradicted(0, before));
  record.report_lost(prompt.chain.links[2].key);  // while the request was on its way
  EXPECT_FALSE(contradicted(0, before));
}

TEST(Residency, ARestartClearsEverything) {
  Residency record;
  assume(record, "aP");
  record.clear();
  EXPECT_EQ(find(record, "aP").tokens, 0);
  EXPECT_EQ(find(record, "xP").media, 0U);
}

/// Whatever is asked, reported and evicted: bounds hold, and a prefix is never longer than what was
/// ever assumed.
TEST(ResidencyProperty, StaysWithinItsBounds) {
  testing::for_each_seed(200, [](Rng& rng) {
    Residency record({.links = 1 + rng.below(20), .media = 1 + rng.below(3)});
    for (int step = 0; step < 200; ++step) {
      std::string letters;
      for (std::uint64_t i = 1 + rng.below(8); i > 0; --i) {
        letters += static_cast<char>((rng.chance(0.2) ? 'A' : 'a') + rng.below(4));
      }
      const auto before = find(record, letters);
      ASSERT_LE(before.links, letters.size());
      ASSERT_LE(before.confirmed_tokens, before.tokens);
      if (rng.chance(0.7)) ask(record, letters, rng.uniform() * 1000);
      if (rng.chance(0.1)) record.forget_share(rng.uniform());
      if (rng.chance(0.05)) record.forget_assumed();
      if (rng.chance(0.1)) record.report_held(Prompt(letters).chain.links.back().key, 100, 0s);
      if (rng.chance(0.1)) record.report_lost(Prompt(letters).chain.links.front().key);
      if (rng.chance(0.02)) record.clear();
      ASSERT_LE(record.links(), 20U);
      ASSERT_LE(record.media(), 3U);
      ASSERT_NEAR(record.tokens(), 100.0 * static_cast<double>(record.links()), 1e-3);
    }
  });
}

}  // namespace
}  // namespace afterimage
