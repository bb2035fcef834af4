// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/prefix_archive.h"

#include <gtest/gtest.h>

#include <array>

#include "afterimage/tier.h"
#include "caches/prefix/resume_point.h"
#include "caches/prefix/testing/kv_world.h"
#include "foundation/platform/random.h"
#include "testing/seeds.h"
#include "testing/slow_tier.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the fixtures of these tests

const KvLayout kFull{{full()}};
const KvLayout kHybrid{{full(), recurrent()}};
const KvLayout kWindows{{sliding(40)}};
const KvLayout kAll{{full(), sliding(40), recurrent()}};

const Namespace kSpace =
    Namespace::of({.model = "m", .weights_epoch = "1", .encoder = "e"}, TenantId("t"), Secret{})
        .value();

/// A tier that outlives the caches above it, as a disk outlives processes.
struct Below {
  explicit Below(Bytes transfer_bytes = 1_MiB) : transfer(transfer_bytes) {}

  MemoryBudget budget{64_MiB};
  HostTier tier{budget};
  MemoryBudget transfer;
  PrefixArchive archive{tier, transfer};

  ArchivedPrompt name(const KvLayout& layout, const Sequence& prompt, unsigned id = 1) const {
    return ArchivedPrompt::of(kSpace, space(id), layout, prompt).value();
  }
  void keep(const KvLayout& layout, const Sequence& prompt, std::uint32_t covered,
            const std::vector<std::uint32_t>& snapshots = {}, std::uint32_t first_row = 0) {
    const Capture capture(space(1), layout, prompt, covered, first_row, snapshots);
    archive.keep(name(layout, prompt), capture.kv);
  }
  /// The resume point of `prompt` in `above` after promotion; checks every byte.
  std::uint32_t resume(CacheFixture& above, const KvLayout& layout, const Sequence& prompt,
                       unsigned id = 1) {
    TokenCount matched;
    TokenCount resume;
    {
      const PrefixMatch match = above.cache->match(space(id), prompt).value();
      matched = match.matched();
      resume = match.resume();
    }
    archive.promote(name(layout, prompt, id), matched, resume,
                    [&](const KvSlice& kv, std::vector<LoadedKv> memory) -> Result<void> {
                      AFI_TRY_VOID(above.cache->insert(space(id), layout, prompt, kv, nullptr,
                                                       std::move(memory)));
                      return {};
                    });
    EXPECT_EQ(transfer.used(), 0_B);
    return above.resume(space(id), layout, prompt);
  }
};

TEST(PrefixArchive, AnExactRepeatResumesAtItsLastTokenInAnotherProcess) {
  for (const std::uint32_t length : {2U, 127U, 128U, 129U, 300U, 513U}) {
    SCOPED_TRACE(length);
    Below below;
    const Sequence prompt = text_of(length);
    below.keep(kFull, prompt, length);
    CacheFixture above;
    EXPECT_EQ(below.resume(above, kFull, prompt), length - 1);
    EXPECT_EQ(below.archive.stats().promoted, 1U);
    EXPECT_EQ(below.archive.stats().tokens_loaded, length);
  }
}

TEST(PrefixArchive, ErasesBlocksAndSnapshotsFromAMediaItemOn) {
  const Sequence prompt =
      with_media(with_media(text_of(128), picture(1), 20) + text_of(108, 2), picture(2), 20) +
      text_of(108, 3);
  const EntryLabels labels{Secret{}};
  const auto resumed_after_erasing = [&](const EntryFilter& filter) {
    Below below;
    below.keep(kHybrid, prompt, 384, {128, 256, 384});
    EXPECT_TRUE(below.tier.erase_matching(filter).has_value());
    CacheFixture above;
    return below.resume(above, kHybrid, prompt);
  };
  EXPECT_EQ(resumed_after_erasing(labels.made_from(picture(3))), 256U);
  EXPECT_EQ(resumed_after_erasing(labels.made_from(picture(2))), 256U);
  EXPECT_EQ(resumed_after_erasing(labels.made_from(picture(1))), 128U);
  EXPECT_EQ(resumed_after_erasing({.any_of = {labels.tenant("another")}}), 256U);
  EXPECT_EQ(resumed_after_erasing({.any_of = {labels.tenant("t")}}), 0U);
  EXPECT_EQ(resumed_after_erasing({.any_of = {labels.model("m")}}), 0U);
}

