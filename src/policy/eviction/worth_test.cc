// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/worth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "foundation/platform/random.h"

namespace afterimage {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

SlotId slot(std::uint32_t index) { return {.index = index, .generation = 0}; }

/// A policy and a clock. Every conversation is a few blocks, which its next request uses again.
struct Talk {
  Worth worth;
  Duration now{0};
  std::uint32_t next = 0;
  std::map<std::uint32_t, bool> here;

  std::uint32_t begin(RequestFacts facts, Duration cost = kSecond) {
    facts.now = now;
    worth.begin_request(facts);
    for (int block = 0; block < 4; ++block) {
      worth.insert(slot(next), {.bytes = 1_MiB, .cost = cost, .key = next + 1});
      here[next++] = true;
    }
    return next - 4;
  }
  void go_on(std::uint32_t first, RequestFacts facts) {
    facts.now = now;
    worth.begin_request(facts);
    for (std::uint32_t block = first; block < first + 4; ++block) worth.touch(slot(block));
  }
  void end(std::uint32_t first) {
    for (std::uint32_t block = first; block < first + 4; ++block)
      erase(block, RemovalReason::kErased);
  }
  void erase(std::uint32_t block, RemovalReason why) {
    worth.erase(slot(block), why);
    here[block] = false;
  }
  std::uint32_t evict() {
    const std::uint32_t victim = worth.victim().value().index;
    erase(victim, RemovalReason::kEvicted);
    return victim;
  }
};

TEST(Worth, WithoutRequestsEvictsTheOldest) {
  Worth worth;
  for (std::uint32_t i = 0; i < 4; ++i) worth.insert(slot(i), {.bytes = 1_KiB});
  EXPECT_EQ(worth.victim(), slot(0));
  worth.touch(slot(0));
  EXPECT_EQ(worth.victim(), slot(1));
}

TEST(Worth, EvictsTheDeepestEntryOfARequestFirst) {
  Talk talk;
  const std::uint32_t first = talk.begin({});
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(talk.evict(), first + i);
}

// Requests stopped by a tool call continue after ten seconds, the others never do.
TEST(Worth, LearnsWhichRequestsContinue) {
  Talk talk;
  constexpr RequestFacts kTool{.stop = StopReason::kToolUse};
  constexpr RequestFacts kLast{.stop = StopReason::kEndTurn};
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t tool = talk.begin(kTool);
    talk.now += kSecond;
    const std::uint32_t last = talk.begin(kLast);
    talk.now += 10 * kSecond;
    talk.go_on(tool, kLast);
    talk.now += 300 * kSecond;
    talk.end(tool);
    talk.end(last);
  }
  const std::uint32_t tool = talk.begin(kTool);
  talk.now += kSecond;
  const std::uint32_t last = talk.begin(kLast);
  talk.now += kSecond;
  talk.worth.begin_request({.now = talk.now});
  EXPECT_EQ(talk.evict(), last);  // although it is younger
  EXPECT_EQ(talk.evict(), last + 1);
  EXPECT_EQ(talk.evict(), last + 2);
  EXPECT_EQ(talk.evict(), last + 3);
  EXPECT_EQ(talk.evict(), tool);
}

TEST(Worth, LearnsHowMuchAHintIsWorth) {
  for (const bool honest : {true, false}) {
    Talk talk;
    constexpr RequestFacts kTurn{.hint = ContinuationHint::kGoesOn};
    constexpr RequestFacts kLastTurn{.hint = ContinuationHint::kEnds};
    for (int round = 0; round < 300; ++round) {
      const std::uint32_t one = talk.begin(honest ? kTurn : kLastTurn);
      const std::uint32_t other = talk.begin(honest ? kLastTurn : kTurn);
      talk.now += 10 * kSecond;
      talk.go_on(one, {});
      talk.now += 300 * kSecond;
      talk.end(one);
      talk.end(other);
    }
    const std::uint32_t goes_on = talk.begin(kTurn);
    const std::uint32_t ends = talk.begin(kLastTurn);
    talk.now += kSecond;
    talk.worth.begin_request({.now = talk.now});
    EXPECT_EQ(talk.evict(), honest ? ends : goes_on) << (honest ? "honest" : "lying");
  }
}

