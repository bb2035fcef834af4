// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <utility>

#include "caches/scheduling/encoder_ledger.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

const RequestId kFirst("first");
const RequestId kSecond("second");

constexpr InputIndex input(std::uint32_t index) { return InputIndex(index); }
constexpr EmbeddingCount n(std::uint64_t count) { return EmbeddingCount(count); }
using Freed = std::vector<RequestInput>;

TEST(RequestScopedLedger, ReleasedSpaceIsFreeAtOnceAndReportedOnce) {
  RequestScopedLedger ledger(n(10));
  EXPECT_FALSE(ledger.has(kFirst, input(0)));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(10)).has_value());
  EXPECT_TRUE(ledger.has(kFirst, input(0)));
  EXPECT_FALSE(ledger.fits(n(1)));
  EXPECT_TRUE(ledger.release(kFirst, input(0)));
  EXPECT_FALSE(ledger.has(kFirst, input(0)));
  EXPECT_TRUE(ledger.fits(n(10)));
  EXPECT_EQ(ledger.drain_freed(), (Freed{{kFirst, input(0)}}));
  EXPECT_EQ(ledger.drain_freed(), Freed{});
}

TEST(RequestScopedLedger, SharesNothingBetweenRequests) {
  RequestScopedLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(4)).has_value());
  EXPECT_FALSE(ledger.has(kSecond, input(0)));
  ASSERT_TRUE(ledger.allocate(kSecond, input(0), n(4)).has_value());
  EXPECT_EQ(ledger.free_embeddings(), n(2));
}

// vLLM 0.9 credited an input again as long as the request held any other input.
TEST(RequestScopedLedger, FreeingTheSameInputTwiceCreditsOnce) {
  RequestScopedLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(4)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(1), n(3)).has_value());
  EXPECT_TRUE(ledger.release(kFirst, input(0)));
  EXPECT_FALSE(ledger.release(kFirst, input(0)));
  EXPECT_EQ(ledger.free_embeddings(), n(7));
  EXPECT_EQ(ledger.drain_freed().size(), 1U);
}

TEST(RequestScopedLedger, AllocatingTheSameInputTwiceChargesOnce) {
  RequestScopedLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(6)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(6)).has_value());
  EXPECT_EQ(ledger.free_embeddings(), n(4));
  EXPECT_EQ(ledger.allocate(kFirst, input(0), n(2)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ledger.free_embeddings(), n(4));
}

TEST(RequestScopedLedger, TheFreeCountNeverFallsBelowZero) {
  RequestScopedLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(6)).has_value());
  EXPECT_EQ(ledger.allocate(kSecond, input(0), n(5)).error().code, ErrorCode::kNoSpace);
  EXPECT_FALSE(ledger.has(kSecond, input(0)));
  EXPECT_EQ(ledger.free_embeddings(), n(4));
}

TEST(RequestScopedLedger, ReleasesARequestsInputsInAscendingOrder) {
  RequestScopedLedger ledger(n(10));
  for (const std::uint32_t index : {2U, 0U, 1U}) {
    ASSERT_TRUE(ledger.allocate(kFirst, input(index), n(2)).has_value());
  }
  EXPECT_EQ(ledger.inputs_of(kFirst), (std::vector{input(0), input(1), input(2)}));
  EXPECT_EQ(ledger.release_all(kFirst), 3U);
  EXPECT_EQ(ledger.drain_freed(),
            (Freed{{kFirst, input(0)}, {kFirst, input(1)}, {kFirst, input(2)}}));
  EXPECT_EQ(ledger.release_all(kFirst), 0U);
}

TEST(RequestScopedLedger, AnInputReleasedAndAllocatedAgainIsNotReportedAsFreed) {
  RequestScopedLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(6)).has_value());
  ledger.release(kFirst, input(0));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(6)).has_value());
  EXPECT_EQ(ledger.drain_freed(), Freed{});
}

TEST(RequestScopedLedger, ResetForgetsEverything) {
  RequestScopedLedger ledger(n(10));
  ASSERT_TRUE(ledger.allocate(kFirst, input(0), n(6)).has_value());
  ASSERT_TRUE(ledger.allocate(kFirst, input(1), n(4)).has_value());
  ledger.release(kFirst, input(1));
  ledger.reset();
  EXPECT_TRUE(ledger.fits(n(10)));
  EXPECT_TRUE(ledger.drain_freed().empty());
  EXPECT_FALSE(ledger.release(kFirst, input(0)));
}

TEST(RequestScopedLedgerProperty, AgreesWithAnObviousModel) {
  testing::for_each_seed(200, [](Rng& rng) {
    const std::uint64_t capacity = rng.below(24);
    RequestScopedLedger ledger{n(capacity)};
    std::map<RequestInput, std::uint64_t> held;
    Freed freed;
    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const RequestInput place{rng.chance(0.5) ? kFirst : kSecond,
                               input(static_cast<std::uint32_t>(rng.below(4)))};
      std::uint64_t used = 0;
      for (const auto& [key, size] : held) used += size;
      const std::uint64_t size = held.contains(place) ? held.at(place) : rng.below(8);
      const std::uint64_t dice = rng.below(10);
      if (dice < 5) {
        const bool expected = held.contains(place) || used + size <= capacity;
        ASSERT_EQ(ledger.allocate(place.request, place.input, n(size)).has_value(), expected);
        if (expected) held[place] = size;
      } else if (dice < 8) {
        ASSERT_EQ(ledger.release(place.request, place.input), held.contains(place));
        if (held.erase(place) > 0) freed.push_back(place);
      } else if (dice < 9) {
        std::size_t released = 0;
        for (std::uint32_t index = 0; index < 4; ++index) {
          if (held.erase({place.request, input(index)}) == 0) continue;
          freed.push_back({place.request, input(index)});
          ++released;
        }
        ASSERT_EQ(ledger.release_all(place.request), released);
      } else {
        std::erase_if(freed, [&](const RequestInput& f) { return held.contains(f); });
        ASSERT_EQ(ledger.drain_freed(), std::exchange(freed, {}));
      }
      used = 0;
      for (const auto& [key, charged] : held) used += charged;
      ASSERT_EQ(ledger.free_embeddings(), n(capacity - used));
      ASSERT_EQ(ledger.has(place.request, place.input), held.contains(place));
      ledger.check_invariants();
    }
  });
}

}  // namespace
}  // namespace afterimage
