// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/batch_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace afterimage {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// A model whose logit of a row is its token. Records each batch.
class FakeModel {
 public:
  Result<void> compute(std::span<const BatchRow> rows, const OnLogits& on_logits) {
    has_begun = true;
    gate.wait();
    for (const BatchRow& row : rows) {
      if (row.token == kBad) return fail(ErrorCode::kUnavailable, "a bad token");
      if (row.token == kThrows) throw std::runtime_error("no memory");
    }
    batches.emplace_back(rows.begin(), rows.end());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].wants_logits) continue;
      const auto logit = static_cast<float>(static_cast<std::int32_t>(rows[i].token));
      on_logits(i, {&logit, 1});
    }
    return {};
  }

  static constexpr TokenId kBad{-1};
  static constexpr TokenId kThrows{-2};
  std::latch gate{1};  // nothing is computed before
  std::atomic<bool> has_begun = false;
  std::vector<std::vector<BatchRow>> batches;
};

std::vector<TokenId> tokens(std::int32_t from, std::size_t count) {
  std::vector<TokenId> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(TokenId(from + static_cast<std::int32_t>(i)));
  return all;
}

class BatchSchedulerTest : public ::testing::Test {
 protected:
  /// Appends on a thread of its own, and returns what came of it.
  std::jthread append(std::int32_t sequence, std::vector<TokenId> text,
                      std::stop_token cancel = {}) {
    return std::jthread([this, sequence, text = std::move(text), cancel] {
      const std::size_t last = text.size() - 1;
      float logit = 0;
      const OnLogits keep = [&](std::size_t index, std::span<const float> logits) {
        EXPECT_EQ(index, last);
        logit = logits.front();
      };
      Result<void> done;
      bool has_thrown = false;
      try {
        done = scheduler_.append({.sequence = sequence,
                                  .tokens = text,
                                  .at = 10,
                                  .wanted = {&last, 1},
                                  .on_logits = keep,
                                  .cancel = cancel});
      } catch (const std::runtime_error&) {
        has_thrown = true;
      }
      const std::scoped_lock lock(mutex_);
      logits_[sequence] = logit;
      if (!done.has_value()) errors_[sequence] = done.error().code;
      if (has_thrown) thrown_.insert(sequence);
    });
  }
  /// Until `count` appends wait, while the gate is closed.
  void wait_for_callers(std::size_t count) {
    while (scheduler_.callers() < count) std::this_thread::yield();
  }

  FakeModel model_;
  std::mutex mutex_;
  std::map<std::int32_t, float> logits_;
  std::map<std::int32_t, ErrorCode> errors_;
  std::set<std::int32_t> thrown_;
  BatchScheduler scheduler_{[this](std::span<const BatchRow> rows, const OnLogits& on_logits) {
                              return model_.compute(rows, on_logits);
                            },
                            100};
};

TEST_F(BatchSchedulerTest, ComputesSingleTokensOfSeveralSequencesTogether) {
  {
    const auto first = append(7, tokens(70, 1));
    while (!model_.has_begun) std::this_thread::yield();  // before the others come
    const auto second = append(2, tokens(20, 1));
    const auto third = append(1, tokens(10, 1));
    const auto fourth = append(3, tokens(30, 1));
    wait_for_callers(4);
    model_.gate.count_down();
  }
  EXPECT_THAT(logits_, ElementsAre(std::pair(1, 10.F), std::pair(2, 20.F), std::pair(3, 30.F),
                                   std::pair(7, 70.F)));
  ASSERT_THAT(model_.batches, SizeIs(2));
  std::vector<std::int32_t> together;
  for (const BatchRow& row : model_.batches.back()) together.push_back(row.sequence);
  EXPECT_THAT(together, ElementsAre(1, 2, 3))
      << "in order: the library computes neighbours at once";
  EXPECT_EQ(scheduler_.counts().tokens, 4U);
}

TEST_F(BatchSchedulerTest, CutsAPromptIntoBatchesAndReportsIndicesOfTheWhole) {
  model_.gate.count_down();
  append(0, tokens(0, 250)).join();
  EXPECT_EQ(logits_.at(0), 249.F);
  std::vector<std::size_t> sizes;
  for (const auto& batch : model_.batches) sizes.push_back(batch.size());
  EXPECT_THAT(sizes, ElementsAre(100, 100, 50));
  EXPECT_EQ(model_.batches.back().back().position, 10 + 249);
}