// One tenant's hints are right, the other's the opposite of right: each is believed by its own record.
TEST(Worth, LearnsTheHintsOfEachTenantApart) {
  Talk talk;
  const auto begin = [&](std::uint64_t tenant, ContinuationHint hint) {
    talk.worth.begin_request({.now = talk.now, .hint = hint});
    for (int block = 0; block < 4; ++block) {
      talk.worth.insert(slot(talk.next), {.bytes = 1_MiB,
                                          .cost = kSecond,
                                          .key = talk.next + 1,
                                          .owner = EntryLabel{.bits = tenant}});
      talk.here[talk.next++] = true;
    }
    return talk.next - 4;
  };
  constexpr std::array kHints{ContinuationHint::kGoesOn, ContinuationHint::kEnds};
  for (int round = 0; round < 300; ++round) {
    std::array<std::uint32_t, 4> all{};
    for (std::size_t i = 0; i < 4; ++i) all[i] = begin(1 + i / 2, kHints[i % 2]);
    talk.now += 10 * kSecond;
    talk.go_on(all[0], {});  // the honest tenant's that goes on
    talk.go_on(all[3], {});  // the liar's that ends
    talk.now += 300 * kSecond;
    for (const std::uint32_t each : all) talk.end(each);
  }
  const std::uint32_t honest = begin(1, ContinuationHint::kGoesOn);
  const std::uint32_t lies = begin(2, ContinuationHint::kGoesOn);
  const std::uint32_t honest_end = begin(1, ContinuationHint::kEnds);
  talk.now += kSecond;
  talk.worth.begin_request({.now = talk.now});
  std::array<std::uint32_t, 8> first{};
  for (std::uint32_t& victim : first) victim = talk.evict() / 4 * 4;
  EXPECT_EQ(std::ranges::count(first, honest), 0);
  EXPECT_EQ(std::ranges::count(first, lies), 4);
  EXPECT_EQ(std::ranges::count(first, honest_end), 4);
}

// Only conversations with long prompts continue. The table of classes has no sizes: the regression
// learns this, in any unit.
TEST(Worth, LearnsFromTheSizeOfThePrompt) {
  for (const Bytes entry : {1_KiB, 64_MiB}) {
    Talk talk;
    const auto begin = [&](unsigned times) {
      talk.worth.begin_request({.now = talk.now});
      talk.worth.insert(
          slot(talk.next),
          {.bytes = Bytes(entry.value() * times), .cost = kSecond * times, .key = talk.next + 1});
      talk.here[talk.next] = true;
      return talk.next++;
    };
    for (int round = 0; round < 300; ++round) {
      const std::uint32_t lasting = begin(8);
      const std::uint32_t brief = begin(1);
      talk.now += 10 * kSecond;
      talk.worth.begin_request({.now = talk.now});
      talk.worth.touch(slot(lasting));
      talk.now += 300 * kSecond;
      talk.erase(lasting, RemovalReason::kErased);
      talk.erase(brief, RemovalReason::kErased);
    }
    const std::uint32_t brief = begin(1);
    talk.now += kSecond;
    const std::uint32_t lasting = begin(8);
    talk.now += kSecond;
    talk.worth.begin_request({.now = talk.now});
    EXPECT_EQ(talk.evict(), brief) << entry.value();  // although its usual reuse is nearer
    EXPECT_EQ(talk.evict(), lasting);
  }
}