TEST(PrefixArchive, KeepsWhatACacheHandsOut) {
  const KvLayout layout{{full(), sliding(5), recurrent()}};
  const Sequence prompt = text_of(300);
  CacheFixture cache;
  ASSERT_TRUE(cache.put(space(1), layout, prompt, 300, {299}).has_value());
  Sequence fork = prompt;
  fork.tokens.resize(40);  // splits the first block
  ASSERT_TRUE(cache.put(space(1), layout, fork + text({1, 2, 3}), 43).has_value());
  const PrefixMatch match = cache.cache->match(space(1), prompt).value();
  Below below;
  below.archive.keep(below.name(layout, prompt), cache.cache->kv(match));
  CacheFixture above;
  EXPECT_EQ(below.resume(above, layout, prompt), 299U);
}

/// How many of the payloads behind `prompt` lie in memory that the tier filled.
std::size_t taken_over(Below& below, CacheFixture& above, const KvLayout& layout,
                       const Sequence& prompt, std::uint32_t matched) {
  std::vector<std::span<const std::byte>> filled;
  EXPECT_TRUE(below.archive.promote(
      below.name(layout, prompt), TokenCount(matched), TokenCount(0),
      [&](const KvSlice& kv, std::vector<LoadedKv> memory) -> Result<void> {
        for (const LoadedKv& one : memory) filled.push_back(one.memory->bytes());
        AFI_TRY_VOID(above.cache->insert(space(1), layout, prompt, kv, nullptr, std::move(memory)));
        return {};
      }));
  const PrefixMatch match = above.cache->match(space(1), prompt).value();
  std::size_t count = 0;
  for (const Payload* const payload : above.cache->payloads(match)) {
    const std::byte* const at = payload->tensors().front().bytes().data();
    count += std::ranges::any_of(filled, [&](const auto& memory) {
      return memory.data() <= at && at < memory.data() + memory.size();
    });
  }
  EXPECT_EQ(below.transfer.used(), 0_B) << "what the cache keeps is charged to the cache";
  return count;
}

TEST(PrefixArchive, ACacheKeepsTheMemoryOfWholeBlocksAndSnapshots) {
  const Sequence prompt = text_of(385);
  Below below;
  below.keep(kFull, prompt, 385);
  {
    CacheFixture above;
    EXPECT_EQ(taken_over(below, above, kFull, prompt, 0), 3U);
    EXPECT_EQ(above.resume(space(1), kFull, prompt), 384U);
  }
  {
    CacheFixture above;
    ASSERT_TRUE(above.put(space(1), kFull, prompt, 100).has_value());
    EXPECT_EQ(taken_over(below, above, kFull, prompt, 100), 2U)
        << "28 rows of the first block are copied";
    EXPECT_EQ(above.resume(space(1), kFull, prompt), 384U);
  }
  Below hybrid;
  hybrid.keep(kHybrid, prompt, 256, {256});
  CacheFixture above;
  EXPECT_EQ(taken_over(hybrid, above, kHybrid, prompt, 0), 3U);
  EXPECT_EQ(above.resume(space(1), kHybrid, prompt), 256U);
}

TEST(PrefixArchive, ALongerPromptResumesWhereTheShorterEnded) {
  Below below;
  below.keep(kFull, text_of(300), 300);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, text_of(300) + text_of(400, 2)), 300U);
}

TEST(PrefixArchive, APromptThatDivergesInsideABlockResumesAtTheBlockBefore) {
  Below below;
  below.keep(kFull, text_of(400), 400);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, text_of(300) + text_of(100, 2)), 256U);
}

TEST(PrefixArchive, LoadsOnlyWhatMemoryLacks) {
  Below below;
  const Sequence prompt = text_of(600);
  below.keep(kFull, prompt, 600);
  CacheFixture above;
  ASSERT_TRUE(above.put(space(1), kFull, prompt, 300).has_value());
  EXPECT_EQ(below.resume(above, kFull, prompt), 599U);
  EXPECT_EQ(below.archive.stats().tokens_loaded, 300U);
  EXPECT_EQ(below.resume(above, kFull, prompt), 599U);
  EXPECT_EQ(below.archive.stats().promoted, 1U) << "memory has everything by now";
}

