// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/encoder_ledger.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

const RequestId kFirst("first");
const RequestId kSecond("second");
const ItemId kCat("cat");
const ItemId kDog("dog");
const ItemId kOwl("owl");

constexpr InputIndex input(std::uint32_t index) { return InputIndex(index); }
constexpr EmbeddingCount n(std::uint64_t count) { return EmbeddingCount(count); }
using Items = std::vector<ItemId>;
using Inputs = std::vector<InputIndex>;

/// The whole life of one item: looked up, space made, charged, released.
void encode_and_release(EncoderLedger& ledger, const RequestId& request, const ItemId& item,
                        EmbeddingCount size) {
  ASSERT_FALSE(ledger.take(request, input(0), item));
  ASSERT_TRUE(ledger.make_room({.size = size}));
  ASSERT_TRUE(ledger.allocate(request, input(0), item, size).has_value());
  ASSERT_TRUE(ledger.release(request, input(0)));
}

TEST(EncoderLedger, WithoutCapacityHoldsOnlyEmptyItems) {
  EncoderLedger ledger(n(0));
  EXPECT_FALSE(ledger.fits({.size = n(1)}));
  EXPECT_EQ(ledger.allocate(kFirst, input(0), kCat, n(1)).error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(ledger.make_room({.size = n(0)}));
  EXPECT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(0)).has_value());
  ledger.check_invariants();
}

TEST(EncoderLedger, AMissThenAHitThenFreeable) {
  EncoderLedger ledger(n(10));
  EXPECT_FALSE(ledger.take(kFirst, input(0), kCat));
  EXPECT_EQ(ledger.size_of(kCat), std::nullopt);
  EXPECT_TRUE(ledger.make_room({.size = n(4)}));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(4)).has_value());
  EXPECT_EQ(ledger.size_of(kCat), n(4));
  EXPECT_TRUE(ledger.take(kFirst, input(0), kCat));
  EXPECT_EQ(ledger.free_embeddings(), n(6));
  EXPECT_EQ(ledger.freeable_embeddings(), n(6));
  EXPECT_EQ(ledger.inputs_of(kFirst), Inputs{input(0)});

  EXPECT_TRUE(ledger.release(kFirst, input(0)));
  EXPECT_EQ(ledger.free_embeddings(), n(6)) << "the output stays until its space is needed";
  EXPECT_EQ(ledger.freeable_embeddings(), n(10));
  EXPECT_EQ(ledger.freeable(), (std::vector<SizedItem>{{kCat, n(4)}}));
  EXPECT_TRUE(ledger.inputs_of(kFirst).empty());
  ledger.check_invariants();
}

TEST(EncoderLedger, FreeingTheSameInputTwiceCreditsOnce) {
  EncoderLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(4)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(1), kDog, n(3)).has_value());
  EXPECT_TRUE(ledger.release(kFirst, input(0)));
  EXPECT_FALSE(ledger.release(kFirst, input(0)));
  EXPECT_EQ(ledger.freeable_embeddings(), n(7));
  EXPECT_EQ(ledger.freeable().size(), 1U);
  EXPECT_FALSE(ledger.release(kSecond, input(0))) << "another request holds nothing";
  ledger.check_invariants();
}

TEST(EncoderLedger, ASharedItemIsChargedOnceAndFreeableAfterTheLastRelease) {
  EncoderLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(4)).has_value());
  EXPECT_TRUE(ledger.take(kSecond, input(7), kCat));
  EXPECT_EQ(ledger.free_embeddings(), n(6));
  ledger.release_all(kFirst);
  EXPECT_TRUE(ledger.freeable().empty());
  ledger.release_all(kSecond);
  EXPECT_EQ(ledger.freeable().size(), 1U);
}

TEST(EncoderLedger, ReleasingARequestReleasesAllItsInputsInOrder) {
  EncoderLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(9), kDog, n(3)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(2), kCat, n(2)).has_value());
  EXPECT_EQ(ledger.inputs_of(kFirst), (Inputs{input(2), input(9)}));
  EXPECT_EQ(ledger.release_all(kFirst), 2U);
  EXPECT_EQ(ledger.release_all(kFirst), 0U);
  EXPECT_EQ(ledger.freeable(), (std::vector<SizedItem>{{kCat, n(2)}, {kDog, n(3)}}));
  EXPECT_EQ(ledger.freeable_embeddings(), n(10));
}

