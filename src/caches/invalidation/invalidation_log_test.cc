// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidation_log.h"

#include <gtest/gtest.h>

#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "testing/simulated_cell.h"

namespace afterimage {
namespace {

using testing::SimulatedCell;
using testing::SimulatedServers;

constexpr Secret kRoot{std::byte{7}};

Invalidation tagged(const std::string& tag) { return {.tag = tag}; }

/// One process.
struct Reader {
  explicit Reader(SimulatedServers& servers) : cell(servers), log(cell, kRoot) {}
  SimulatedCell cell;
  InvalidationLog log;
};

TEST(InvalidationLog, AllProcessesReadWhatOneAdds) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  const InvalidationList begun = one.log.read().value();
  EXPECT_EQ(begun.count(), 0U);
  EXPECT_EQ(other.log.read().value(), begun) << "one list is started, not two";
  EXPECT_EQ(one.log.add(tagged("a")).value().count(), 1U);
  EXPECT_EQ(other.log.add(tagged("b")).value().count(), 2U);
  const InvalidationList now = one.log.read().value();
  EXPECT_EQ(now.secret(), begun.secret());
  ASSERT_EQ(now.entries().size(), 2U);
  EXPECT_EQ(now.entries().front().tag, "a");
  EXPECT_EQ(now.entries().back().tag, "b");
}

TEST(InvalidationLog, ConcurrentAddsBothSucceed) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  one.cell.before_replacing = [&] { ASSERT_TRUE(other.log.add(tagged("b")).has_value()); };
  ASSERT_TRUE(one.log.read().has_value());
  one.cell.before_replacing = [&] { ASSERT_TRUE(other.log.add(tagged("c")).has_value()); };
  ASSERT_TRUE(one.log.add(tagged("a")).has_value());
  const InvalidationList now = other.log.read().value();
  ASSERT_EQ(now.count(), 3U);
  EXPECT_EQ(now.entries()[2].tag, "a");
}

TEST(InvalidationLog, AMissingDamagedOrRolledBackListStartsANewGeneration) {
  const struct {
    const char* name;
    std::function<void(SimulatedServers&, const std::string& earlier)> lose;
  } kCases[] = {
      {"gone", [](auto& s, const auto&) { s.lose_all(); }},
      {"damaged", [](auto& s, const auto&) { s.master->back() ^= 1; }},
      {"not a list", [](auto& s, const auto&) { s.master = ""; }},
      {"an earlier one", [](auto& s, const auto& earlier) { s.master = earlier; }},
  };
  for (const auto& c : kCases) {
    SimulatedServers servers;
    Reader one(servers);
    Reader other(servers);
    ASSERT_TRUE(one.log.add(tagged("a")).has_value());
    const std::string earlier = *servers.master;
    ASSERT_TRUE(one.log.add(tagged("b")).has_value());
    const InvalidationList before = other.log.read().value();
    c.lose(servers, earlier);
    const InvalidationList now = one.log.read().value();
    EXPECT_NE(now.secret(), before.secret()) << c.name;
    EXPECT_EQ(now.count(), 0U) << c.name;
    EXPECT_EQ(other.log.read().value(), now) << c.name << ": one list is started, not two";
    EXPECT_NE(one.log.names(now), one.log.names(before)) << c.name;
  }
}

// Processes of that version use it: a new generation would erase their answers.
TEST(InvalidationLog, AListOfAnotherVersionIsLeftAlone) {
  FieldWriter fields("afterimage/answer-erasures/2");
  fields.number("members", 3);
  std::vector<std::byte> theirs(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(theirs);
  theirs.insert(theirs.end(), checksum.begin(), checksum.end());
  SimulatedServers servers;
  SimulatedCell cell(servers);
  ASSERT_TRUE(cell.replace(std::nullopt, theirs).value());
  Reader ours(servers);
  EXPECT_EQ(ours.log.read().error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(ours.log.add(tagged("a")).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(cell.read().value().value().bytes, theirs);
}

// A stale replica took over, and another process added as many invalidations as were lost.
TEST(InvalidationLog, ADivergedListOfEqualLengthStartsANewGeneration) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  ASSERT_TRUE(one.log.add(tagged("a")).has_value());
  const auto earlier = servers.master;
  ASSERT_TRUE(one.log.add(tagged("b")).has_value());
  servers.master = earlier;
  ASSERT_TRUE(other.log.add(tagged("c")).has_value());
  ASSERT_TRUE(other.log.add(tagged("d")).has_value());
  EXPECT_EQ(one.log.read().value().count(), 0U);
}

TEST(InvalidationLog, NeverReturnsToAnAbandonedGeneration) {
  SimulatedServers servers;
  Reader one(servers);
  ASSERT_TRUE(one.log.add(tagged("a")).has_value());
  const auto abandoned = servers.master;
  servers.lose_all();
  const InvalidationList second = one.log.read().value();
  servers.master = abandoned;
  const InvalidationList third = one.log.read().value();
  EXPECT_NE(third.secret(), second.secret());
  EXPECT_NE(third.secret(),
            InvalidationList::from_bytes(std::as_bytes(std::span(*abandoned)))->secret());
}

TEST(InvalidationLog, RequiresEveryReplicaToAcknowledge) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  ASSERT_TRUE(one.log.add(tagged("a")).has_value());
  servers.replicates = false;
  EXPECT_EQ(one.log.add(tagged("b")).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(other.log.read().error().code, ErrorCode::kUnavailable);
  servers.fail_over();
  EXPECT_EQ(one.log.read().value().count(), 1U) << "the lost invalidation was never acknowledged";
  EXPECT_EQ(other.log.read().value().count(), 1U);
}

TEST(InvalidationLog, ReadsTheOutcomeOfAnAddWhoseReplyWasLost) {
  SimulatedServers servers;
  Reader one(servers);
  ASSERT_TRUE(one.log.read().has_value());
  one.cell.answer_is_lost = true;
  EXPECT_FALSE(one.log.add(tagged("a")).has_value());
  one.cell.answer_is_lost = false;
  EXPECT_EQ(one.log.read().value().count(), 1U);
}

TEST(InvalidationLog, AGrowingListMergesItsOlderHalf) {
  SimulatedServers servers;
  Reader one(servers);
  Reader other(servers);
  const std::string words(InvalidationList::kMaxBytes, 'x');
  InvalidationList before = other.log.read().value();
  for (std::uint64_t n = 1; n <= 100; ++n) {
    const InvalidationList now = one.log.add({.words = words}).value();
    EXPECT_EQ(now.count(), n);
    EXPECT_LE(servers.master->size(), InvalidationLog::kMaxBytes);
    EXPECT_TRUE(now.continues(before));
    before = now;
  }
  EXPECT_GT(before.all_before(), 0U);
  EXPECT_EQ(other.log.read().value(), before) << "it is still the same list";
  EXPECT_EQ(one.log.add({.words = words + "x"}).error().code, ErrorCode::kLimitExceeded);
}

TEST(InvalidationLog, NamesDependOnListAndSecret) {
  SimulatedServers servers;
  Reader one(servers);
  const InvalidationList list = one.log.read().value();
  SimulatedCell cell(servers);
  const InvalidationLog stranger(cell, Secret{std::byte{8}});
  EXPECT_NE(one.log.names(list), stranger.names(list));
}

}  // namespace
}  // namespace afterimage
