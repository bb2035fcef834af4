// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/metrics.h"

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <locale>
#include <set>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "afterimage/result.h"
#include "foundation/platform/mutex.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

constexpr std::size_t kMostFolded = 65'536;
constexpr std::string_view kFolded = "other";

std::vector<prometheus::ClientMetric::Label> label_list(const prometheus::Labels& labels) {
  std::vector<prometheus::ClientMetric::Label> out;
  out.reserve(labels.size());
  for (const auto& [name, value] : labels) out.push_back({name, value});
  return out;
}

template <typename Series>
auto builder_of() {
  if constexpr (std::is_same_v<Series, prometheus::Counter>) return prometheus::BuildCounter();
  if constexpr (std::is_same_v<Series, prometheus::Gauge>) return prometheus::BuildGauge();
  if constexpr (std::is_same_v<Series, prometheus::Histogram>) return prometheus::BuildHistogram();
}

/// The tenants that have series of their own.
class TenantNames {
 public:
  explicit TenantNames(std::size_t limit) : limit_(limit) {}

  /// The label value to show: the tenant's name or "other".
  std::string shown(std::string name) AFI_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (known_.contains(name)) return name;
    if (known_.size() < limit_) {
      known_.insert(name);
      return name;
    }
    if (folded_.size() < kMostFolded) folded_.insert(std::hash<std::string>()(name));
    return std::string(kFolded);
  }

  [[nodiscard]] std::uint64_t folded() const AFI_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return folded_.size();
  }

 private:
  const std::size_t limit_;
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> known_ AFI_GUARDED_BY(mutex_);
  std::unordered_set<std::size_t> folded_ AFI_GUARDED_BY(mutex_);
};

/// Collects the families of one scrape, by name, from several sources.
class Scrape final : public MetricsWriter {
 public:
  using Labelled = std::function<prometheus::Labels(const MetricLabels&)>;
  explicit Scrape(Labelled labelled) : labelled_(std::move(labelled)) {}

  void take(std::vector<prometheus::MetricFamily> families) {
    for (auto& family : families) {
      if (family.metric.empty()) continue;
      AFI_CHECK(!families_.contains(family.name));  // registered and also written by a callback
      family_of(family.name, family.help, family.type).metric = std::move(family.metric);
    }
  }
  void counter(std::string_view name, std::string_view help, const MetricLabels& labels,
               double value) override {
    if (!std::isfinite(value)) return;  // unknown: the series is omitted
    series(name, help, labels, prometheus::MetricType::Counter).counter.value += value;
  }
  void gauge(std::string_view name, std::string_view help, const MetricLabels& labels,
             double value) override {
    if (!std::isfinite(value)) return;
    series(name, help, labels, prometheus::MetricType::Gauge).gauge.value += value;
  }
  void untyped(std::string_view name, std::string_view help, const MetricLabels& labels,
               double value) override {
    if (!std::isfinite(value)) return;
    series(name, help, labels, prometheus::MetricType::Untyped).untyped.value += value;
  }

  [[nodiscard]] std::vector<prometheus::MetricFamily> families() && {
    std::vector<prometheus::MetricFamily> out;
    out.reserve(families_.size());
    for (auto& [name, family] : families_) {
      std::ranges::sort(family.metric, {}, &prometheus::ClientMetric::label);
      out.push_back(std::move(family));
    }
    return out;
  }

 private:
  prometheus::MetricFamily& family_of(std::string_view name, std::string_view help,
                                      prometheus::MetricType type) {
    const auto [it, is_new] = families_.try_emplace(std::string(name));
    if (is_new) {
      AFI_CHECK(prometheus::CheckMetricName(it->first));
      it->second.name = it->first;
      it->second.help = help;
      it->second.type = type;
    }
    AFI_CHECK(it->second.type == type);
    return it->second;
  }
  prometheus::ClientMetric& series(std::string_view name, std::string_view help,
                                   const MetricLabels& labels, prometheus::MetricType type) {
    auto& family = family_of(name, help, type);
    auto wanted = label_list(labelled_(labels));
    const auto [it, is_new] =
        places_.try_emplace(std::pair(family.name, wanted), family.metric.size());
    if (is_new) family.metric.emplace_back().label = std::move(wanted);
    return family.metric[it->second];
  }

  Labelled labelled_;
  std::map<std::string, prometheus::MetricFamily> families_;
  std::map<std::pair<std::string, std::vector<prometheus::ClientMetric::Label>>, std::size_t>
      places_;
};

}  // namespace

void MetricCounter::add(double amount) {
  if (amount > 0 && std::isfinite(amount)) series_->Increment(amount);
}
double MetricCounter::value() const { return series_->Value(); }

