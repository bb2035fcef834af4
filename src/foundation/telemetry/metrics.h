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

/// By name, so that their order never makes another series.
using MetricLabels = std::map<std::string, std::string, std::less<>>;

/// One series that only grows. Copy it freely; it lives as long as its Metrics.
///
/// Threads  Any, without a lock.
class MetricCounter {
 public:
  explicit MetricCounter(prometheus::Counter& series) : series_(&series) {}
  /// What is negative or no number is not counted.
  void add(double amount = 1);
  [[nodiscard]] double value() const;

 private:
  prometheus::Counter* series_;
};

/// One series that rises and falls. Threads: any, without a lock.
class MetricGauge {
 public:
  explicit MetricGauge(prometheus::Gauge& series) : series_(&series) {}
  void set(double value);
  void add(double amount);
  [[nodiscard]] double value() const;

 private:
  prometheus::Gauge* series_;
};

/// One distribution. Threads: any; a lock of its own, held for a few additions.
class MetricHistogram {
 public:
  explicit MetricHistogram(prometheus::Histogram& series) : series_(&series) {}
  /// What is no number is not counted.
  void observe(double value);

 private:
  prometheus::Histogram* series_;
};

/// Values that live elsewhere, as they are at one scrape. What is written twice with the same
/// labels adds up, so tenants that fold into one are one series.
class MetricsWriter {
 public:
  virtual void counter(std::string_view name, std::string_view help, const MetricLabels& labels,
                       double value) = 0;
  virtual void gauge(std::string_view name, std::string_view help, const MetricLabels& labels,
                     double value) = 0;
  /// Neither: a name that others chose and that does not follow the conventions.
  virtual void untyped(std::string_view name, std::string_view help, const MetricLabels& labels,
                       double value) = 0;

 protected:
  ~MetricsWriter() = default;
};

struct MetricsLimits {
  /// Values of the label `tenant` that are told apart; all others are "other". Whoever comes first
  /// has a series of his own, so make those of known tenants at the start.
  std::size_t tenants = 200;
  /// Bytes of a label's value; what is beyond is cut off.
  std::size_t label_bytes = 128;
};

/// What is counted, as Prometheus reads it. docs/metrics.md lists the names.
///
/// Shape    Families by name, each of one kind; a family's series differ in their labels. Asking
///          again for a series returns the same one.
/// Unit     Base units, as Prometheus has it: seconds, bytes. The name says which.
/// Errors   None. Names and help texts are the program's own: one that is not a metric's name, or
///          one name with two kinds, is a broken invariant. Values of labels may be anybody's: what
///          is not UTF-8 is replaced, for one bad byte would make the whole scrape unreadable.
/// Threads  Any. Making a series takes a lock; keep what you bump for each request.
/// Source   src/telemetry/DESIGN.md.
class Metrics {
 public:
  explicit Metrics(MetricsLimits limits = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  MetricCounter counter(std::string_view name, std::string_view help,
                        const MetricLabels& labels = {});
  MetricGauge gauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  /// `buckets` are upper bounds, rising; those of the family's first series hold for all of it.
  MetricHistogram histogram(std::string_view name, std::string_view help,
                            const MetricLabels& labels, const std::vector<double>& buckets);

  /// `read` is called at every scrape, without a lock, perhaps by several threads at a time. It
  /// lives as long as this and does not call back.
  void on_scrape(std::function<void(MetricsWriter&)> read);

  /// Tenants that have no series of their own. Counted up to 65,536.
  [[nodiscard]] std::uint64_t folded_tenants() const;

  /// The text format, version 0.0.4, families in order of their names. It says also how many
  /// tenants were folded: afterimage_tenants_folded.
  [[nodiscard]] std::string text() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Upper bounds in seconds for what takes from a tenth of a millisecond (a hit) to minutes (a long
/// answer).
[[nodiscard]] const std::vector<double>& latency_buckets();

}  // namespace afterimage
