// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Regression tests: one for each known bug of the original prototype's prefix cache.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/prefill_once.h"
#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_tree.h"
#include "caches/prefix/resume_point.h"
#include "caches/prefix/testing/kv_world.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the fixtures of these tests

const KvLayout kFullOnly{{full()}};
const KvLayout kHybrid{{full(), recurrent()}};

TEST(Seed004, B1_TheLastSampledTokenHasNoRow) {
  CacheFixture f;
  ASSERT_TRUE(f.put(text({1, 2, 3, 4, 5})).has_value());
  EXPECT_EQ(f.resume(text({1, 2, 3, 4, 5, 6, 7})), 4U) << "token 5 was sampled and never fed back";
}

TEST(Seed004, B1_AWindowCannotEndPastTheLastRow) {
  CacheFixture f;
  const KvLayout rotating{{full(), sliding(2)}};
  const Sequence prompt = text({1, 2, 3, 4, 5});
  const auto past = f.put(space(1), rotating, prompt, 4, {5});
  ASSERT_FALSE(past.has_value());
  EXPECT_EQ(past.error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(f.put(space(1), rotating, prompt, 4, {4}).has_value());
  EXPECT_EQ(f.resume(space(1), rotating, prompt + text({6, 7})), 4U);
}

TEST(Seed004, B2_AStateServesNoLengthButItsOwn) {
  CacheFixture f;
  ASSERT_TRUE(f.put(space(1), kHybrid, text({1, 2, 3, 4, 5, 6}), 6, {3, 6}).has_value());
  EXPECT_EQ(f.resume(space(1), kHybrid, text({1, 2, 3, 4, 5, 9, 9})), 3U);
  EXPECT_EQ(f.resume(space(1), kHybrid, text({1, 2, 9, 9})), 0U);
}

TEST(Seed004, B3_MediaAreTrimmedByPositionNotCount) {
  CacheFixture f;
  ASSERT_TRUE(f.put(with_media(text({1, 2}), picture(1), 4) + text({7, 8})).has_value());
  const Sequence other_text = with_media(text({1, 5}), picture(1), 4) + text({7});
  EXPECT_EQ(f.resume(other_text), 1U);
  EXPECT_EQ(media_to_encode(other_text.spans, TokenCount(1)).size(), 1U) << "still to be encoded";
}

TEST(Seed004, B3_NoResumePointLiesInsideAnImage) {
  CacheFixture f;
  const Sequence cached = with_media(text({1, 2}), picture(1), 4);
  ASSERT_TRUE(f.put(space(1), kFullOnly, cached, 4).has_value()) << "covers half of the image";
  EXPECT_EQ(f.resume(cached + text({7})), 2U);
}

TEST(Seed004, B4_AVideoIsOneItemHoweverManyFrames) {
  CacheFixture f;
  const Sequence video =
      with_media(text({1}), picture(1), 6, /*splittable=*/true, Modality::kVideo) + text({2});
  const Sequence cached = with_media(video, picture(2), 2) + text({3, 4});
  ASSERT_TRUE(f.put(cached).has_value());
  EXPECT_EQ(f.resume(cached), 11U);
  EXPECT_EQ(media_to_encode(cached.spans, TokenCount(11)).size(), 0U);
  EXPECT_EQ(media_to_encode(cached.spans, TokenCount(8)).size(), 1U)
      << "six frames are one item: the picture behind them is still to be encoded";
  EXPECT_EQ(media_to_encode(cached.spans, TokenCount(4)).size(), 2U)
      << "half a video is needed whole";
}

TEST(Seed004, B5_AnotherImageKeepsThePrefixBeforeIt) {
  CacheFixture f;
  const Sequence start = with_media(text({1, 2, 3}), picture(1), 2) + text({4});
  ASSERT_TRUE(f.put(with_media(start, picture(2), 2) + text({5, 6})).has_value());
  EXPECT_EQ(f.resume(with_media(start, picture(3), 2) + text({5, 6})), 6U);
  EXPECT_EQ(f.resume(start + text({8, 8})), 6U) << "fewer images than cached";
  EXPECT_EQ(f.resume(with_media(text({1, 2, 3}), picture(2), 2) + text({4})), 3U);
}

TEST(Seed004, B6_AnExactRepeatResumesAtLenMinusOne) {
  CacheFixture f;
  const Sequence prompt = text({1, 2, 3, 4, 5});
  ASSERT_TRUE(f.put(space(1), kFullOnly, prompt, 5).has_value());
  EXPECT_EQ(f.resume(prompt), 4U);
  EXPECT_EQ(f.resume(text({1, 2, 3})), 2U) << "a strict prefix";
  EXPECT_EQ(f.resume(text({1})), 0U);
}

TEST(Seed004, B6_OrAtTheLastLegalBoundary) {
  CacheFixture f;
  const Sequence prompt = text({1, 2, 3, 4, 5, 6, 7, 8});
  const KvLayout blocks{{full()}, TokenCount(4)};
  ASSERT_TRUE(f.put(space(1), blocks, prompt, 8).has_value());
  EXPECT_EQ(f.resume(space(1), blocks, prompt), 4U);
  ASSERT_TRUE(f.put(space(2), kHybrid, prompt, 8, {5, 8}).has_value());
  EXPECT_EQ(f.resume(space(2), kHybrid, prompt), 5U);
}

TEST(Seed004, B7_EvictsTheLeastRecentlyUsedFirst) {
  PrefixCacheOptions options;
  options.policy = make_policy("lru").value();
  CacheFixture f(Bytes(3 * 64), std::move(options));
  ASSERT_TRUE(f.put(text({1, 1, 1})).has_value());
  ASSERT_TRUE(f.put(text({2, 2, 2})).has_value());
  ASSERT_TRUE(f.put(text({3, 3, 3})).has_value());
  EXPECT_EQ(f.resume(text({1, 1, 1})), 2U) << "a use refreshes it, not only an insertion";
  ASSERT_TRUE(f.put(text({4, 4, 4})).has_value());
  EXPECT_EQ(f.resume(text({1, 1, 1})), 2U);
  EXPECT_EQ(f.resume(text({2, 2, 2})), 0U);
}

TEST(Seed004, B8_TheBudgetCapsKvWhereverItLives) {
  CacheFixture f(Bytes(10 * 64));
  for (int n = 0; n < 100; ++n) ASSERT_TRUE(f.put(text({n, n, n})).has_value());
  EXPECT_LE(f.budget.peak(), f.budget.capacity());
  EXPECT_EQ(f.cache->stats().sequences, EntryCount(10));
}

TEST(Seed004, B9_AnEntryIsChargedItsOwnBytesAndPinsNoForeignBuffer) {
  CacheFixture f;
  const Sequence prompt = text_of(100);
  const Capture batch(space(1), kFullOnly, prompt, 100);
  ASSERT_EQ(f.cache->insert(space(1), kFullOnly, prompt, batch.kv)->bytes, Bytes(832));
  const std::span<const std::byte> buffer =
      batch.kv.rows[0][0].bytes;  // the engine reuses this buffer
  std::memset(const_cast<std::byte*>(buffer.data()), 0xEE, buffer.size());  // NOLINT
  EXPECT_EQ(f.budget.used(), Bytes(832)) << "100 rows of 8 bytes, rounded up to 64";
  EXPECT_EQ(f.resume(prompt), 99U);
}

TEST(Seed004, B10_EntriesWithoutAttentionRowsAreCountedAndEvicted) {
  const KvLayout recurrent_only{{recurrent()}};
  CacheFixture f(Bytes(4 * 64));
  for (int n = 0; n < 100; ++n) {
    ASSERT_TRUE(f.put(space(1), recurrent_only, text({n, n, n}), 3, {2}).has_value());
  }
  EXPECT_EQ(f.cache->stats().snapshots, EntryCount(4));
  EXPECT_EQ(f.cache->stats().segments, EntryCount(4));
  EXPECT_EQ(f.resume(space(1), recurrent_only, text({99, 99, 99})), 2U);
}

TEST(Seed004, B11_ALookUpVisitsFewNodesHoweverManySequencesAreCached) {
  PrefixTree tree;
  const NodeIndex root = tree.add_root();
  for (int n = 0; n < 20'000; ++n) {
    const Sequence sequence = text({n % 100, n / 100, 3, 4});
    const auto walk = tree.match(root, sequence, 4);
    const bool cut = walk.matched > 0 && walk.matched < tree.end(walk.node);
    const NodeIndex parent = cut ? tree.split(walk.node, walk.matched) : walk.node;
    ASSERT_NE(tree.add_leaf(parent, sequence, 4), kNoNode);
  }
  const auto walk = tree.match(root, text({42, 117, 3, 4}), 4);
  EXPECT_EQ(walk.matched, 4U);
  EXPECT_EQ(walk.steps, 2U);
}

TEST(Seed004, B12_AnotherAdapterOrTenantSharesNothing) {
  CacheFixture f;
  const Sequence prompt = text({1, 2, 3, 4});
  ASSERT_TRUE(f.put(space(1), kFullOnly, prompt, 4).has_value());
  EXPECT_EQ(f.resume(space(2), kFullOnly, prompt), 0U);
}

TEST(Seed004, B13_DigestsAreComparedInFull) {
  CacheFixture f;
  ASSERT_TRUE(f.put(with_media(text({1}), picture(1), 3) + text({2, 3})).has_value());
  EXPECT_EQ(f.resume(with_media(text({1}), picture(2), 3) + text({2, 3})), 1U)
      << "the last byte differs";
  EXPECT_EQ(f.resume(with_media(text({1}), picture(1), 3, false, Modality::kVideo) + text({2, 3})),
            1U);
}

TEST(Seed004, B14_AStateIsReachableAtTheLastBlockOfARepeat) {
  CacheFixture f;
  const KvLayout blocks{{full(), recurrent()}, TokenCount(4)};
  // The same prompt can resume at the stored state, also if it ends at a block boundary.
  for (const auto& [length, last_block] : {std::pair(12U, 8U), {13U, 12U}, {16U, 12U}}) {
    const Sequence request = text_of(length, 2);
    const std::vector<TokenCount> kept =
        snapshot_positions(blocks, request, TokenCount(0), TokenCount(0));
    ASSERT_EQ(kept, std::vector{TokenCount(last_block)}) << length;
    const NamespaceId id = space(length);
    ASSERT_TRUE(f.put(id, blocks, request, length, {kept[0].value()}).has_value());
    EXPECT_EQ(f.resume(id, blocks, request), last_block) << length;
    ASSERT_TRUE(f.cache->erase(id));
  }
  const Sequence prompt = text_of(13);
  ASSERT_TRUE(f.put(space(1), blocks, prompt, 12, {4, 8}).has_value());
  EXPECT_EQ(f.resume(space(1), blocks, prompt), 8U) << "the longest of all states";
  ASSERT_TRUE(f.put(space(1), blocks, prompt, 12, {12}).has_value());
  EXPECT_EQ(f.resume(space(1), blocks, prompt), 12U);
  EXPECT_EQ(f.resume(space(1), blocks, prompt + text({5, 6})), 12U);
  EXPECT_EQ(f.budget.used(), Bytes(128 + 3 * 64)) << "states share the budget of rows";
}

TEST(Seed004, B15_ADamagedStateIsAMissAndIsRemoved) {
  CacheFixture f;
  const Sequence prompt = text({1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(f.put(space(1), kHybrid, prompt, 6, {5}).has_value());
  {
    const PrefixMatch match = f.cache->match(space(1), prompt).value();
    const auto state = f.cache->kv(match).snapshots[0].groups[1][0].bytes;
    const_cast<std::byte&>(state[3]) ^= std::byte{1};  // NOLINT: simulates a stray write
    ASSERT_TRUE(f.discard_damaged(match));
    f.cache->check_invariants();
    EXPECT_EQ(f.resume(space(1), kHybrid, prompt), 0U) << "while it is still pinned";
  }
  f.cache->check_invariants();
  EXPECT_EQ(f.budget.used(), 0_B);
  EXPECT_EQ(f.cache->stats().damaged, 1U);
  EXPECT_EQ(f.cache->stats().hits, 0U);
  ASSERT_TRUE(f.put(space(1), kHybrid, prompt, 6, {5}).has_value());
  EXPECT_EQ(f.resume(space(1), kHybrid, prompt), 5U) << "recomputed and stored again";
}

TEST(Seed004, B16_AStateBeforeTheAnswerOutlivesARewrittenAnswer) {
  CacheFixture f;
  const Sequence question = text({1, 2, 3, 4});
  const Sequence prompt = question + text({90, 91});  // generation suffix
  const std::vector<TokenCount> kept =
      snapshot_positions(kHybrid, prompt, TokenCount(0), TokenCount(0));
  ASSERT_EQ(kept, std::vector{TokenCount(5)});
  // Reasoning and answer with a state after them, as the prototype stored them.
  ASSERT_TRUE(f.put(space(1), kHybrid, prompt + text({50, 51, 52}), 8, {5, 8}).has_value());
  EXPECT_EQ(f.resume(space(1), kHybrid, question + text({90, 52, 5, 6, 7})), 5U);
}

TEST(Seed004, B17_TwoChildrenOfOnePrefixReadTheSameRowsAtTheSameTime) {
  CacheFixture f;
  ASSERT_TRUE(f.put(text({1, 2, 3, 4, 5, 6})).has_value());
  const PrefixMatch one = f.cache->match(space(1), text({1, 2, 3, 8})).value();
  const PrefixMatch other = f.cache->match(space(1), text({1, 2, 3, 9})).value();
  const auto rows_of = [&](const PrefixMatch& match) {
    return f.cache->kv(match).rows[0][0].bytes.data();
  };
  EXPECT_EQ(one.resume(), other.resume());
  EXPECT_EQ(rows_of(one), rows_of(other)) << "no rows were copied";
}

TEST(Seed004, B18_ConcurrentIdenticalPromptsArePrefilledOnce) {
  constexpr unsigned kCallers = 8;
  CacheFixture f;
  PrefillOnce front(*f.cache);
  const Sequence prompt = with_media(text_of(200), picture(1), 50) + text_of(50, 2);
  const PrefillRequest request{.space = space(1), .layout = &kHybrid, .prompt = &prompt};
  std::atomic<unsigned> prefilled{0};
  std::atomic<unsigned> right{0};
  std::vector<std::jthread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      PrefillLeader leader = front.wait_and_lead(request).value();
      if (leader.match().resume() == TokenCount(299)) {
        if (is_kv_of(front.cache().kv(leader.match()), space(1), kHybrid, prompt)) ++right;
        return;
      }
      ++prefilled;
      // Until all others wait, or another thread prefills the same prompt.
      while (prefilled == 1 && front.stats().followed < kCallers - 1) std::this_thread::yield();
      const Capture capture(space(1), kHybrid, prompt, 300, 0, {250, 299});
      EXPECT_TRUE(leader.commit(capture.kv).has_value());
    });
  }
  callers.clear();
  EXPECT_EQ(prefilled, 1U);
  EXPECT_EQ(right, kCallers - 1);
  EXPECT_EQ(front.cache().stats().insertions, 1U);
}

}  // namespace
}  // namespace afterimage
