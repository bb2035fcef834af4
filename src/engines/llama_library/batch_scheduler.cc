// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/batch_scheduler.h"

#include <algorithm>
#include <exception>

namespace afterimage {
namespace {

/// Rows of a prompt that are computed between two batches of generating sequences: few, because
/// these wait meanwhile.
constexpr std::size_t kPieceBesideAnswers = 64;

}  // namespace

struct BatchScheduler::Job {
  const Tokens& asked;
  std::size_t done = 0;
  std::promise<Result<void>> result{};

  [[nodiscard]] std::size_t left() const { return asked.tokens.size() - done; }
  [[nodiscard]] BatchRow row(std::size_t index) const {
    return {.sequence = asked.sequence,
            .token = asked.tokens[index],
            .position = asked.at + static_cast<std::int32_t>(index),
            .wants_logits = std::ranges::binary_search(asked.wanted, index)};
  }
  void finish(Result<void> outcome) { result.set_value(std::move(outcome)); }
  /// What the library throws is thrown where its request waits, and ends that request only.
  void finish_with_exception() { result.set_exception(std::current_exception()); }
};

BatchScheduler::BatchScheduler(Compute compute, std::size_t most_rows)
    : compute_(std::move(compute)), most_rows_(std::max<std::size_t>(most_rows, 1)) {}

void BatchScheduler::post(std::function<void()> work) {
  static_cast<void>(thread_.post(std::move(work)));  // the queue is unbounded
}

Result<void> BatchScheduler::append(const Tokens& tokens, const std::function<void()>& meanwhile) {
  if (tokens.tokens.empty()) return {};
  const auto job = std::make_shared<Job>(tokens);
  auto result = job->result.get_future();
  if (tokens.tokens.size() > 1) {
    post([this, job] { extend(job); });
  } else {
    const MutexLock lock(mutex_);
    waiting_.push_back(job);
    arrived_.notify_one();
    if (!std::exchange(generate_posted_, true)) post([this] { generate(); });
  }
  ++callers_;
  if (meanwhile) meanwhile();
  result.wait();
  --callers_;
  return result.get();
}

/// Computes the next piece of a prompt; the rest goes to the end of the queue.
void BatchScheduler::extend(const JobPointer& job) {
  if (job->asked.cancel.stop_requested()) {
    return job->finish(fail(ErrorCode::kCancelled, "the request was cancelled"));
  }
  // Nothing was generated since the last piece: nobody waits for the end of this one.
  if (std::exchange(batches_at_last_piece_, batches_) == batches_) expected_.clear();
  const std::size_t piece = expected_.empty() ? most_rows_ : kPieceBesideAnswers;
  Result<void> computed;
  try {
    computed = compute_piece(*job, std::min({job->left(), piece, most_rows_}));
  } catch (...) {
    return job->finish_with_exception();
  }
  if (!computed.has_value() || job->left() == 0) return job->finish(std::move(computed));
  post([this, job] { extend(job); });
}

Result<void> BatchScheduler::compute_piece(Job& job, std::size_t count) {
  std::vector<BatchRow> rows;
  for (std::size_t i = 0; i < count; ++i) rows.push_back(job.row(job.done + i));
  AFI_TRY_VOID(compute_(rows, [&](std::size_t index, std::span<const float> logits) {
    job.asked.on_logits(job.done + index, logits);
  }));
  job.done += count;
  return {};
}

bool BatchScheduler::are_back() {
  return std::ranges::all_of(expected_, [this](std::int32_t sequence) AFI_REQUIRES(mutex_) {
    return std::ranges::any_of(
        waiting_, [sequence](const JobPointer& job) { return job->asked.sequence == sequence; });
  });
}

bool BatchScheduler::all_are_back() {
  const MutexLock lock(mutex_);
  return are_back();
}

/// Everything that waits for one token, once the sequences of the last batch are back or late.
std::vector<BatchScheduler::JobPointer> BatchScheduler::take_waiting() {
  const MutexLock lock(mutex_);
  const Duration until = clock_.now() + last_batch_ / 4;
  while (!are_back()) {
    const Duration left = until - clock_.now();
    if (left <= Duration(0)) break;
    arrived_.wait_for(mutex_, left);
  }
  generate_posted_ = false;
  return std::exchange(waiting_, {});
}

void BatchScheduler::generate() {
  // Rather than wait for sequences that are not back, do what else is to be done, once.
  deferred_ = !deferred_ && thread_.waiting() > 0 && !all_are_back();
  if (deferred_) return post([this] { generate(); });
  auto jobs = take_waiting();
  std::erase_if(jobs, [](const JobPointer& job) {
    if (!job->asked.cancel.stop_requested()) return false;
    job->finish(fail(ErrorCode::kCancelled, "the request was cancelled"));
    return true;
  });
  if (jobs.empty()) return;
  std::ranges::sort(jobs, {}, [](const JobPointer& job) { return job->asked.sequence; });
  expected_.clear();
  for (const JobPointer& job : jobs) expected_.push_back(job->asked.sequence);
  const Duration began = clock_.now();
  for (std::span<const JobPointer> left = jobs; !left.empty();) {
    const auto together = left.first(share_batches_ ? std::min(left.size(), most_rows_) : 1);
    compute_together(together);
    left = left.subspan(together.size());
  }
  last_batch_ = clock_.now() - began;
}

void BatchScheduler::compute_together(std::span<const JobPointer> jobs) {
  ++batches_;
  tokens_ += jobs.size();
  if (jobs.size() == 1) return compute_alone(*jobs.front());
  std::vector<BatchRow> rows;
  for (const JobPointer& job : jobs) rows.push_back(job->row(0));
  bool is_computed = false;
  try {
    is_computed = compute_(rows, [&](std::size_t index, std::span<const float> logits) {
                    jobs[index]->asked.on_logits(0, logits);
                  }).has_value();
  } catch (...) {  // as if it had failed
  }
  for (const JobPointer& job : jobs) {
    if (is_computed) {
      job->finish({});
    } else {
      compute_alone(*job);  // the failure may be another sequence's
    }
  }
}

void BatchScheduler::compute_alone(Job& job) {
  Result<void> computed;
  try {
    computed = compute_piece(job, 1);
  } catch (...) {
    return job.finish_with_exception();
  }
  job.finish(std::move(computed));
}

}  // namespace afterimage
