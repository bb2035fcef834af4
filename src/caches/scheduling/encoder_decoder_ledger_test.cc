// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {
namespace {

const RequestId kFirst("first");
const RequestId kSecond("second");
const ItemId kSpeech("speech");
const ItemId kMusic("music");

constexpr InputIndex kOnly = InputIndex(0);
constexpr EmbeddingCount n(std::uint64_t count) { return EmbeddingCount(count); }
using Items = std::vector<ItemId>;

TEST(EncoderDecoderLedger, FitsComparesSpaceComputeAndScheduledItems) {
  const struct {
    const char* name;
    EncoderDemand demand;
    bool expected;
  } kCases[] = {
      {"nothing", {}, true},
      {"exactly all", {.size = n(10)}, true},
      {"one more than all", {.size = n(11)}, false},
      {"beside what is scheduled", {.size = n(6), .scheduled = n(5)}, false},
      {"beyond the compute left", {.size = n(6), .compute_left = n(5)}, false},
      {"an absurd schedule", {.size = n(1), .scheduled = EmbeddingCount::max()}, false},
  };
  const EncoderDecoderLedger ledger(n(10));
  for (const auto& c : kCases) EXPECT_EQ(ledger.fits(c.demand), c.expected) << c.name;
}

TEST(EncoderDecoderLedger, AnItemIsReportedOneDrainAfterItsStep) {
  EncoderDecoderLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(4)).has_value());
  EXPECT_EQ(ledger.drain_freed(), Items{}) << "its worker has yet to execute this step";
  ASSERT_TRUE(ledger.allocate(kSecond, kOnly, kMusic, n(4)).has_value());
  EXPECT_EQ(ledger.drain_freed(), Items{kSpeech});
  EXPECT_EQ(ledger.drain_freed(), Items{kMusic});
  EXPECT_EQ(ledger.drain_freed(), Items{});
}

TEST(EncoderDecoderLedger, NothingIsReused) {
  EncoderDecoderLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(4)).has_value());
  ASSERT_TRUE(ledger.allocate(kSecond, kOnly, kSpeech, n(4)).has_value());
  EXPECT_EQ(ledger.free_embeddings(), n(2)) << "the same item is charged to both";
  EXPECT_EQ(ledger.allocated(), (Items{kSpeech, kSpeech}));
}

// vLLM #55733: the scheduler releases at every decoded token, and each release credited the whole
// input; 100 embeddings became 300 in five steps and every admission passed.
TEST(EncoderDecoderLedger, AReleaseAtEveryDecodedTokenCreditsOnce) {
  EncoderDecoderLedger ledger(n(100));
  ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(50)).has_value());
  for (int token = 0; token < 5; ++token) ledger.release(kFirst, kOnly);
  ledger.release_all(kFirst);
  EXPECT_EQ(ledger.free_embeddings(), n(100));
  EXPECT_FALSE(ledger.fits({.size = n(101)}));
}

// vLLM #51228: inputs were listed whether they held space or not, so the scheduler never stopped.
TEST(EncoderDecoderLedger, ListsOnlyHeldInputs) {
  EncoderDecoderLedger ledger(n(100));
  EXPECT_TRUE(ledger.inputs_of(kFirst).empty());
  ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(50)).has_value());
  EXPECT_EQ(ledger.inputs_of(kFirst), std::vector{kOnly});
  EXPECT_TRUE(ledger.release(kFirst, kOnly));
  EXPECT_TRUE(ledger.inputs_of(kFirst).empty());
}

TEST(EncoderDecoderLedger, APreemptedRequestIsChargedAndCreditedAgain) {
  EncoderDecoderLedger ledger(n(10));
  for (int life = 0; life < 3; ++life) {
    ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(8)).has_value());
    ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(8)).has_value()) << "held: no charge";
    EXPECT_EQ(ledger.free_embeddings(), n(2));
    EXPECT_EQ(ledger.release_all(kFirst), 1U);
    EXPECT_EQ(ledger.free_embeddings(), n(10));
    ledger.check_invariants();
  }
  EXPECT_EQ(ledger.allocated().size(), 3U);
}

TEST(EncoderDecoderLedger, AFailedAllocationIsNotReportedLater) {
  EncoderDecoderLedger ledger(n(10));
  EXPECT_EQ(ledger.allocate(kFirst, kOnly, kSpeech, n(11)).error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(ledger.allocated().empty());
  EXPECT_EQ(ledger.free_embeddings(), n(10));
}

TEST(EncoderDecoderLedger, ResetForgetsEverything) {
  EncoderDecoderLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(4)).has_value());
  EXPECT_TRUE(ledger.drain_freed().empty());
  ASSERT_TRUE(ledger.allocate(kSecond, kOnly, kMusic, n(4)).has_value());
  ledger.reset();
  EXPECT_TRUE(ledger.allocated().empty());
  EXPECT_TRUE(ledger.to_free().empty());
  EXPECT_EQ(ledger.free_embeddings(), n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, kOnly, kSpeech, n(8)).has_value());
  EXPECT_EQ(ledger.free_embeddings(), n(2));
}

}  // namespace
}  // namespace afterimage
