// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/span_exporter.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

std::size_t spans_in(const std::string& body) {
  return nlohmann::json::parse(body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
}

/// A collector that answers what a test tells it to, and can be made to hang.
class Collector {
 public:
  Result<OtlpAnswer> take(const std::string& body) {
    std::unique_lock lock(mutex_);
    ++posts_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !hangs_; });
    if (!answers_.empty()) {
      auto answer = answers_.front();
      answers_.erase(answers_.begin());
      if (!answer.has_value() || answer->status != 200) return answer;
      spans_ += spans_in(body);
      changed_.notify_all();
      return answer;
    }
    spans_ += spans_in(body);
    changed_.notify_all();
    return OtlpAnswer{.status = 200, .body = "{}"};
  }
  void answer_next(Result<OtlpAnswer> answer) {
    const std::scoped_lock lock(mutex_);
    answers_.push_back(std::move(answer));
  }
  void hang(bool on) {
    const std::scoped_lock lock(mutex_);
    hangs_ = on;
    changed_.notify_all();
  }
  void wait_for_spans(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return spans_ >= count; });
  }
  void wait_for_posts(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return posts_ >= count; });
  }
  std::size_t posts() {
    const std::scoped_lock lock(mutex_);
    return posts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Result<OtlpAnswer>> answers_;
  std::size_t spans_ = 0;
  std::size_t posts_ = 0;
  bool hangs_ = false;
};

struct Exporting {
  explicit Exporting(SpanExporterOptions options = {}) {
    options.every = 1ms;
    options.first_pause = 1ms;
    options.longest_pause = 2ms;
    exporter = std::make_unique<SpanExporter>(
        options, [this](const std::string& body) { return collector.take(body); },
        [this](std::string_view why) { complaints.emplace_back(why); });
  }
  void add(int count) {
    for (int i = 0; i < count; ++i) exporter->add({.name = "step"});
  }
  Collector collector;
  std::vector<std::string> complaints;  // read after the end
  std::unique_ptr<SpanExporter> exporter;
};

TEST(SpanExporter, SendsInBatches) {
  Exporting exporting({.batch = 10});
  exporting.add(25);
  exporting.collector.wait_for_spans(25);
  EXPECT_GE(exporting.collector.posts(), 3U);
}

TEST(SpanExporter, AFullQueueDropsAndCountsAndNeverWaits) {
  Exporting exporting({.queue = 20, .batch = 10});
  exporting.collector.hang(true);
  exporting.add(1);
  exporting.collector.wait_for_posts(1);  // the thread is in a call that does not end
  exporting.add(1000);
  const SpanExporterStats stats = exporting.exporter->stats();
  EXPECT_EQ(stats.waiting, 20U);
  EXPECT_EQ(stats.dropped, 980U);
  exporting.collector.hang(false);
  exporting.collector.wait_for_spans(21);
}

TEST(SpanExporter, TriesAgainWhatMayBeAcceptedLater) {
  Exporting exporting;
  exporting.collector.answer_next(fail(ErrorCode::kUnavailable, "nobody is there"));
  exporting.collector.answer_next(OtlpAnswer{.status = 503, .body = {}});
  exporting.add(5);
  exporting.collector.wait_for_spans(5);
  EXPECT_EQ(exporting.collector.posts(), 3U);
  exporting.exporter.reset();
  EXPECT_EQ(exporting.complaints, std::vector<std::string>{"nobody is there"})
      << "once for an outage";
}

TEST(SpanExporter, GivesUpWhatIsRefusedForGood) {
  Exporting exporting;
  exporting.collector.answer_next(OtlpAnswer{.status = 400, .body = {}});
  exporting.add(5);
  exporting.collector.wait_for_posts(1);
  exporting.add(1);
  exporting.collector.wait_for_spans(1);
  const SpanExporterStats stats = exporting.exporter->stats();
  EXPECT_EQ(stats.failed, 5U);
}

TEST(SpanExporter, GivesUpAfterSomeAttempts) {
  Exporting exporting({.attempts = 3});
  for (int i = 0; i < 3; ++i)
    exporting.collector.answer_next(OtlpAnswer{.status = 503, .body = {}});
  exporting.add(5);
  exporting.collector.wait_for_posts(3);
  exporting.add(2);
  exporting.collector.wait_for_spans(2);
  EXPECT_EQ(exporting.exporter->stats().failed, 5U);
}

TEST(SpanExporter, CountsWhatACollectorRejects) {
  Exporting exporting;
  exporting.collector.answer_next(
      OtlpAnswer{.status = 200, .body = R"({"partialSuccess":{"rejectedSpans":"2"}})"});
  exporting.add(5);
  exporting.collector.wait_for_posts(1);
  exporting.add(1);
  exporting.collector.wait_for_posts(2);
  EXPECT_EQ(exporting.exporter->stats().failed, 2U);
}

TEST(SpanExporter, TheEndSendsWhatWaits) {
  Exporting exporting({.every = 1h});
  exporting.add(3);
  exporting.exporter.reset();
  exporting.collector.wait_for_spans(3);
}

TEST(SpanExporter, TheEndDoesNotWaitForACollectorThatIsNotThere) {
  Exporting exporting({.batch = 1, .attempts = 1'000'000});
  for (int i = 0; i < 1000; ++i) {
    exporting.collector.answer_next(fail(ErrorCode::kUnavailable, "nobody is there"));
  }
  exporting.add(100);
  exporting.collector.wait_for_posts(1);
  exporting.exporter.reset();
  EXPECT_LT(exporting.collector.posts(), 1000U);
}

}  // namespace
}  // namespace afterimage