TEST_F(BatchSchedulerTest, PromptsTakeTurns) {
  {
    const auto first = append(0, tokens(0, 300));
    wait_for_callers(1);
    const auto second = append(1, tokens(0, 300));
    wait_for_callers(2);
    model_.gate.count_down();
  }
  std::vector<std::int32_t> order;
  for (const auto& batch : model_.batches) order.push_back(batch.front().sequence);
  EXPECT_THAT(order, ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST_F(BatchSchedulerTest, ALongPromptLetsGeneratingSequencesThrough) {
  {
    const auto prompt = append(0, tokens(0, 1000));
    wait_for_callers(1);
    const auto answer = append(1, tokens(0, 1));
    wait_for_callers(2);
    model_.gate.count_down();
  }
  const auto answered = std::ranges::find(model_.batches, 1,
                                          [](const auto& batch) { return batch.front().sequence; });
  EXPECT_LE(answered - model_.batches.begin(), 2) << "it waits for two pieces of ten at most";
}

TEST_F(BatchSchedulerTest, AFailureOfOneSequenceIsNotTheOthers) {
  {
    const auto blocker = append(9, tokens(0, 1));
    wait_for_callers(1);
    const auto bad = append(1, {FakeModel::kBad});
    const auto good = append(2, tokens(5, 1));
    wait_for_callers(3);
    model_.gate.count_down();
  }
  EXPECT_THAT(errors_, ElementsAre(std::pair(1, ErrorCode::kUnavailable)));
  EXPECT_EQ(logits_.at(2), 5.F);
}

// On the computing thread it ended the process.
TEST_F(BatchSchedulerTest, AnExceptionOfOneSequenceIsThrownToItsCallerOnly) {
  {
    const auto blocker = append(9, tokens(0, 1));
    wait_for_callers(1);
    const auto token = append(1, {FakeModel::kThrows});
    const auto prompt = append(2, {TokenId(1), FakeModel::kThrows});
    const auto good = append(3, tokens(5, 1));
    wait_for_callers(4);
    model_.gate.count_down();
  }
  EXPECT_THAT(thrown_, ElementsAre(1, 2));
  EXPECT_TRUE(errors_.empty());
  EXPECT_EQ(logits_.at(3), 5.F);
}

TEST_F(BatchSchedulerTest, SequencesCanBeComputedAlone) {
  scheduler_.share_batches(false);
  {
    const auto blocker = append(9, tokens(0, 1));
    wait_for_callers(1);
    const auto one = append(1, tokens(1, 1));
    const auto two = append(2, tokens(2, 1));
    wait_for_callers(3);
    model_.gate.count_down();
  }
  EXPECT_THAT(model_.batches, SizeIs(3));
  EXPECT_THAT(model_.batches, Each(SizeIs(1)));
}

TEST_F(BatchSchedulerTest, ACancelledPromptEndsAtTheNextPiece) {
  std::stop_source client;
  {
    const auto stays = append(9, tokens(5, 1));
    while (!model_.has_begun) std::this_thread::yield();
    const auto prompt = append(0, tokens(0, 1000), client.get_token());
    const auto answer = append(1, tokens(0, 1), client.get_token());
    wait_for_callers(3);
    client.request_stop();
    model_.gate.count_down();
  }
  EXPECT_THAT(errors_, ElementsAre(std::pair(0, ErrorCode::kCancelled),
                                   std::pair(1, ErrorCode::kCancelled)));
  EXPECT_EQ(logits_.at(9), 5.F);
  EXPECT_THAT(model_.batches, SizeIs(1)) << "only what had begun";
}

TEST_F(BatchSchedulerTest, WorksMeanwhileOnTheCallersThread) {
  model_.gate.count_down();
  const auto text = tokens(0, 1);
  std::thread::id by;
  const auto done = scheduler_.append({.tokens = text, .on_logits = {}},
                                      [&] { by = std::this_thread::get_id(); });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(by, std::this_thread::get_id());
}

}  // namespace
}  // namespace afterimage