TEST(PrefixArchive, RestoresStatesAndWindowsAtTheNearestSnapshot) {
  for (const KvLayout& layout : {kHybrid, kWindows, kAll}) {
    Below below;
    const Sequence prompt = text_of(500);
    below.keep(layout, prompt, 500, {130, 320, 499});
    CacheFixture above;
    EXPECT_EQ(below.resume(above, layout, prompt), 499U);
    CacheFixture another;
    EXPECT_EQ(below.resume(another, layout, text_of(350) + text_of(100, 2)), 320U)
        << "a block of rows also ends at a snapshot";
    CacheFixture third;
    EXPECT_EQ(below.resume(third, layout, text_of(129)), 0U) << "no snapshot so early";
    EXPECT_EQ(below.archive.stats().failed, 0U);
  }
}

TEST(PrefixArchive, LoadsOnlyTheSnapshotWhereMemoryHasTheRows) {
  Below below;
  const Sequence prompt = text_of(500);
  below.keep(kHybrid, prompt, 500, {320});
  CacheFixture above;
  ASSERT_TRUE(above.put(space(1), kHybrid, prompt, 500).has_value());
  EXPECT_EQ(below.resume(above, kHybrid, prompt), 320U);
  EXPECT_EQ(below.archive.stats().tokens_loaded, 0U);
}

TEST(PrefixArchive, DistinguishesMediaByDigest) {
  Below below;
  const Sequence prompt = with_media(text_of(100), picture(1), 200) + text_of(50, 2);
  below.keep(kFull, prompt, 350);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, prompt), 349U);
  CacheFixture other;
  const Sequence changed = with_media(text_of(100), picture(2), 200) + text_of(50, 2);
  EXPECT_EQ(below.resume(other, kFull, changed), 0U);
}

TEST(PrefixArchive, AnotherQuestionAboutAnImageResumesAfterIt) {
  const Sequence shown = with_media(text_of(20), picture(1), 170);
  for (const KvLayout& layout : {kFull, kHybrid, kAll}) {
    Below below;
    const bool all_in_rows = layout == kFull;
    below.keep(layout, shown + text_of(50, 2), 240,
               all_in_rows ? std::vector<std::uint32_t>() : std::vector<std::uint32_t>{190});
    CacheFixture above;
    EXPECT_EQ(below.resume(above, layout, shown + text_of(60, 3)), 190U);
  }
}

TEST(PrefixArchive, NoNamespaceSeesAnother) {
  Below below;
  const Sequence prompt = text_of(300);
  below.keep(kFull, prompt, 300);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, prompt, 2), 0U);
  EXPECT_EQ(below.resume(above, kHybrid, prompt, 3), 0U);
}

TEST(PrefixArchive, ARunThatResumedInsideABlockStoresThatBlockWhole) {
  Below below;
  const Sequence shorter = text_of(200);
  const Sequence longer = text_of(400);
  below.keep(kFull, shorter, 200);
  EXPECT_EQ(PrefixArchive::capture_from(TokenCount(199)), TokenCount(128));
  below.keep(kFull, longer, 400, {}, 128);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, longer), 399U);
  EXPECT_EQ(below.archive.stats().kept, 5U) << "128, 200, 256, 384 and 400";
}

TEST(PrefixArchive, NothingIsWrittenTwice) {
  Below below;
  below.keep(kAll, text_of(300), 300, {299});
  const std::uint64_t kept = below.archive.stats().kept;
  below.keep(kAll, text_of(300), 300, {299});
  EXPECT_EQ(below.archive.stats().kept, kept);
}

/// The key of a full block's rows.
TierKey place_of_block(const Sequence& prompt, std::size_t block) {
  const BlockChain chain = BlockChain::open(kSpace, {.block_tokens = PrefixArchive::kBlock,
                                                     .layout = kFull,
                                                     .preprocessing = space(1).hex()})
                               .value();
  std::vector<BlockKey> keys;
  EXPECT_TRUE(chain.extend(prompt, keys).has_value());
  return TierKey::of(EntryClass::kPrefixKv, keys[block]);
}