void MetricGauge::set(double value) { series_->Set(value); }
void MetricGauge::add(double amount) { series_->Increment(amount); }
double MetricGauge::value() const { return series_->Value(); }

void MetricHistogram::observe(double value) {
  if (!std::isnan(value)) series_->Observe(value);
}

struct Metrics::State {
  explicit State(MetricsLimits the_limits) : limits(the_limits), tenants(the_limits.tenants) {}

  prometheus::Labels labelled(const MetricLabels& labels) {
    prometheus::Labels out;
    for (const auto& [name, value] : labels) {
      AFI_CHECK(prometheus::CheckLabelName(name));
      std::string text = valid_text(value, limits.label_bytes);
      out.emplace(name, name == "tenant" ? tenants.shown(std::move(text)) : std::move(text));
    }
    return out;
  }

  /// Returns a family, registering it once: the registry's own look-up is linear.
  template <typename Series>
  prometheus::Family<Series>& family(std::string_view name, std::string_view help)
      AFI_REQUIRES(mutex) {
    auto& known = std::get<Families<Series>>(families);
    const auto it = known.find(name);
    if (it != known.end()) return *it->second;
    const std::string own(name);
    AFI_CHECK(prometheus::CheckMetricName(own));
    AFI_CHECK(names.insert(own).second);  // fails if one name has two kinds
    auto& made = builder_of<Series>().Name(own).Help(std::string(help)).Register(registry);
    known.emplace(own, &made);
    return made;
  }

  template <typename Series>
  using Families = std::map<std::string, prometheus::Family<Series>*, std::less<>>;

  const MetricsLimits limits;
  TenantNames tenants;
  mutable Mutex mutex;
  prometheus::Registry registry;
  std::set<std::string, std::less<>> names AFI_GUARDED_BY(mutex);
  std::tuple<Families<prometheus::Counter>, Families<prometheus::Gauge>,
             Families<prometheus::Histogram>>
      families AFI_GUARDED_BY(mutex);
  std::map<std::string, std::vector<double>, std::less<>> buckets AFI_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<const std::function<void(MetricsWriter&)>>> readers
      AFI_GUARDED_BY(mutex);
};

Metrics::Metrics(MetricsLimits limits) : state_(std::make_unique<State>(limits)) {}
Metrics::~Metrics() = default;

MetricCounter Metrics::counter(std::string_view name, std::string_view help,
                               const MetricLabels& labels) {
  const auto own = state_->labelled(labels);
  const MutexLock lock(state_->mutex);
  return MetricCounter(state_->family<prometheus::Counter>(name, help).Add(own));
}

MetricGauge Metrics::gauge(std::string_view name, std::string_view help,
                           const MetricLabels& labels) {
  const auto own = state_->labelled(labels);
  const MutexLock lock(state_->mutex);
  return MetricGauge(state_->family<prometheus::Gauge>(name, help).Add(own));
}

MetricHistogram Metrics::histogram(std::string_view name, std::string_view help,
                                   const MetricLabels& labels, const std::vector<double>& buckets) {
  AFI_CHECK(std::ranges::is_sorted(buckets));
  const auto own = state_->labelled(labels);
  const MutexLock lock(state_->mutex);
  auto& family = state_->family<prometheus::Histogram>(name, help);
  const auto bounds = state_->buckets.try_emplace(std::string(name), buckets).first;
  return MetricHistogram(family.Add(own, bounds->second));
}

void Metrics::on_scrape(std::function<void(MetricsWriter&)> read) {
  auto shared = std::make_shared<const std::function<void(MetricsWriter&)>>(std::move(read));
  const MutexLock lock(state_->mutex);
  state_->readers.push_back(std::move(shared));
}

std::uint64_t Metrics::folded_tenants() const { return state_->tenants.folded(); }

std::string Metrics::text() const {
  Scrape scrape([this](const MetricLabels& labels) { return state_->labelled(labels); });
  const auto readers = [this] {
    const MutexLock lock(state_->mutex);
    return state_->readers;
  }();
  for (const auto& read : readers) (*read)(scrape);
  scrape.take(state_->registry.Collect());
  scrape.gauge("afterimage_tenants_folded", "Tenants that are counted as tenant=\"other\".", {},
               static_cast<double>(folded_tenants()));

  std::ostringstream out;
  out.imbue(std::locale::classic());
  prometheus::TextSerializer().Serialize(out, std::move(scrape).families());
  return std::move(out).str();
}

const std::vector<double>& latency_buckets() {
  static const std::vector<double> kBuckets = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                               0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                               5,      10,      30,     60,    120};
  return kBuckets;
}

}  // namespace afterimage
