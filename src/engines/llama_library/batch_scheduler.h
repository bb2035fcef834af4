// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "engines/llama_library/llama_options.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/workers.h"

namespace afterimage {

/// One row of a batch: a token of a sequence.
struct BatchRow {
  std::int32_t sequence = 0;
  TokenId token{};
  std::int32_t position = 0;
  bool wants_logits = false;
};

/// Receives the logits of row `index` of what was passed in.
using OnLogits = std::function<void(std::size_t index, std::span<const float> logits)>;

/// Computes the tokens that several sequences wait for: those that wait for one token (they are
/// generating an answer) together in one batch, long prompts in pieces between such batches. Pieces
/// of several prompts take turns.
///
/// Why      Computing one token reads all weights; computing one token for each of eight sequences
///          reads them once. One thread computes everything, because OpenMP creates a team of
///          threads for each thread that has ever computed with it; once the teams together have
///          more threads than there are cores, they sleep at every barrier of a compute graph.
/// Waiting  After a batch, its sequences are expected back with their next tokens: the next batch
///          waits for them for at most a quarter of the time that the last batch took.
/// Threads  Any but the computing thread itself.
class BatchScheduler {
 public:
  /// Computes rows in one batch; of one sequence they are consecutive. `on_logits` is called for
  /// the rows that want it. After a failure of a batch with several sequences, each is tried alone.
  using Compute = std::function<Result<void>(std::span<const BatchRow>, const OnLogits&)>;

  /// `most_rows`: of one batch. `compute` is called on the computing thread only.
  BatchScheduler(Compute compute, std::size_t most_rows);

  /// Tokens to append to a sequence. All that it refers to outlives the call.
  struct Tokens {
    std::int32_t sequence = 0;
    std::span<const TokenId> tokens;
    std::int32_t at = 0;                       // the first token's position
    std::span<const std::size_t> wanted = {};  // ascending: indices of the tokens with logits
    const OnLogits& on_logits;                 // called on the computing thread
    std::stop_token cancel = {};               // looked at before each batch
  };
  /// Blocks until the tokens are computed. `meanwhile` is called on this thread while they are.
  /// kCancelled: on request; some of the tokens may have been appended. Else compute's errors,
  /// and what it throws.
  Result<void> append(const Tokens& tokens, const std::function<void()>& meanwhile = {});

  /// Runs `work` on the computing thread, between batches.
  template <std::invocable Work>
  std::invoke_result_t<Work&> run(Work work) {
    // Shared, because the thread may still be finishing the task when its result is available.
    const auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<Work&>()>>(std::move(work));
    auto result = task->get_future();
    post([task] { (*task)(); });
    return result.get();
  }

  /// Whether sequences may share a batch; true at first. False: each is computed alone.
  void share_batches(bool share) { share_batches_ = share; }

  /// How many calls of append() wait now.
  [[nodiscard]] std::size_t callers() const { return callers_; }
  [[nodiscard]] BatchCounts counts() const { return {.batches = batches_, .tokens = tokens_}; }

 private:
  struct Job;
  using JobPointer = std::shared_ptr<Job>;

  void post(std::function<void()> work);
  void extend(const JobPointer& job);
  void generate();
  [[nodiscard]] bool are_back() AFI_REQUIRES(mutex_);
  [[nodiscard]] bool all_are_back() AFI_EXCLUDES(mutex_);
  std::vector<JobPointer> take_waiting() AFI_EXCLUDES(mutex_);
  void compute_together(std::span<const JobPointer> jobs);
  void compute_alone(Job& job);
  Result<void> compute_piece(Job& job, std::size_t count);

  const Compute compute_;
  const std::size_t most_rows_;
  const SystemClock clock_;
  std::atomic<std::size_t> callers_ = 0;
  std::atomic<bool> share_batches_ = true;
  std::atomic<std::uint64_t> batches_ = 0;
  std::atomic<std::uint64_t> tokens_ = 0;

  Mutex mutex_;
  Condition arrived_;
  std::vector<JobPointer> waiting_ AFI_GUARDED_BY(mutex_);  // for one token each
  bool generate_posted_ AFI_GUARDED_BY(mutex_) = false;

  // Of the computing thread.
  std::vector<std::int32_t> expected_;  // sequences of the last batch that have not come back
  Duration last_batch_{0};              // how long it took
  std::uint64_t batches_at_last_piece_ = 0;
  bool deferred_ = false;

  Workers thread_{1, SIZE_MAX};  // last: ends before what it uses
};

}  // namespace afterimage
