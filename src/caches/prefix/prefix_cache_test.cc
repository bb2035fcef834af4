// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "caches/prefix/prefix_explanation.h"
#include "caches/prefix/testing/kv_world.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the world of these tests
using ::testing::HasSubstr;

const KvLayout kFullOnly{{full()}};
const KvLayout kHybrid{{full(), recurrent()}};

PrefixCacheOptions at_most(std::uint64_t sequences) {
  PrefixCacheOptions options;
  options.max_sequences = EntryCount(sequences);
  return options;
}

TEST(PrefixCache, AnEmptyCacheAlwaysMisses) {
  CacheFixture f;
  EXPECT_EQ(f.resume(text({1, 2, 3})), 0U);
  EXPECT_EQ(f.resume(Sequence{}), 0U);
  EXPECT_EQ(f.cache->stats().misses, 2U);
}

TEST(PrefixCache, ASharedPrefixIsStoredOnce) {
  CacheFixture f;
  const Sequence system = text_of(600);
  ASSERT_TRUE(f.put(system + text({1, 2, 3})).has_value());
  const Bytes before = f.budget.used();
  const auto second = f.put(system + text({4, 5, 6}));
  EXPECT_EQ(second->had, TokenCount(600));
  EXPECT_EQ(second->added, TokenCount(2));
  EXPECT_EQ(f.budget.used() - before, Bytes(64)) << "two rows";
  EXPECT_EQ(f.resume(system + text({1, 2, 9})), 602U);
  EXPECT_EQ(f.resume(system + text({4, 5, 9})), 602U);
  EXPECT_EQ(f.resume(system + text({9, 9})), 600U);
}

TEST(PrefixCache, RowsAreSlicedWhereSequencesDiverge) {
  for (const std::uint32_t at : {1U, 2U, 255U, 256U, 257U, 300U, 511U, 512U, 599U}) {
    CacheFixture f;
    const Sequence whole = text_of(601);
    ASSERT_TRUE(f.put(whole).has_value());
    Sequence other = whole;
    for (std::size_t i = at; i < other.tokens.size(); ++i) other.tokens[i] = TokenId(5);
    ASSERT_EQ(f.put(other)->had.value(), at);
    EXPECT_EQ(f.resume(whole), 600U) << at;
    EXPECT_EQ(f.resume(other), 600U) << at;
  }
}

TEST(PrefixCache, ACaptureMayOmitCachedRows) {
  CacheFixture f;
  const Sequence first = text({1, 2, 3, 4});
  ASSERT_TRUE(f.put(space(1), kFullOnly, first, 3).has_value());
  const Sequence next = first + text({5, 6, 7});
  const Capture tail(space(1), kFullOnly, next, 6, /*first_row=*/3);
  ASSERT_TRUE(f.cache->insert(space(1), kFullOnly, next, tail.kv).has_value());
  EXPECT_EQ(f.resume(next), 6U);
  const Capture torn(space(1), kFullOnly, text({8, 8, 8, 8}), 4, /*first_row=*/2);
  const auto refused = f.cache->insert(space(1), kFullOnly, text({8, 8, 8, 8}), torn.kv);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << "rows 0 and 1 are missing";
}