TEST(PrefixArchive, RejectsAnEntryOfAnotherShape) {
  const Sequence prompt = text_of(300);
  const std::vector<std::byte> bytes(1024);
  for (const std::vector<TensorSpec>& forms :
       {std::vector<TensorSpec>{{DType::kU8, Shape{64, 16}}},
        {{DType::kI8, Shape{128, 8}}},
        {{DType::kU8, Shape{128, 7}}, {DType::kU8, Shape{128}}},
        {{DType::kU8, Shape{128, 4}}, {DType::kU8, Shape{128, 4}}}}) {
    Below below;
    below.keep(kFull, prompt, 300);
    ASSERT_TRUE(below.tier.put(place_of_block(prompt, 1), {.tensors = forms}, bytes).has_value());
    CacheFixture above;
    EXPECT_EQ(below.resume(above, kFull, prompt), 128U);
    EXPECT_EQ(below.archive.stats().failed, 1U);
  }
}

TEST(PrefixArchive, ADamagedOrEvictedBlockEndsTheLoadingAndIsNeverServed) {
  Below below;
  const Sequence prompt = text_of(500);
  below.keep(kFull, prompt, 500);
  below.tier.bytes_for_test(place_of_block(prompt, 1))[5] ^= std::byte{1};
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, prompt), 128U);
  EXPECT_EQ(below.archive.stats().failed, 1U);
  EXPECT_EQ(below.resume(above, kFull, prompt), 128U) << "the entry was removed";
}

TEST(PrefixArchive, IsAMissWithoutTransferBudget) {
  Below below(64_B);
  const Sequence prompt = text_of(300);
  below.keep(kFull, prompt, 300);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, prompt), 0U);
  EXPECT_EQ(below.archive.stats().failed, 1U);
}

TEST(PrefixArchive, LoadsInStepsWithASmallTransferBudget) {
  Below below(8_KiB);
  const Sequence prompt = text_of(3000);
  below.keep(kFull, prompt, 3000);
  CacheFixture above;
  EXPECT_EQ(below.resume(above, kFull, prompt), 2999U);
}

TEST(PrefixArchive, AnInsertThatFailsEndsTheLoading) {
  Below below;
  const Sequence prompt = text_of(300);
  below.keep(kFull, prompt, 300);
  int calls = 0;
  EXPECT_FALSE(
      below.archive.promote(below.name(kFull, prompt), TokenCount(0), TokenCount(0),
                            [&](const KvSlice&, const std::vector<LoadedKv>&) -> Result<void> {
                              ++calls;
                              return fail(ErrorCode::kNoSpace, "full");
                            }));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(below.transfer.used(), 0_B);
}

TEST(PrefixArchive, StopsLoadingWhenCancelled) {
  Below below(8_KiB);
  const Sequence prompt = text_of(3000);
  below.keep(kFull, prompt, 3000);
  std::stop_source stop;
  int calls = 0;
  const auto insert = [&](const KvSlice&, const std::vector<LoadedKv>&) -> Result<void> {
    ++calls;
    stop.request_stop();
    return {};
  };
  const ArchivedPrompt name = below.name(kFull, prompt);
  EXPECT_TRUE(below.archive.promote(name, TokenCount(0), TokenCount(0), insert, stop.get_token()));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(below.archive.promote(name, TokenCount(0), TokenCount(0), insert, stop.get_token()));
  EXPECT_EQ(below.archive.stats().promoted, 0U);
}