// Nearly every request has a class of its own, and no victim is ever asked for.
TEST(Worth, DropsClassesThatNoRunHas) {
  Worth worth;
  Rng rng(1);
  for (std::uint32_t round = 0; round < 20'000; ++round) {
    worth.begin_request({.now = round * kSecond,
                         .output_tokens = 1U << rng.below(12),
                         .kind = static_cast<TurnKind>(rng.below(3)),
                         .stop = static_cast<StopReason>(rng.below(4)),
                         .hint = static_cast<ContinuationHint>(rng.below(3))});
    worth.insert({.index = round % 16, .generation = round},
                 {.bytes = Bytes((2 + rng.below(2)) << rng.below(12)), .cost = kSecond});
    if (round < 15) continue;
    const std::uint32_t oldest = round - 15;
    worth.erase({.index = oldest % 16, .generation = oldest}, RemovalReason::kErased);
    ASSERT_LT(worth.classes(), 5'000U) << round;
  }
}

// A run that the next request leaves behind (it takes its deeper blocks), or divides (its first block),
// gets another class. Nearly every request has one of its own.
TEST(Worth, DropsTheClassThatARunHadBefore) {
  for (const bool divides : {false, true}) {
    Worth worth;
    Rng rng(1);
    constexpr std::uint32_t kBlocks = 6;
    for (std::uint32_t round = 0; round < 8'000; ++round) {
      const auto block = [&](std::uint32_t i) { return SlotId{.index = i, .generation = round}; };
      worth.begin_request({.now = round * kSecond,
                           .output_tokens = 1U << rng.below(12),
                           .kind = static_cast<TurnKind>(rng.below(3)),
                           .stop = static_cast<StopReason>(rng.below(4)),
                           .hint = static_cast<ContinuationHint>(rng.below(3))});
      const Bytes bytes((2 + rng.below(2)) << rng.below(12));
      for (std::uint32_t i = 0; i < kBlocks; ++i) {
        worth.insert(block(i), {.bytes = bytes, .cost = kSecond});
      }
      worth.begin_request({.now = round * kSecond});
      worth.touch(block(divides ? kBlocks - 1 : 1));
      worth.begin_request({.now = round * kSecond});
      for (std::uint32_t i = 0; i < kBlocks; ++i) worth.erase(block(i), RemovalReason::kErased);
      ASSERT_LT(worth.classes(), 5'000U) << round << (divides ? ", divided" : ", left behind");
    }
  }
}

// All conversations continue after ten seconds. A young one is worth more than one whose usual
// reuse was due a minute ago, and reuses after eviction are learned, too.
TEST(Worth, LearnsFromReuseAfterEviction) {
  Talk talk;
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t first = talk.begin({.stop = StopReason::kToolUse});
    const std::uint32_t other = talk.begin({.stop = StopReason::kEndTurn});
    for (std::uint32_t i = 0; i < 4; ++i) talk.erase(first + i, RemovalReason::kEvicted);
    for (std::uint32_t i = 0; i < 4; ++i) talk.erase(other + i, RemovalReason::kEvicted);
    talk.now += 10 * kSecond;
    talk.worth.begin_request({.now = talk.now});
    for (std::uint32_t i = first; i < first + 4; ++i) {
      talk.worth.insert({.index = i, .generation = 1},
                        {.bytes = 1_MiB, .cost = kSecond, .key = i + 1});
    }
    talk.now += 300 * kSecond;
    for (std::uint32_t i = first; i < first + 4; ++i) {
      talk.worth.erase({.index = i, .generation = 1}, RemovalReason::kErased);
    }
  }
  const std::uint32_t goes_on = talk.begin({.stop = StopReason::kToolUse});
  const std::uint32_t ends = talk.begin({.stop = StopReason::kEndTurn});
  talk.now += kSecond;
  talk.worth.begin_request({.now = talk.now});
  EXPECT_EQ(talk.evict(), ends);
  EXPECT_NE(talk.worth.victim().value().index, goes_on + 3);
}

// All conversations continue after a hundred seconds: an LRU would evict those about to continue.
TEST(Worth, KeepsAnOlderEntryThatIsAboutToBeReused) {
  Talk talk;
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t first = talk.begin({});
    talk.now += 100 * kSecond;
    talk.go_on(first, {});
    talk.now += 300 * kSecond;
    talk.end(first);
  }
  talk.begin({});
  talk.now += 85 * kSecond;
  const std::uint32_t young = talk.begin({});
  talk.now += 5 * kSecond;
  talk.worth.begin_request({.now = talk.now});
  EXPECT_EQ(talk.evict(), young);
}

