// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Which calls the eviction policy sees, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "afterimage/prefill_once.h"
#include "caches/prefix/policy_keys.h"
#include "caches/prefix/testing/kv_world.h"
#include "testing/recording_policy.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the fixtures of these tests
using ::testing::ElementsAre;
using ::testing::IsEmpty;

PrefixCacheOptions recorded(const std::shared_ptr<RecordingPolicy::Log>& log) {
  PrefixCacheOptions options;
  options.policy = std::make_unique<RecordingPolicy>(log);
  return options;
}

struct Fixture : CacheFixture {
  explicit Fixture(KvLayout of = {{full()}}, Bytes capacity = 1_MiB)
      : Fixture(std::make_shared<RecordingPolicy::Log>(), std::move(of), capacity) {}

  [[nodiscard]] PrefillLeader lead(const Sequence& prompt, const RequestFacts& facts = {}) {
    return front.lead({.space = space(1), .layout = &layout, .prompt = &prompt, .facts = facts})
        .value();
  }
  void commit(PrefillLeader& leader, const Sequence& prompt) {
    std::vector<std::uint32_t> snapshots;
    for (const TokenCount at : leader.snapshots()) snapshots.push_back(at.value());
    const auto size = static_cast<std::uint32_t>(prompt.tokens.size());
    Capture capture(space(1), layout, prompt, size, leader.match().resume().value(), snapshots);
    capture.kv.cost = Duration(10 * size);
    ASSERT_TRUE(leader.commit(capture.kv).has_value());
    front.cache().check_invariants();
  }
  void serve(const Sequence& prompt, const RequestFacts& facts = {}) {
    PrefillLeader leader = lead(prompt, facts);
    commit(leader, prompt);
  }

  std::shared_ptr<RecordingPolicy::Log> log;
  KvLayout layout;
  PrefillOnce front{*cache};

 private:
  Fixture(const std::shared_ptr<RecordingPolicy::Log>& of_log, KvLayout of, Bytes capacity)
      : CacheFixture(capacity, recorded(of_log)), log(of_log), layout(std::move(of)) {}
};

const Sequence kFirst = text_of(40);
const Sequence kSecond = kFirst + text_of(30, 2);
const Sequence kThird = kSecond + text_of(30, 3);

TEST(PolicyUse, ReportsARequestOnceAtCommitDeepestNodeFirst) {
  Fixture f;
  {
    PrefillLeader leader =
        f.lead(kFirst, {.now = std::chrono::seconds(5), .kind = TurnKind::kToolResult});
    EXPECT_THAT(f.log->take(), IsEmpty()) << "nothing was used yet";
    f.commit(leader, kFirst);
    EXPECT_THAT(f.log->take(), ElementsAre("request", "insert a"));
    ASSERT_EQ(f.log->requests.size(), 1U);
    EXPECT_EQ(f.log->requests[0].now, std::chrono::seconds(5));
    EXPECT_EQ(f.log->requests[0].kind, TurnKind::kToolResult);
  }
  f.serve(kSecond);
  EXPECT_THAT(f.log->take(), ElementsAre("request", "insert b", "touch a"));
  f.serve(kThird);
  EXPECT_THAT(f.log->take(), ElementsAre("request", "insert c", "touch b", "touch a"));
}

TEST(PolicyUse, ReportsASnapshotBeforeItsNode) {
  Fixture f({{full(), recurrent()}});
  f.serve(kFirst);
  EXPECT_THAT(f.log->take(), ElementsAre("request", "insert a", "insert b"));
  f.serve(kSecond);
  // New snapshots, the rows around them, the snapshot that was restored, its rows.
  EXPECT_THAT(f.log->take(),
              ElementsAre("request", "insert c", "insert d", "insert e", "touch a", "touch b"));
  EXPECT_EQ(f.log->facts.at("a").key, 0U);
}

TEST(PolicyUse, ReportsAnExactRepeatOnce) {
  Fixture f;
  f.serve(kFirst);
  f.serve(kSecond);
  f.log->take();
  f.serve(kSecond, {.now = std::chrono::seconds(9)});
  f.serve(kThird);
  EXPECT_THAT(f.log->take(), ElementsAre("request", "touch b", "touch a",  //
                                         "request", "insert c", "touch b", "touch a"));
  EXPECT_EQ(f.log->requests[2].now, std::chrono::seconds(9));
}

TEST(PolicyUse, ReportsAnUncommittedMatchWhenTheLeaderIsDropped) {
  Fixture f;
  f.serve(kFirst);
  f.log->take();
  {
    PrefillLeader leader = f.lead(kSecond);
    leader.fail();
    f.serve(text_of(8, 9));
    EXPECT_THAT(f.log->take(), ElementsAre("request", "insert b")) << "another request's";
  }
  {
    const PrefixMatch match = f.front.match(space(1), kSecond).value();
  }
  f.serve(kSecond);
  EXPECT_THAT(f.log->take(), ElementsAre("request", "touch a", "request", "touch a",  //
                                         "request", "insert c", "touch a"));
}