TEST(PrefixCache, InsertsWhatAnotherCacheHandsOut) {
  const KvLayout layout{{full(), sliding(5), recurrent()}};
  const Sequence prompt = text_of(300);
  CacheFixture from;
  ASSERT_TRUE(from.put(space(1), layout, prompt, 300, {299}, /*slack=*/20).has_value());
  Sequence fork = prompt;
  fork.tokens.resize(130);
  ASSERT_TRUE(from.put(space(1), layout, fork + text({1, 2, 3}), 133).has_value());
  const PrefixMatch match = from.cache->match(space(1), prompt).value();
  const KvSlice pieces = from.cache->kv(match);
  ASSERT_EQ(pieces.rows[0].size(), 3U);  // [0, 130), [130, 256), [256, 299)
  EXPECT_EQ(pieces.snapshots.front().groups[1].front().count, TokenCount(5));

  CacheFixture to;
  ASSERT_TRUE(to.cache->insert(space(1), layout, prompt, pieces).has_value());
  EXPECT_EQ(to.resume(space(1), layout, prompt), 299U);
  CacheFixture in_one_piece;
  ASSERT_TRUE(in_one_piece.put(space(1), layout, prompt, 299, {299}).has_value());
  EXPECT_EQ(to.budget.used(), in_one_piece.budget.used());

  KvSlice cut = pieces;  // a window in pieces, too
  std::vector<KvRows>& window = cut.snapshots.front().groups[1];
  const KvRows whole = window.front();
  window = rows_between({&whole, 1}, TokenCount(0), TokenCount(296));
  window.push_back(rows_between({&whole, 1}, TokenCount(296), TokenCount(299)).front());
  ASSERT_TRUE(to.cache->erase(space(1)));
  ASSERT_TRUE(to.cache->insert(space(1), layout, prompt, cut).has_value());
  EXPECT_EQ(to.resume(space(1), layout, prompt), 299U);
}

TEST(PrefixCache, AMatchStopsAtTheFirstMediaItemThatDiffers) {
  const Sequence cached = with_media(text({1, 2}), picture(1), 3) + text({3, 4, 5});
  const struct {
    const char* name;
    Sequence prompt;
    std::uint32_t expected;
  } kCases[] = {
      {"the same", cached + text({6}), 7},
      {"another picture", with_media(text({1, 2}), picture(2), 3) + text({3, 4, 5}), 2},
      {"placeholders without a picture", text({1, 2, 999, 999, 999, 3, 4, 5}), 2},
      {"a longer span", with_media(text({1, 2}), picture(1), 4) + text({3, 4, 5}), 2},
      {"another modality",
       with_media(text({1, 2}), picture(1), 3, false, Modality::kAudio) + text({3}), 2},
      {"split in another way", with_media(text({1, 2}), picture(1), 3, true) + text({3}), 2},
      {"the picture elsewhere", with_media(text({1}), picture(1), 3) + text({3, 4, 5}), 1},
      {"the picture twice",
       with_media(with_media(text({1, 2}), picture(1), 3), picture(1), 3) + text({3}), 5},
      {"no further picture", with_media(text({1, 2}), picture(1), 3) + text({9, 9}), 5},
  };
  for (const auto& c : kCases) {
    CacheFixture f;
    ASSERT_TRUE(f.put(cached).has_value());
    EXPECT_EQ(f.resume(c.prompt), c.expected) << c.name;
  }
}

TEST(PrefixCache, DistinguishesChildrenThatBeginWithMedia) {
  CacheFixture f;
  const auto prompt = [](unsigned n) {
    return with_media(text({1}), picture(n), 3) + text({2, 3});
  };
  for (unsigned n = 0; n < 20; ++n) ASSERT_EQ(f.put(prompt(n))->had.value(), n == 0 ? 0U : 1U);
  ASSERT_TRUE(f.put(text({1, 999, 999, 999, 2, 3})).has_value());
  for (unsigned n = 0; n < 20; ++n) EXPECT_EQ(f.resume(prompt(n)), 5U);
  EXPECT_EQ(f.resume(text({1, 999, 999, 999, 2, 3})), 5U);
}

TEST(PrefixCache, AWindowServesTheLengthsItsRowsCover) {
  const KvLayout layout{{full(), sliding(4)}};
  CacheFixture f;
  const Sequence sequence = text_of(40);
  ASSERT_TRUE(f.put(space(1), layout, sequence, 39, {20, 39}, /*slack=*/3).has_value());
  EXPECT_EQ(f.resume(space(1), layout, sequence), 39U);
  Sequence parting = sequence;
  parting.tokens[30] = TokenId(5);
  EXPECT_EQ(f.resume(space(1), layout, parting), 20U);
  parting.tokens[18] = TokenId(5);
  EXPECT_EQ(f.resume(space(1), layout, parting), 18U) << "three more rows serve three more lengths";
  parting.tokens[10] = TokenId(5);
  EXPECT_EQ(f.resume(space(1), layout, parting), 0U);
}