TEST(PrefixArchive, ALeaseIsKeyedByTheFirstMissingBlock) {
  const Below below;
  const Sequence one = text_of(300);
  const Sequence other = text_of(290) + text_of(400, 2);
  const auto lease_for = [&](const Sequence& prompt, std::uint32_t resume, unsigned id = 1) {
    const ArchivedPrompt name = below.name(kFull, prompt, id);
    return below.archive.prefill_lease(name, TokenCount(resume), {});
  };
  EXPECT_EQ(lease_for(one, 0)->turn, lease_for(other, 0)->turn) << "they diverge later";
  EXPECT_EQ(lease_for(one, 130)->turn, lease_for(other, 200)->turn);
  EXPECT_NE(lease_for(one, 0)->turn, lease_for(one, 130)->turn);
  EXPECT_NE(lease_for(one, 0)->turn, lease_for(text_of(300, 2), 0)->turn);
  EXPECT_NE(lease_for(one, 0)->turn, lease_for(one, 0, 2)->turn) << "another namespace";
  EXPECT_NE(lease_for(one, 0)->last, lease_for(other, 0)->last);
  EXPECT_EQ(lease_for(one, 0)->longest_wait, Duration(0)) << "the cost of computing is unknown";
  EXPECT_FALSE(lease_for(one, 256).has_value()) << "no whole block is missing";
  EXPECT_FALSE(lease_for(text_of(100), 0).has_value());
  EXPECT_TRUE(lease_for(text_of(384), 384 - 32).has_value());
  EXPECT_FALSE(lease_for(text_of(384), 384 - 31).has_value()) << "too few tokens for a lease";
}

/// A tier whose loads take time, and prompts that take a millisecond per token.
struct FarBelow {
  MemoryBudget budget{64_MiB};
  HostTier tier{budget};
  ManualClock clock;
  SlowTier far{tier, clock};
  LoadOrCompute quicker{clock};
  MemoryBudget transfer{1_MiB};
  PrefixArchive archive{far, transfer, &quicker};

  void keep(const KvLayout& layout, const Sequence& prompt,
            const std::vector<std::uint32_t>& snapshots = {}) {
    const auto length = static_cast<std::uint32_t>(prompt.tokens.size());
    Capture capture(space(1), layout, prompt, length, 0, snapshots);
    capture.kv.cost = std::chrono::milliseconds(length);
    archive.keep(name(layout, prompt), capture.kv);
  }
  /// The resume point of a process with empty memory; it computes the rest.
  std::uint32_t resume(const KvLayout& layout, const Sequence& prompt) {
    CacheFixture above;
    archive.promote(name(layout, prompt), TokenCount(0), TokenCount(0),
                    [&](const KvSlice& kv, std::vector<LoadedKv> memory) -> Result<void> {
                      AFI_TRY_VOID(above.cache->insert(space(1), layout, prompt, kv, nullptr,
                                                       std::move(memory)));
                      return {};
                    });
    const std::uint32_t at = above.resume(space(1), layout, prompt);
    clock.advance(std::chrono::milliseconds(prompt.tokens.size() - at));
    return at;
  }
  static ArchivedPrompt name(const KvLayout& layout, const Sequence& prompt) {
    return ArchivedPrompt::of(kSpace, space(1), layout, prompt).value();
  }
};

