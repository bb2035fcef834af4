// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidation_log.h"

#include <gtest/gtest.h>

#include "testing/simulated_cell.h"

namespace afterimage {
namespace {

using testing::SimulatedCell;
using testing::SimulatedServers;

constexpr Secret kRoot{std::byte{7}};

Invalidation tagged(const std::string& tag) { return {.tag = tag}; }

/// One process's end.
struct Reader {
  explicit Reader(SimulatedServers& servers) : cell(servers), list(cell, kRoot) {}
  SimulatedCell cell;
  InvalidationLog list;
};

TEST(InvalidationLog, WhatOneAddsAllRead) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  const InvalidationList begun = one.list.read().value();
  EXPECT_EQ(begun.count(), 0U);
  EXPECT_EQ(other.list.read().value(), begun) << "one is begun, and not two";
  EXPECT_EQ(one.list.add(tagged("a")).value().count(), 1U);
  EXPECT_EQ(other.list.add(tagged("b")).value().count(), 2U);
  const InvalidationList now = one.list.read().value();
  EXPECT_EQ(now.secret(), begun.secret());
  ASSERT_EQ(now.told_apart(), 2U);
  EXPECT_EQ(now.erasures().front().tag, "a");
  EXPECT_EQ(now.erasures().back().tag, "b");
}

TEST(InvalidationLog, TwoWhoAddAtOnceBothDo) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  one.cell.before_replacing = [&] { ASSERT_TRUE(other.list.add(tagged("b")).has_value()); };
  ASSERT_TRUE(one.list.read().has_value());
  one.cell.before_replacing = [&] { ASSERT_TRUE(other.list.add(tagged("c")).has_value()); };
  ASSERT_TRUE(one.list.add(tagged("a")).has_value());
  const InvalidationList now = other.list.read().value();
  ASSERT_EQ(now.count(), 3U);
  EXPECT_EQ(now.erasures()[2].tag, "a");
}

TEST(InvalidationLog, AListThatIsGoneDamagedOrShorterIsANewOne) {
  const struct {
    const char* name;
    std::function<void(SimulatedServers&, const std::string& earlier)> lose;
  } kCases[] = {
      {"gone", [](auto& s, const auto&) { s.lose_all(); }},
      {"damaged", [](auto& s, const auto&) { s.master->back() ^= 1; }},
      {"no list at all", [](auto& s, const auto&) { s.master = ""; }},
      {"an earlier one", [](auto& s, const auto& earlier) { s.master = earlier; }},
  };
  for (const auto& c : kCases) {
    SimulatedServers servers;
    Reader one(servers);
    Reader other(servers);
    ASSERT_TRUE(one.list.add(tagged("a")).has_value());
    const std::string earlier = *servers.master;
    ASSERT_TRUE(one.list.add(tagged("b")).has_value());
    const InvalidationList before = other.list.read().value();
    c.lose(servers, earlier);
    const InvalidationList now = one.list.read().value();
    EXPECT_NE(now.secret(), before.secret()) << c.name;
    EXPECT_EQ(now.count(), 0U) << c.name;
    EXPECT_EQ(other.list.read().value(), now) << c.name << ": one is begun, and not two";
    EXPECT_NE(one.list.names(now), one.list.names(before)) << c.name;
  }
}

// A replica that had not heard took over, and somebody else erased something: as many as before.
TEST(InvalidationLog, AsManyAndNotTheSameIsANewList) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  ASSERT_TRUE(one.list.add(tagged("a")).has_value());
  const auto earlier = servers.master;
  ASSERT_TRUE(one.list.add(tagged("b")).has_value());
  servers.master = earlier;
  ASSERT_TRUE(other.list.add(tagged("c")).has_value());
  ASSERT_TRUE(other.list.add(tagged("d")).has_value());
  EXPECT_EQ(one.list.read().value().count(), 0U);
}

TEST(InvalidationLog, AGenerationThatWasLeftIsNotGoneBackTo) {
  SimulatedServers servers;
  Reader one(servers);
  ASSERT_TRUE(one.list.add(tagged("a")).has_value());
  const auto left = servers.master;
  servers.lose_all();
  const InvalidationList second = one.list.read().value();
  servers.master = left;
  const InvalidationList third = one.list.read().value();
  EXPECT_NE(third.secret(), second.secret());
  EXPECT_NE(third.secret(),
            InvalidationList::from_bytes(std::as_bytes(std::span(*left)))->secret());
}

TEST(InvalidationLog, WhatNotEveryCopyHasIsNeitherReadNorAdded) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  ASSERT_TRUE(one.list.add(tagged("a")).has_value());
  servers.replicates = false;
  EXPECT_EQ(one.list.add(tagged("b")).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(other.list.read().error().code, ErrorCode::kUnavailable);
  servers.fail_over();
  EXPECT_EQ(one.list.read().value().count(), 1U) << "nobody relied on what is lost";
  EXPECT_EQ(other.list.read().value().count(), 1U);
}

TEST(InvalidationLog, WhoseAnswerWasLostReadsWhatBecameOfIt) {
  SimulatedServers servers;
  Reader one(servers);
  ASSERT_TRUE(one.list.read().has_value());
  one.cell.answer_is_lost = true;
  EXPECT_FALSE(one.list.add(tagged("a")).has_value());
  one.cell.answer_is_lost = false;
  EXPECT_EQ(one.list.read().value().count(), 1U);
}

TEST(InvalidationLog, AListThatGrowsTellsLessApart) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  const std::string words(InvalidationList::kMostBytes, 'x');
  InvalidationList before = other.list.read().value();
  for (std::uint64_t n = 1; n <= 100; ++n) {
    const InvalidationList now = one.list.add({.words = words}).value();
    EXPECT_EQ(now.count(), n);
    EXPECT_LE(servers.master->size(), InvalidationLog::kMostBytes);
    EXPECT_TRUE(now.continues(before));
    before = now;
  }
  EXPECT_GT(before.all_before(), 0U);
  EXPECT_EQ(other.list.read().value(), before) << "it is still the same list";
  EXPECT_EQ(one.list.add({.words = words + "x"}).error().code, ErrorCode::kLimitExceeded);
}

TEST(InvalidationLog, NamesNeedBothTheListAndTheSecret) {
  SimulatedServers servers;
  Reader one(servers);
  const InvalidationList list = one.list.read().value();
  SimulatedCell cell(servers);
  const InvalidationLog stranger(cell, Secret{std::byte{8}});
  EXPECT_NE(one.list.names(list), stranger.names(list));
}

}  // namespace
}  // namespace afterimage