TEST(PolicyUse, ReportsARequestThatStartsOverOnce) {
  Fixture f;
  f.serve(kFirst);
  f.log->take();
  {
    PrefillLeader leader = f.lead(kSecond, {.now = std::chrono::seconds(3)});
    leader.start_over();
    f.commit(leader, kSecond);
  }
  EXPECT_THAT(f.log->take(), ElementsAre("request", "insert b", "touch a"));
  EXPECT_EQ(f.log->requests.back().now, std::chrono::seconds(3));
}

TEST(PolicyUse, DoesNotReportADamagedMatch) {
  Fixture f;
  f.serve(kFirst);
  f.serve(kSecond);
  {
    const PrefixMatch match = f.front.match(space(1), kSecond).value();
    const auto bytes = f.front.cache().kv(match).rows[0].back().bytes;
    const_cast<std::byte&>(bytes[0]) ^= std::byte{1};  // NOLINT: simulates a stray write
  }
  f.log->take();
  f.serve(kSecond);
  EXPECT_THAT(f.log->take(), ElementsAre("request", "touch b", "touch a",  // while it was intact
                                         "erase b", "request", "insert c", "touch a"));
}

TEST(PolicyUse, ReportsOnlyTheUpperPartOfASplitSegment) {
  Fixture f;
  f.serve(kSecond);
  const EntryFacts whole = f.log->facts.at("a");
  f.log->take();
  f.serve(kFirst + text_of(20, 7));
  EXPECT_THAT(f.log->take(), ElementsAre("split a b", "request", "insert c", "touch b"));
  const EntryFacts lower = f.log->facts.at("a");
  const EntryFacts upper = f.log->facts.at("b");
  EXPECT_EQ(lower.key, whole.key) << "its end has not changed";
  Fixture alone;
  alone.serve(kFirst);
  EXPECT_EQ(upper.key, alone.log->facts.at("a").key);
  EXPECT_NE(upper.key, whole.key);
  EXPECT_EQ(upper.cost, Duration(400));
  EXPECT_EQ(lower.cost, Duration(300));
  EXPECT_NEAR(static_cast<double>(upper.bytes.value()) / static_cast<double>(whole.bytes.value()),
              40.0 / 70, 0.01);
  EXPECT_NEAR(static_cast<double>((lower.bytes + upper.bytes).value()),
              static_cast<double>(whole.bytes.value()), 1);
}

// KV cached turn by turn and then evicted returns as one sequence.
TEST(PolicyUse, KeysDoNotDependOnWhereTheTreeSplits) {
  Fixture f;
  f.serve(kFirst);
  f.serve(kSecond);
  f.front.cache().clear();
  f.serve(kThird);
  const auto& all = f.log->contains.at("c");
  EXPECT_EQ(all.size(), 5U) << "and the entry's own: 100 tokens have six steps";
  EXPECT_THAT(all, ::testing::Contains(f.log->facts.at("a").key));
  EXPECT_THAT(all, ::testing::Contains(f.log->facts.at("b").key));
  EXPECT_THAT(all, ::testing::Not(::testing::Contains(f.log->facts.at("c").key)));
  f.serve(kThird + text({1, 2}));
  EXPECT_EQ(f.log->facts.at("d").key, 0U) << "shorter than one step";
}

TEST(PolicyUse, KeysDifferWhereTheTreeDistinguishes) {
  std::vector<std::uint64_t> keys;
  const auto key = [&](const Sequence& sequence, std::uint64_t chain = 1) {
    return extend_keys(chain, sequence, 0, static_cast<std::uint32_t>(sequence.tokens.size()),
                       keys);
  };
  const Sequence one = with_media(text_of(10), picture(1), 30) + text_of(24, 2);
  const Sequence other = with_media(text_of(10), picture(2), 30) + text_of(24, 2);
  EXPECT_NE(key(one), key(other));
  EXPECT_NE(key(one), key(one, 2)) << "another namespace";
  EXPECT_NE(key(text_of(32)), key(text_of(31) + text({5})));
  EXPECT_EQ(key(text_of(33)), key(text_of(32) + text({5})));
  // Extending from any start gives the same keys.
  key(one);
  const auto whole = keys;
  const std::uint64_t begun = extend_keys(1, one, 0, 39, keys);
  extend_keys(begun, one, 39, 64, keys);
  EXPECT_THAT(keys, ElementsAre(whole[0], whole[1])) << "48 and 64";
}

}  // namespace
}  // namespace afterimage
