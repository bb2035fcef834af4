// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "foundation/telemetry/trace.h"

namespace afterimage {

/// What a collector said.
struct OtlpAnswer {
  unsigned status = 0;
  std::string body;
};

struct SpanExporterOptions {
  std::string service = "afterimage";
  std::string version;
  std::size_t queue = 4096;                        // spans that may wait; more are dropped
  std::size_t batch = 512;                         // spans of one POST
  Duration every = std::chrono::seconds(1);        // so long a span waits for others
  Duration first_pause = std::chrono::seconds(1);  // after a failure; twice as long after the next
  Duration longest_pause = std::chrono::seconds(30);
  unsigned attempts = 5;
  std::uint64_t seed = 0;  // of ids
};

struct SpanExporterStats {
  std::uint64_t sent = 0;     // that the collector accepted
  std::uint64_t dropped = 0;  // the queue was full
  std::uint64_t failed = 0;   // the collector refused them, or did not answer
  std::uint64_t waiting = 0;
};

/// Sends spans to a collector from a thread of its own.
///
/// add() never waits: a full queue drops the span and counts it. A collector that is not there costs
/// spans and nothing else.
///
/// Threads  Any. `send` is called on the exporter's thread, one call at a time; it may block.
class SpanExporter {
 public:
  using Send = std::function<Result<OtlpAnswer>(std::string body)>;
  /// `complain` gets the first failure of each outage, on the exporter's thread.
  SpanExporter(SpanExporterOptions options, Send send,
               std::function<void(std::string_view why)> complain);
  /// Tries once to send what waits.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  void add(Span span);
  [[nodiscard]] SpanIds& ids() { return ids_; }
  [[nodiscard]] SpanExporterStats stats() const;

 private:
  enum class Sent : unsigned char { kYes, kLater, kNever };
  void run();
  std::vector<Span> next_batch();
  /// Sends until it is accepted, refused for good, or tried often enough. False: it was not accepted.
  bool deliver(const std::vector<Span>& batch);
  Sent post(const std::vector<Span>& batch);
  /// False: the process ends.
  bool pause(Duration time);
  void complain(const std::string& why);

  const SpanExporterOptions options_;
  const Send send_;
  const std::function<void(std::string_view)> complain_;
  SpanIds ids_;
  mutable Mutex mutex_;
  TimedCondition changed_;
  std::deque<Span> waiting_ AFI_GUARDED_BY(mutex_);
  SpanExporterStats stats_ AFI_GUARDED_BY(mutex_);
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  bool in_trouble_ = false;  // the thread's
  std::thread thread_;       // last: it uses the members above
};

}  // namespace afterimage