TEST(PrefixCache, AWindowThatHasNotRolledServesEveryBranch) {
  const KvLayout layout{{full(), sliding(100)}};
  CacheFixture f;
  const Sequence sequence = text_of(40);
  ASSERT_TRUE(f.put(space(1), layout, sequence, 39, {39}).has_value());
  Sequence other = sequence;
  other.tokens[20] = TokenId(5);
  ASSERT_TRUE(f.put(space(1), layout, other, 39).has_value());  // splits the node, adds no snapshot
  Sequence third = sequence;
  third.tokens[20] = TokenId(6);
  EXPECT_EQ(f.resume(space(1), layout, third), 20U);
}

TEST(PrefixCache, EvictsLeavesFirst) {
  CacheFixture f(Bytes(4 * 64));
  const Sequence system = text({1, 2, 3});
  ASSERT_TRUE(f.put(system + text({4, 0})).has_value());
  ASSERT_TRUE(f.put(system + text({5, 0})).has_value());  // system | 4 | 5; split inside one piece
  EXPECT_EQ(f.budget.used(), Bytes(2 * 64));
  ASSERT_TRUE(f.put(system + text({6, 0})).has_value());
  ASSERT_TRUE(f.put(system + text({7, 0})).has_value());
  ASSERT_TRUE(f.put(system + text({8, 0})).has_value());
  EXPECT_EQ(f.resume(system + text({8, 0})), 4U);
  EXPECT_EQ(f.resume(system + text({5, 0})), 3U) << "evicted down to the shared prefix";
}

TEST(PrefixCache, NeverEvictsAPinnedSequenceOrItsPrefix) {
  CacheFixture f(Bytes(2 * 64));
  ASSERT_TRUE(f.put(text({1, 2, 3})).has_value());
  const Sequence prompt = text({1, 2, 3});
  std::optional<PrefixMatch> held = f.cache->match(space(1), prompt).value();
  for (int n = 10; n < 20; ++n) ASSERT_TRUE(f.put(text({n, n, n})).has_value());
  EXPECT_TRUE(is_kv_of(f.cache->kv(*held), space(1), kFullOnly, prompt));
  const auto too_much = f.put(text_of(20));
  ASSERT_FALSE(too_much.has_value());
  EXPECT_EQ(too_much.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.resume(text({19, 19, 19})), 2U) << "a failed insertion evicts nothing";
  held.reset();
  EXPECT_FALSE(f.put(text_of(20)).has_value()) << "larger than the budget";
  EXPECT_TRUE(f.put(text_of(17)).has_value());
  EXPECT_EQ(f.resume(prompt), 0U);
}

TEST(PrefixCache, EnforcesTheSequenceLimit) {
  PrefixCacheOptions options = at_most(2);
  options.policy = make_policy("lru").value();  // so that it is known who leaves
  CacheFixture f(1_MiB, std::move(options));
  ASSERT_TRUE(f.put(text({1, 1, 1})).has_value());
  ASSERT_TRUE(f.put(text({2, 2, 2})).has_value());
  ASSERT_TRUE(f.put(text({2, 2, 2, 2})).has_value()) << "an extension is the same sequence";
  EXPECT_EQ(f.cache->stats().sequences, EntryCount(2));
  EXPECT_EQ(f.resume(text({1, 1, 1})), 2U);
  ASSERT_TRUE(f.put(text({3, 3, 3})).has_value());
  EXPECT_EQ(f.cache->stats().sequences, EntryCount(2));
  EXPECT_EQ(f.resume(text({1, 1, 1})), 2U);
  EXPECT_EQ(f.resume(text({2, 2, 2})), 0U);
}