TEST(EncoderLedger, AHitReferencesAFreeableItem) {
  EncoderLedger ledger(n(10));
  encode_and_release(ledger, kFirst, kCat, n(4));
  EXPECT_TRUE(ledger.take(kSecond, input(0), kCat));
  EXPECT_TRUE(ledger.freeable().empty());
  EXPECT_EQ(ledger.freeable_embeddings(), n(6));
  EXPECT_FALSE(ledger.fits({.size = n(7)})) << "a referenced item is not evicted";
}

TEST(EncoderLedger, EvictsInTheOrderOfTheLastRelease) {
  EncoderLedger ledger(n(6));
  for (const ItemId& item : {kCat, kDog, kOwl}) encode_and_release(ledger, kFirst, item, n(2));
  ASSERT_TRUE(ledger.take(kSecond, input(0), kCat));
  ASSERT_TRUE(ledger.release(kSecond, input(0)));
  EXPECT_TRUE(ledger.make_room({.size = n(3)}));
  EXPECT_EQ(ledger.drain_freed(), (Items{kDog, kOwl})) << "whole items, and the cat last";
  EXPECT_EQ(ledger.free_embeddings(), n(4));
  EXPECT_EQ(ledger.freeable_embeddings(), n(6)) << "eviction turns freeable into free";
  ledger.check_invariants();
}

TEST(EncoderLedger, AFreedItemIsReportedOnce) {
  EncoderLedger ledger(n(10));
  encode_and_release(ledger, kFirst, kCat, n(6));
  encode_and_release(ledger, kSecond, kDog, n(5));
  EXPECT_EQ(ledger.drain_freed(), Items{kCat});
  EXPECT_EQ(ledger.drain_freed(), Items{});
}

// vLLM #52482: the worker would have dropped what the same step allocated.
TEST(EncoderLedger, AnItemEvictedAndAllocatedAgainInOneStepIsNotReportedAsFreed) {
  EncoderLedger ledger(n(8));
  encode_and_release(ledger, kFirst, kCat, n(4));
  encode_and_release(ledger, kFirst, kDog, n(4));
  encode_and_release(ledger, kSecond, kOwl, n(4));
  encode_and_release(ledger, kSecond, kCat, n(4));
  EXPECT_EQ(ledger.freed(), (Items{kCat, kDog}));
  EXPECT_EQ(ledger.drain_freed(), Items{kDog});
}

// vLLM #54284: the first occurrence's release made the item evictable under the second.
TEST(EncoderLedger, ARepeatedItemIsHeldUntilItsLastOccurrenceIsReleased) {
  EncoderLedger ledger(n(4));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(4)).has_value());
  ASSERT_TRUE(ledger.take(kFirst, input(1), kCat));
  EXPECT_EQ(ledger.references().at(kCat).size(), 1U) << "requests are counted, not occurrences";
  EXPECT_TRUE(ledger.release(kFirst, input(0)));
  EXPECT_FALSE(ledger.fits({.size = n(1)}));
  EXPECT_TRUE(ledger.release(kFirst, input(1)));
  EXPECT_TRUE(ledger.fits({.size = n(4)}));
  ledger.check_invariants();
}

TEST(EncoderLedger, AllocatingAResidentItemTakesAReferenceAndChargesNothing) {
  EncoderLedger ledger(n(18));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(5)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(1), kCat, n(5)).has_value());
  EXPECT_EQ(ledger.free_embeddings(), n(13));
  EXPECT_EQ(ledger.release_all(kFirst), 2U);
  ASSERT_TRUE(ledger.allocate(kSecond, input(0), kCat, n(5)).has_value()) << "from freeable";
  EXPECT_EQ(ledger.freeable_embeddings(), n(13));
  const auto other_size = ledger.allocate(kSecond, input(1), kCat, n(6));
  ASSERT_FALSE(other_size.has_value());
  EXPECT_EQ(other_size.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(other_size.error().message.find("cat"), std::string::npos);
  ledger.check_invariants();
}

