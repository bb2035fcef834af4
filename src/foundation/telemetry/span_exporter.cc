// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/span_exporter.h"

#include <algorithm>
#include <utility>

namespace afterimage {
namespace {

/// Statuses after which the same request may be accepted (OTLP/HTTP, "Failures").
bool may_be_accepted_later(unsigned status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

SpanExporter::SpanExporter(SpanExporterOptions options, Send send,
                           std::function<void(std::string_view)> complain)
    : options_(std::move(options)),
      send_(std::move(send)),
      complain_(std::move(complain)),
      ids_(options_.seed),
      thread_([this] { run(); }) {}

SpanExporter::~SpanExporter() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SpanExporter::add(Span span) {
  const MutexLock lock(mutex_);
  if (waiting_.size() >= options_.queue) {
    ++stats_.dropped;
    return;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() == options_.batch) changed_.notify_all();
}

SpanExporterStats SpanExporter::stats() const {
  const MutexLock lock(mutex_);
  SpanExporterStats stats = stats_;
  stats.waiting = waiting_.size();
  return stats;
}

/// Empty: the process ends, and nothing waits.
std::vector<Span> SpanExporter::next_batch() {
  const MutexLock lock(mutex_);
  while (true) {
    const auto full = [this]() AFI_REQUIRES(mutex_) {
      return stopping_ || waiting_.size() >= options_.batch;
    };
    changed_.wait_for(mutex_, options_.every, full);
    if (!waiting_.empty() || stopping_) break;
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(options_.batch, waiting_.size()));
  std::vector<Span> batch(std::make_move_iterator(waiting_.begin()),
                          std::make_move_iterator(waiting_.begin() + count));
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  return batch;
}

void SpanExporter::run() {
  while (true) {
    const std::vector<Span> batch = next_batch();
    if (batch.empty()) return;
    if (deliver(batch)) continue;
    const MutexLock lock(mutex_);
    stats_.failed += batch.size();
    if (!stopping_) continue;
    // The end of the process does not wait for a collector that does not answer.
    stats_.failed += waiting_.size();
    waiting_.clear();
    return;
  }
}

bool SpanExporter::deliver(const std::vector<Span>& batch) {
  Duration wait = options_.first_pause;
  for (unsigned attempt = 1;; ++attempt) {
    const Sent sent = post(batch);
    if (sent == Sent::kYes) return true;
    if (sent == Sent::kNever || attempt >= options_.attempts || !pause(wait)) return false;
    wait = std::min(2 * wait, options_.longest_pause);
  }
}

SpanExporter::Sent SpanExporter::post(const std::vector<Span>& batch) {
  const auto answer = send_(otlp_traces(batch, options_.service, options_.version));
  if (!answer.has_value()) {
    complain(answer.error().message);
    return Sent::kLater;
  }
  if (answer->status < 200 || answer->status >= 300) {
    complain("it answered " + std::to_string(answer->status));
    return may_be_accepted_later(answer->status) ? Sent::kLater : Sent::kNever;
  }
  in_trouble_ = false;
  const std::uint64_t rejected =
      std::min<std::uint64_t>(rejected_spans(answer->body), batch.size());
  const MutexLock lock(mutex_);
  stats_.sent += batch.size() - rejected;
  stats_.failed += rejected;
  return Sent::kYes;
}

bool SpanExporter::pause(Duration time) {
  const MutexLock lock(mutex_);
  const auto stopping = [this]() AFI_REQUIRES(mutex_) { return stopping_; };
  return !changed_.wait_for(mutex_, time, stopping);
}

void SpanExporter::complain(const std::string& why) {
  if (!std::exchange(in_trouble_, true)) complain_(why);
}

}  // namespace afterimage