TEST(PrefixCache, EnforcesTheTokenLimit) {
  PrefixCacheOptions options;
  options.max_tokens = 10;
  CacheFixture f(1_MiB, std::move(options));
  ASSERT_TRUE(f.put(text({1, 1, 1, 1, 1})).has_value());
  ASSERT_TRUE(f.put(text({1, 1, 2, 2, 2})).has_value());
  EXPECT_EQ(f.cache->stats().tokens, 6U) << "the shared beginning counts once";
  ASSERT_TRUE(f.put(text({3, 3, 3, 3, 3})).has_value());
  EXPECT_EQ(f.cache->stats().tokens, 10U);
  ASSERT_TRUE(f.put(text({4, 4, 4, 4, 4})).has_value());
  EXPECT_LE(f.cache->stats().tokens, 10U);
  const std::uint64_t before = f.cache->stats().tokens;
  EXPECT_EQ(f.resume(text({4, 4, 4, 4, 4})), 4U);
  const auto refused = f.put(text_of(12));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_NE(refused.error().message.find("the limit of 10"), std::string::npos);
  EXPECT_EQ(f.cache->stats().tokens, before) << "a refusal evicts nothing";
  const PrefixMatch pinned = f.cache->match(space(1), text({4, 4, 4, 4, 4})).value();
  EXPECT_FALSE(f.put(text_of(8, 2)).has_value()) << "four of ten are in use";
  MemoryBudget budget(1_MiB);
  EXPECT_EQ(PrefixCache::create({.max_tokens = 0}, budget).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(PrefixCache, ErasedKvStaysReadableWhilePinned) {
  CacheFixture f;
  const Sequence prompt = text_of(700);
  ASSERT_TRUE(f.put(prompt).has_value());
  ASSERT_TRUE(f.put(text_of(300) + text({1, 2})).has_value());
  {
    const PrefixMatch held = f.cache->match(space(1), prompt).value();
    EXPECT_TRUE(f.cache->erase(space(1)));
    EXPECT_FALSE(f.cache->erase(space(1)));
    f.cache->check_invariants();
    EXPECT_EQ(f.resume(prompt), 0U);
    ASSERT_TRUE(f.put(prompt).has_value()) << "the namespace can be used again at once";
    EXPECT_EQ(f.resume(prompt), 699U);
    EXPECT_TRUE(is_kv_of(f.cache->kv(held), space(1), kFullOnly, prompt));
    EXPECT_EQ(f.cache->kv(held).end, TokenCount(699));
  }
  f.cache->check_invariants();
  EXPECT_EQ(f.cache->stats().tokens, 699U);
  f.cache->clear();
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(PrefixCache, ErasesAMediaItemWithAllThatFollowsIt) {
  CacheFixture f;
  const Sequence system = text_of(256);  // one piece of memory
  const Sequence first = with_media(system + text({1, 2}), picture(1), 40) + text({3, 4, 5});
  const Sequence second = with_media(system + text({7}), picture(2), 40) + text({3, 4, 5});
  ASSERT_TRUE(f.put(first).has_value());
  ASSERT_TRUE(f.put(first + text({6, 7, 8})).has_value());
  ASSERT_TRUE(f.put(second).has_value());
  ASSERT_TRUE(f.put(space(2), kFullOnly, first, 300).has_value());
  EXPECT_EQ(f.cache->erase_media(picture(1)), 2U + 40U + 6U - 1U + 300U);
  f.cache->check_invariants();
  EXPECT_EQ(f.resume(first), 256U);
  EXPECT_EQ(f.resume(space(2), kFullOnly, first), 0U) << "one piece had the prefix, too";
  EXPECT_EQ(f.resume(second), 299U);
  EXPECT_EQ(f.cache->erase_media(picture(1)), 0U);
  EXPECT_EQ(f.cache->erase_media(picture(2)), 1U + 40U + 2U);
  EXPECT_EQ(f.resume(second), 256U);
  EXPECT_EQ(f.budget.used(), Bytes(256 * 8));
}

TEST(PrefixCache, ErasesSnapshotsAfterAMediaItem) {
  CacheFixture f;
  const Sequence prompt = with_media(text_of(20), picture(1), 5) + text_of(20, 2);
  ASSERT_TRUE(f.put(space(1), kHybrid, prompt, 44, {10, 30, 40}).has_value());
  f.cache->erase_media(picture(1));
  f.cache->check_invariants();
  EXPECT_EQ(f.resume(space(1), kHybrid, prompt), 0U);
  EXPECT_EQ(f.budget.used(), 0_B);
}

// The rows that a branch shares with the erased one stay only if no byte of the item stays with them.
TEST(PrefixCache, ErasesWhatLiesInOnePieceWithAMediaItem) {
  CacheFixture f;
  const Sequence about = with_media(text({1, 2, 3}), picture(1), 10) + text({4, 5});
  ASSERT_TRUE(f.put(about).has_value());
  ASSERT_TRUE(f.put(text({1, 2, 3, 9, 9, 9})).has_value());
  EXPECT_EQ(f.resume(text({1, 2, 3, 8})), 3U);
  f.cache->erase_media(picture(1));
  EXPECT_EQ(f.resume(text({1, 2, 3, 8})), 0U);
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(PrefixCache, ErasesRowsOfAnItemWhoseSegmentWasEvicted) {
  CacheFixture f;
  ASSERT_TRUE(f.put(with_media(text({1, 2, 3}), picture(1), 10) + text({4, 5})).has_value());
  ASSERT_TRUE(f.put(text({1, 2, 3, 9, 9, 9})).has_value());
  {
    const PrefixMatch other = f.cache->match(space(1), text({1, 2, 3, 9, 9, 9})).value();
    f.cache->evict_bytes(Bytes(1));  // the leaf with the picture, whose piece stays for its prefix
  }
  ASSERT_EQ(f.cache->stats().tokens, 5U);
  EXPECT_GT(f.cache->erase_media(picture(1)), 0U);
  EXPECT_EQ(f.resume(text({1, 2, 3, 8})), 0U);
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(PrefixCache, AnErasedItemGoesWithItsLastPin) {
  CacheFixture f;
  const Sequence about = with_media(text({1}), picture(1), 10) + text({4, 5});
  ASSERT_TRUE(f.put(about).has_value());
  {
    const PrefixMatch held = f.cache->match(space(1), about).value();
    f.cache->erase_media(picture(1));
    EXPECT_EQ(f.resume(about), 0U);
    EXPECT_TRUE(is_kv_of(f.cache->kv(held), space(1), kFullOnly, about));
  }
  f.cache->check_invariants();
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(PrefixCache, ErasesTheNamespacesThatAreChosen) {
  CacheFixture f;
  for (unsigned n = 1; n <= 3; ++n) {
    ASSERT_TRUE(f.put(space(n), kFullOnly, text({1, 2, 3}), 2 * n > 3 ? 3 : 2 * n).has_value());
  }
  EXPECT_EQ(f.cache->erase_spaces([](const NamespaceId& id) { return id == space(2); }), 3U);
  EXPECT_EQ(f.resume(space(2), kFullOnly, text({1, 2, 3})), 0U);
  EXPECT_EQ(f.resume(space(1), kFullOnly, text({1, 2, 3})), 2U);
  EXPECT_EQ(f.cache->erase_spaces([](const NamespaceId&) { return true; }), 5U);
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(PrefixCache, RemovesADamagedRowWithItsDescendants) {
  CacheFixture f;
  const Sequence system = text_of(300);
  ASSERT_TRUE(f.put(system + text({1, 2, 3})).has_value());
  ASSERT_TRUE(f.put(system + text({4, 5, 6})).has_value());
  {
    const PrefixMatch match = f.cache->match(space(1), system + text({4, 5, 6})).value();
    const std::vector<KvRows> rows = f.cache->kv(match).rows[0];
    const_cast<std::byte&>(rows[1].bytes[5]) ^= std::byte{4};  // NOLINT: rows from 256 on
    EXPECT_TRUE(f.discard_damaged(match));
  }
  f.cache->check_invariants();
  EXPECT_EQ(f.resume(system + text({1, 2, 3})), 0U);
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(PrefixCache, EvictsBytesAndTrimsToASmallerBudget) {
  CacheFixture f(Bytes(10 * 64));
  for (int n = 0; n < 10; ++n) ASSERT_TRUE(f.put(text({n, n, n})).has_value());
  EXPECT_EQ(f.cache->evict_bytes(Bytes(65)), Bytes(128));
  EXPECT_EQ(f.resume(text({1, 1, 1})), 0U);
  f.budget.set_capacity(Bytes(3 * 64));
  EXPECT_EQ(f.cache->trim_to_budget(), Bytes(5 * 64));
  EXPECT_EQ(f.resume(text({9, 9, 9})), 2U);
}

TEST(PrefixCache, ALayoutIsFixedWhileItsNamespaceHoldsAnything) {
  CacheFixture f;
  ASSERT_TRUE(f.put(text({1, 2, 3})).has_value());
  const auto refused = f.put(space(1), kHybrid, text({4, 5, 6}), 2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  f.cache->clear();
  EXPECT_TRUE(f.put(space(1), kHybrid, text({4, 5, 6}), 2, {2}).has_value());
}

TEST(PrefixCache, RejectsBadInputAndChangesNothing) {
  const Sequence prompt = text({1, 2, 3, 4});
  Sequence overlapping = with_media(prompt, picture(1), 3);
  overlapping.spans.push_back(overlapping.spans[0]);
  Sequence truncated = with_media(prompt, picture(1), 3);
  truncated.tokens.pop_back();
  const Capture good(space(1), kHybrid, prompt, 4, 0, {2, 4});
  const auto with = [&](auto change) {
    KvSlice kv = good.kv;
    change(kv);
    return kv;
  };
  const struct {
    const char* name;
    KvLayout layout;
    Sequence sequence;
    KvSlice kv;
  } kCases[] = {
      {"spans that overlap", kHybrid, overlapping, good.kv},
      {"a span beyond the end of the sequence", kHybrid, truncated, good.kv},
      {"a negative token", kHybrid, text({1, 2, 3, -4}), good.kv},
      {"a layout without groups", {}, prompt, good.kv},
      {"a layout of one group", kFullOnly, prompt, good.kv},
      {"more tokens covered than in the sequence", kHybrid, text({1, 2, 3}), good.kv},
      {"fewer rows than covered", kHybrid, prompt,
       with([](KvSlice& kv) { kv.rows[0][0].bytes = kv.rows[0][0].bytes.first(24); })},
      {"rows of a recurrent group", kHybrid, prompt,
       with([](KvSlice& kv) { kv.rows[1] = kv.rows[0]; })},
      {"a truncated state", kHybrid, prompt, with([](KvSlice& kv) {
         KvRows& state = kv.snapshots[0].groups[1][0];
         state.bytes = state.bytes.first(8);
       })},
      {"a snapshot beyond the covered tokens", kHybrid, prompt,
       with([](KvSlice& kv) { kv.snapshots[1].at = TokenCount(5); })},
      {"snapshots out of order", kHybrid, prompt,
       with([](KvSlice& kv) { kv.snapshots[1].at = TokenCount(2); })},
      {"a snapshot at length 0", kHybrid, prompt,
       with([](KvSlice& kv) { kv.snapshots[0].at = TokenCount(0); })},
      {"a snapshot inside a block", {{full(), recurrent()}, TokenCount(4)}, prompt, good.kv},
      {"a snapshot inside an image", kHybrid, with_media(text({1}), picture(1), 3), good.kv},
      {"rows that begin after they end", kHybrid, prompt,
       with([](KvSlice& kv) { kv.begin = TokenCount(5); })},
  };
  for (const auto& c : kCases) {
    CacheFixture f;
    const auto refused = f.cache->insert(space(1), c.layout, c.sequence, c.kv);
    ASSERT_FALSE(refused.has_value()) << c.name;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_EQ(f.cache->stats().segments, EntryCount(0)) << c.name;
    EXPECT_EQ(f.budget.used(), 0_B) << c.name;
    f.cache->check_invariants();
  }
  CacheFixture f;
  EXPECT_EQ(f.cache->match(space(1), overlapping).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(PrefixCache::create(at_most(0), f.budget).has_value());
}

/// Another cache of the same budget, which does something when it is asked for memory.
class Neighbour final : public BudgetClient {
 public:
  std::function<void()> on_evict;

  [[nodiscard]] std::optional<EvictionCandidate> eviction_candidate() override {
    return EvictionCandidate{.resident = 1_B, .worth = 0};
  }
  Bytes evict_bytes(Bytes /*wanted*/) override {
    if (const auto once = std::exchange(on_evict, nullptr)) once();
    return 0_B;
  }
  Bytes trim_to_budget() override { return 0_B; }
  void block_admission(bool /*blocked*/) override {}
};

TEST(PrefixCache, OfTwoConcurrentInsertionsOfOneSequenceTheSecondAddsNothing) {
  const Sequence prompt = text_of(300);
  const Capture capture(space(1), kFullOnly, prompt, 300);
  CacheFixture alone;
  const Bytes needed = alone.put(space(1), kFullOnly, prompt, 300)->bytes;
  MemoryBudget budget(Bytes(2 * needed.value()));
  SharedBudget shared(budget);
  Neighbour neighbour;
  shared.join(neighbour);
  const auto cache = PrefixCache::create({.shared = &shared}, budget).value();
  const auto insert = [&] { return cache->insert(space(1), kFullOnly, prompt, capture.kv); };
  std::optional others = budget.reserve(needed + 1_B).value();
  neighbour.on_evict = [&] {
    others.reset();
    EXPECT_EQ(insert()->added, TokenCount(300));
  };
  EXPECT_EQ(insert()->added, TokenCount(0));
  cache->check_invariants();
  EXPECT_EQ(cache->match(space(1), prompt)->resume(), TokenCount(299));
}

TEST(PrefixCache, ExplainsItselfInPlainWords) {
  CacheFixture f;
  const Sequence cached = with_media(text({1, 2, 3}), picture(1), 2) + text({4, 5, 6});
  ASSERT_TRUE(f.put(space(1), kHybrid, cached, 7, {3}).has_value());
  const auto explained = [&](const Sequence& prompt) {
    return to_string(f.cache->explain(space(1), prompt).value());
  };
  EXPECT_EQ(explained(with_media(text({1, 2, 3}), picture(1), 2) + text({4, 9, 9})),
            "resumes at 3 of 8 tokens; 6 match: the cached token differs at token 6 (requested: id "
            "9).\n"
            "not further because layer group 1 (recurrent) has no cached state at a greater "
            "length.\n"
            "would have resumed at 6 with a snapshot there.\n"
            "layer group 0 (full) alone: 6, because the next token was not cached.\n"
            "layer group 1 (recurrent) alone: 3, because it has no cached state at a greater "
            "length.\n"
            "0 of 1 media items need no encoder.\n");
  EXPECT_THAT(explained(with_media(text({1, 2, 3}), picture(2), 2)),
              HasSubstr("the cached media differs at token 3 (requested: item 0)"));
  EXPECT_THAT(explained(cached + text({7})),
              HasSubstr("no cached sequence continues after token 7"));
  EXPECT_THAT(explained(text({1, 2, 3})), HasSubstr("the whole prompt is cached"));
  EXPECT_THAT(to_string(f.cache->explain(space(2), cached).value()),
              HasSubstr("nothing is cached for"));
  EXPECT_EQ(f.cache->stats().hits + f.cache->stats().misses, 0U) << "explain counts no look-up";
}

}  // namespace
}  // namespace afterimage