TEST(Worth, ASplitEntryKeepsItsPlaceInItsRun) {
  for (const bool parked : {false, true}) {
    Worth worth;
    worth.begin_request({});
    worth.insert(slot(0), {.bytes = 1_MiB, .key = 9});
    worth.insert(slot(1), {.bytes = 8_MiB, .key = 7});
    worth.insert(slot(2), {.bytes = 1_MiB, .key = 2});
    if (parked) worth.park(slot(1));
    worth.split(slot(1), {.bytes = 6_MiB, .key = 7}, slot(3), {.bytes = 2_MiB, .key = 3});
    if (parked) worth.unpark(slot(1));
    std::vector<std::uint32_t> left;
    while (const auto victim = worth.victim()) {
      left.push_back(victim->index);
      worth.erase(*victim, RemovalReason::kEvicted);
    }
    if (!parked) {
      EXPECT_EQ(left, (std::vector<std::uint32_t>{0, 1, 3, 2}));
    }
    EXPECT_EQ(left.size(), 4U);
    EXPECT_EQ(worth.remembered(), 4U);
  }
}

// Every piece of a prefix that was cached in pieces is recognised when it returns as one entry.
TEST(Worth, RecognisesAPrefixThatReturnsInOnePiece) {
  Worth worth;
  worth.begin_request({});
  worth.insert(slot(0), {.bytes = 8_MiB, .key = 7});
  worth.split(slot(0), {.bytes = 6_MiB, .key = 7}, slot(1), {.bytes = 2_MiB, .key = 3});
  worth.erase(slot(0), RemovalReason::kEvicted);
  worth.erase(slot(1), RemovalReason::kEvicted);
  EXPECT_EQ(worth.remembered(), 2U);
  worth.begin_request({.now = kSecond});
  const std::array<std::uint64_t, 3> contains = {8, 7, 3};
  worth.insert({.index = 0, .generation = 1}, {.bytes = 9_MiB, .key = 9, .contains = contains});
  EXPECT_EQ(worth.remembered(), 0U);
}

TEST(Worth, KeepsTheEntryThatSavesMoreSecondsPerByte) {
  Talk talk;
  const std::uint32_t dear = talk.begin({}, 100 * kSecond);
  const std::uint32_t cheap = talk.begin({}, kSecond);
  EXPECT_EQ(talk.evict(), cheap);
  EXPECT_TRUE(talk.here[dear]);
}

TEST(Worth, RemembersAtMostTheLimit) {
  Worth worth;
  for (std::uint32_t i = 0; i < Worth::kMostRemembered + 1000; ++i) {
    if (i % 100 == 0) worth.begin_request({.now = kSecond * (i / 100)});
    worth.insert({.index = 0, .generation = i}, {.bytes = 1_KiB, .key = i + 1});
    worth.erase({.index = 0, .generation = i}, RemovalReason::kEvicted);
  }
  worth.begin_request({.now = kSecond * 100'000});
  EXPECT_LE(worth.remembered(), Worth::kMostRemembered);
  EXPECT_GT(worth.remembered(), Worth::kMostRemembered - 1000);
}

// The shared budget compares the victims of two caches by it.
TEST(VictimWorth, IsSecondsSavedByByte) {
  const auto worth_of = [](Bytes bytes, Duration cost) {
    Worth policy;
    policy.begin_request({.now = std::chrono::seconds(1)});
    policy.insert({.index = 0}, {.bytes = bytes, .cost = cost, .key = 1});
    policy.begin_request({.now = std::chrono::seconds(2)});
    return policy.victim_worth();
  };
  using std::chrono::milliseconds;
  const auto image = worth_of(4_MiB, milliseconds(400));
  const auto kv = worth_of(16_MiB, milliseconds(400));
  ASSERT_TRUE(image.has_value() && kv.has_value());
  EXPECT_NEAR(*image / *kv, 4, 0.01);
  EXPECT_EQ(Worth().victim_worth(), std::nullopt);
}

}  // namespace
}  // namespace afterimage