TEST(PrefixArchive, DoesNotLoadWhatIsFasterToComputeUntilTheTierIsFastAgain) {
  for (const KvLayout& layout : {kFull, kHybrid}) {
    FarBelow below;
    const Sequence prompt = text_of(300);
    below.keep(layout, prompt, layout == kFull ? std::vector<std::uint32_t>() : std::vector{299U});
    EXPECT_EQ(below.resume(layout, prompt), 299U);
    EXPECT_EQ(below.archive.stats().declined, 0U);
    below.far.latency = std::chrono::seconds(2);
    int until_known = 0;
    while (below.resume(layout, prompt) > 0 && until_known < 50) ++until_known;
    EXPECT_LT(until_known, 20);
    EXPECT_EQ(below.archive.stats().declined, 1U);
    EXPECT_EQ(below.archive.stats().tokens_declined, layout == kFull ? 300U : 299U);
    EXPECT_EQ(below.archive.stats().failed, 0U);
    below.far.latency = std::chrono::milliseconds(1);
    int until_back = 0;
    while (below.resume(layout, prompt) < 299 && until_back < 3'000) ++until_back;
    EXPECT_LT(until_back, 2'000);
    EXPECT_EQ(below.resume(layout, prompt), 299U);
  }
}

TEST(PrefixArchive, ALeaseNamesTheEntryThatIsWrittenLast) {
  for (const KvLayout& layout : {kFull, kHybrid, kWindows, kAll}) {
    FarBelow below;
    const Sequence prompt = text_of(300);
    const std::array positions = {TokenCount(128), TokenCount(290)};
    const auto lease =
        below.archive.prefill_lease(below.name(layout, prompt), TokenCount(0), positions);
    below.keep(layout, prompt,
               layout == kFull ? std::vector<std::uint32_t>() : std::vector{128U, 290U});
    EXPECT_EQ(lease->last, below.far.last_put);
  }
}

TEST(PrefixArchive, NoLeaseForWhatIsFasterToCompute) {
  FarBelow below;
  const Sequence prompt = text_of(300);
  const Sequence next = text_of(500, 2);
  const auto lease_for = [&](std::uint32_t resume) {
    return below.archive.prefill_lease(below.name(kFull, next), TokenCount(resume), {});
  };
  below.keep(kFull, prompt);
  EXPECT_EQ(lease_for(0)->longest_wait, std::chrono::milliseconds(2 * 500));
  EXPECT_EQ(lease_for(200)->longest_wait, std::chrono::milliseconds(2 * 300));
  below.far.latency = std::chrono::milliseconds(20);
  for (int i = 0; i < 5; ++i) below.resume(kFull, prompt);
  EXPECT_TRUE(lease_for(0).has_value());
  below.far.latency = std::chrono::seconds(2);
  for (int i = 0; i < 20; ++i) below.resume(kFull, prompt);
  EXPECT_FALSE(lease_for(0).has_value());
}

TEST(PrefixArchive, LoadsRowsOnlyAsFarAsThatIsFaster) {
  FarBelow below;
  below.far.latency = std::chrono::milliseconds(20);
  const Sequence prompt = text_of(2 * 128 + 3);
  below.keep(kFull, prompt);
  for (int i = 0; i < 5; ++i) below.resume(kFull, prompt);
  const PrefixArchiveStats before = below.archive.stats();
  EXPECT_EQ(below.resume(kFull, prompt), 256U) << "three tokens are computed in less than 20 ms";
  EXPECT_EQ(below.archive.stats().tokens_declined - before.tokens_declined, 3U);
  EXPECT_EQ(below.archive.stats().promoted - before.promoted, 1U);
}

/// After any sequence of writes and evictions, the restored KV is the prompt's own and as long as
/// the stored blocks, tails and snapshots allow.
TEST(PrefixArchive, RandomPromptsAreRestoredExactly) {
  std::uint64_t promoted = 0;
  for_each_seed(30, [&](Rng& rng) {
    const KvLayout layout = std::array{kFull, kHybrid, kWindows, kAll}[rng.below(4)];
    Below below(rng.chance(0.5) ? 1_MiB : 16_KiB);
    CacheFixture above(rng.chance(0.5) ? 1_MiB : 24_KiB);
    std::vector<Sequence> prompts;
    for (int i = 0; i < 12; ++i) {
      Sequence prompt = text_of(static_cast<std::uint32_t>(1 + rng.below(400)));
      if (rng.chance(0.4))
        prompt =
            with_media(prompt, picture(static_cast<unsigned>(rng.below(2))), 30, rng.chance(0.5));
      prompt = prompt + text_of(static_cast<std::uint32_t>(1 + rng.below(200)),
                                static_cast<int>(2 + rng.below(2)));
      if (!prompts.empty() && rng.chance(0.4)) prompt = prompts[rng.below(prompts.size())];
      prompts.push_back(prompt);
      const auto length = static_cast<std::uint32_t>(prompt.tokens.size());
      const std::uint32_t resumed = below.resume(above, layout, prompt);
      promoted += resumed > 0 ? 1 : 0;
      EXPECT_LT(resumed, length);
      std::vector<std::uint32_t> snapshots;
      for (const TokenCount at :
           snapshot_positions(layout, prompt, TokenCount(resumed), TokenCount(resumed))) {
        if (at.value() > resumed) snapshots.push_back(at.value());
      }
      const std::uint32_t from = PrefixArchive::capture_from(TokenCount(resumed)).value();
      const Capture capture(space(1), layout, prompt, length, from, snapshots);
      static_cast<void>(above.cache->insert(space(1), layout, prompt, capture.kv));
      below.archive.keep(below.name(layout, prompt), capture.kv);
      CacheFixture fresh;
      EXPECT_EQ(below.resume(fresh, layout, prompt), length - 1) << "an exact repeat, restarted";
    }
  });
  EXPECT_GT(promoted, 0U);
}

}  // namespace
}  // namespace afterimage