TEST(EncoderLedger, AnInputWithAnotherItemReleasesTheFirst) {
  EncoderLedger ledger(n(8));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kCat, n(4)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), kDog, n(4)).has_value());
  EXPECT_EQ(ledger.freeable(), (std::vector<SizedItem>{{kCat, n(4)}}));
  EXPECT_EQ(ledger.inputs_of(kFirst), Inputs{input(0)});
  ledger.check_invariants();
}

TEST(EncoderLedger, AFailedAllocationNamesTheItem) {
  EncoderLedger ledger(n(8));
  encode_and_release(ledger, kFirst, kCat, n(5));
  const auto refused = ledger.allocate(kSecond, input(0), kDog, n(4));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_NE(refused.error().message.find("dog"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(ledger.inputs_of(kSecond).empty());
  EXPECT_EQ(ledger.free_embeddings(), n(3)) << "nothing is evicted";
}

TEST(EncoderLedger, FitsComparesSpaceComputeAndScheduledItems) {
  const auto most = EmbeddingCount::max();
  const struct {
    const char* name;
    std::uint64_t capacity;
    EncoderDemand demand;
    bool expected;
  } kCases[] = {
      {"nothing in nothing", 0, {}, true},
      {"exactly all", 10, {.size = n(10)}, true},
      {"one more than all", 10, {.size = n(11)}, false},
      {"two images, one refused for space", 10, {.size = n(6), .scheduled = n(5)}, false},
      {"two images, exactly", 11, {.size = n(6), .scheduled = n(5)}, true},
      {"exactly the compute left", 100, {.size = n(5), .compute_left = n(5)}, true},
      {"one more than the compute left", 100, {.size = n(6), .compute_left = n(5)}, false},
      {"scheduled does not use compute",
       9,
       {.size = n(4), .compute_left = n(4), .scheduled = n(5)},
       true},
      {"an absurd size", 10, {.size = most, .scheduled = n(1)}, false},
      {"an absurd schedule", 10, {.size = n(1), .scheduled = most}, false},
  };
  for (const auto& c : kCases) {
    EncoderLedger ledger(n(c.capacity));
    EXPECT_EQ(ledger.fits(c.demand), c.expected) << c.name;
    EXPECT_EQ(ledger.make_room(c.demand), c.expected) << c.name;
  }
}

TEST(EncoderLedger, ARefusalEvictsNothing) {
  EncoderLedger ledger(n(10));
  encode_and_release(ledger, kFirst, kCat, n(4));
  ASSERT_TRUE(ledger.allocate(kSecond, input(0), kDog, n(4)).has_value());
  EXPECT_FALSE(ledger.make_room({.size = n(7)}));
  EXPECT_FALSE(ledger.make_room({.size = n(3), .compute_left = n(2)}));
  EXPECT_TRUE(ledger.freed().empty());
  EXPECT_EQ(ledger.free_embeddings(), n(2));
  EXPECT_EQ(ledger.freeable_embeddings(), n(6));
}

TEST(EncoderLedger, ResetForgetsEverythingAndReportsNothing) {
  EncoderLedger ledger(n(20));
  encode_and_release(ledger, kFirst, kCat, n(12));
  encode_and_release(ledger, kFirst, kDog, n(12));
  ASSERT_TRUE(ledger.allocate(kSecond, input(0), kOwl, n(5)).has_value());
  ledger.reset();
  EXPECT_TRUE(ledger.references().empty());
  EXPECT_TRUE(ledger.freeable().empty());
  EXPECT_TRUE(ledger.drain_freed().empty());
  EXPECT_TRUE(ledger.inputs_of(kSecond).empty());
  EXPECT_EQ(ledger.free_embeddings(), n(20));
  EXPECT_EQ(ledger.freeable_embeddings(), n(20));
  EXPECT_FALSE(ledger.release(kSecond, input(0))) << "its reference was cleared by the reset";
  encode_and_release(ledger, kFirst, kCat, n(20));
  ledger.check_invariants();
}

}  // namespace
}  // namespace afterimage
