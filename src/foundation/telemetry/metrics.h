// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace afterimage {

/// Ordered by name, so the order in which labels are listed never creates another series.
using MetricLabels = std::map<std::string, std::string, std::less<>>;

/// One series that only grows. Copyable; valid as long as its Metrics.
///
/// Threads  Any, without a lock.
class MetricCounter {
 public:
  explicit MetricCounter(prometheus::Counter& series) : series_(&series) {}
  /// Ignores amounts that are negative or not finite.
  void add(double amount = 1);
  [[nodiscard]] double value() const;

 private:
  prometheus::Counter* series_;
};

/// One series that rises and falls.
///
/// Threads  Any, without a lock.
class MetricGauge {
 public:
  explicit MetricGauge(prometheus::Gauge& series) : series_(&series) {}
  void set(double value);
  void add(double amount);
  [[nodiscard]] double value() const;

 private:
  prometheus::Gauge* series_;
};

/// One distribution.
///
/// Threads  Any; it has its own lock, held for a few additions.
class MetricHistogram {
 public:
  explicit MetricHistogram(prometheus::Histogram& series) : series_(&series) {}
  /// Ignores values that are not numbers.
  void observe(double value);

 private:
  prometheus::Histogram* series_;
};

/// Collects values that are computed elsewhere, at the time of one scrape. Values written twice
/// with the same labels are added up, so tenants that are folded into "other" form one series.
class MetricsWriter {
 public:
  virtual void counter(std::string_view name, std::string_view help, const MetricLabels& labels,
                       double value) = 0;
  virtual void gauge(std::string_view name, std::string_view help, const MetricLabels& labels,
                     double value) = 0;
  /// For a name from another project that does not follow the Prometheus conventions.
  virtual void untyped(std::string_view name, std::string_view help, const MetricLabels& labels,
                       double value) = 0;

 protected:
  ~MetricsWriter() = default;
};

struct MetricsLimits {
  /// Distinct values of the label `tenant`; further tenants are counted as "other". Tenants get
  /// their series in order of appearance, so create the series of configured tenants at start-up.
  std::size_t tenants = 200;
  /// Longest label value in bytes; the rest is cut off.
  std::size_t label_bytes = 128;
};

/// The registry of metrics that Prometheus scrapes. docs/metrics.md lists the names.
///
/// Shape    Families by name, each of one kind; the series of a family differ in their labels.
///          Asking again for a series returns the same one.
/// Unit     Base units, as Prometheus requires: seconds, bytes. The name says which.
/// Errors   None. Names and help texts are the program's own: an invalid metric name, or one name
///          with two kinds, is a broken invariant. Label values may come from outside: invalid
///          UTF-8 is replaced, because one bad byte would make the whole scrape unreadable.
/// Threads  Any. Creating a series takes a lock; on the request path, keep the returned object.
/// Source   src/foundation/telemetry/DESIGN.md.
class Metrics {
 public:
  explicit Metrics(MetricsLimits limits = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  MetricCounter counter(std::string_view name, std::string_view help,
                        const MetricLabels& labels = {});
  MetricGauge gauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  /// `buckets` are rising upper bounds; those of the family's first series apply to all its series.
  MetricHistogram histogram(std::string_view name, std::string_view help,
                            const MetricLabels& labels, const std::vector<double>& buckets);

  /// Registers a callback that runs at every scrape, without a lock, perhaps on several threads at
  /// a time. What it captures must outlive this object, and it must not call back into it.
  void on_scrape(std::function<void(MetricsWriter&)> read);

  /// Tenants that have no series of their own and are counted as "other". Counted up to 65,536.
  [[nodiscard]] std::uint64_t folded_tenants() const;

  /// The metrics in text format version 0.0.4, families ordered by name. Includes the number of
  /// folded tenants: afterimage_tenants_folded.
  [[nodiscard]] std::string text() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bucket bounds in seconds for latencies from a tenth of a millisecond (a hit) to minutes (a long
/// answer).
[[nodiscard]] const std::vector<double>& latency_buckets();

}  // namespace afterimage
