// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace afterimage {
namespace {

using ReportJson = nlohmann::ordered_json;

constexpr std::size_t kWindows = 40;
constexpr double kMiB = 1024.0 * 1024.0;
// The client is the bottleneck if its own delay is seen in the results.
constexpr Duration kLateClient = std::chrono::milliseconds(20);

double seconds_in(Duration time) { return std::chrono::duration<double>(time).count(); }

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::optional<Duration> first_token(const LoadSample& sample) {
  if (!sample.first) return std::nullopt;
  return *sample.first - sample.due;
}
/// After the first token.
std::optional<Duration> per_token(const LoadSample& sample) {
  if (!sample.first || !sample.last || sample.output_tokens < 2) return std::nullopt;
  return (*sample.last - *sample.first) / static_cast<Duration::rep>(sample.output_tokens - 1);
}
bool within(const std::optional<Duration>& value, const std::optional<Duration>& limit) {
  return !limit || !value || *value <= *limit;
}

/// Adds up samples.
class Sums {
 public:
  Sums(LoadReport& report, const LoadResult& result) : report_(report), result_(result) {
    replicas_.resize(result.replicas.size());
    routes_.resize(result.routes.size());
  }

  void add(const LoadSample& sample) {
    ++report_.requests;
    report_.sent_mib += static_cast<double>(sample.sent_bytes) / kMiB;
    late_.push_back(sample.sent - sample.due);
    end_ = std::max(end_, sample.end);
    if (sample.outcome != LoadOutcome::kAnswered) {
      report_.refused += sample.outcome == LoadOutcome::kStatus ? 1 : 0;
      report_.broken += sample.outcome == LoadOutcome::kBroken ? 1 : 0;
      report_.invalid += sample.outcome == LoadOutcome::kInvalid ? 1 : 0;
      return;
    }
    ++report_.answered;
    ++report_.cache.at(static_cast<std::size_t>(sample.cache));
    ++replicas_.at(sample.replica);
    ++routes_.at(sample.route);
    report_.prompt_tokens += sample.prompt_tokens;
    report_.cached_tokens += sample.cached_tokens;
    tokens_ += sample.output_tokens;
    const Duration latency = sample.end - sample.due;
    latency_.push_back(latency);
    (sample.cache == CacheWord::kHit ? hits_ : misses_).push_back(latency);
    const auto first = first_token(sample);
    const auto each = per_token(sample);
    if (first) first_.push_back(*first);
    if (each) each_.push_back(*each);
    const LoadLimits& limits = report_.limits;
    if (within(first, limits.first_token) && within(each, limits.per_token) &&
        within(latency, limits.latency)) {
      ++report_.good;
    }
  }

  void finish(Duration begin) {
    report_.seconds = std::max(seconds_in(end_ - begin), 1e-9);
    report_.answered_per_s = static_cast<double>(report_.answered) / report_.seconds;
    report_.good_per_s = static_cast<double>(report_.good) / report_.seconds;
    report_.tokens_per_s = static_cast<double>(tokens_) / report_.seconds;
    report_.first_token = times_of(std::move(first_));
    report_.per_token = times_of(std::move(each_));
    report_.latency = times_of(std::move(latency_));
    report_.late = times_of(std::move(late_));
    if (!hits_.empty()) {
      report_.hit_latency = times_of(std::move(hits_));
      report_.miss_latency = times_of(std::move(misses_));
    }
    name_counts(report_.replicas, result_.replicas, replicas_);
    name_counts(report_.routes, result_.routes, routes_);
  }

 private:
  static void name_counts(std::vector<std::pair<std::string, std::uint64_t>>& to,
                          const std::vector<std::string>& names,
                          const std::vector<std::uint64_t>& counts) {
    for (std::size_t i = 1; i < names.size(); ++i) to.emplace_back(names[i], counts[i]);
    std::ranges::sort(to);
  }

  LoadReport& report_;
  const LoadResult& result_;
  Duration end_{0};
  std::uint64_t tokens_ = 0;
  std::vector<Duration> first_, each_, latency_, hits_, misses_, late_;
  std::vector<std::uint64_t> replicas_, routes_;
};

std::vector<LoadWindow> windows_of(std::span<const LoadSample> samples) {
  Duration begin = Duration::max();
  Duration end{0};
  for (const LoadSample& sample : samples) {
    begin = std::min(begin, sample.due);
    end = std::max(end, sample.due);
  }
  if (end <= begin) return {};
  const Duration length = (end - begin) / kWindows + Duration(1);
  struct Part {
    std::uint64_t answered = 0, failed = 0;
    std::vector<Duration> first, latency;
  };
  std::vector<Part> parts(kWindows);
  for (const LoadSample& sample : samples) {
    Part& part = parts.at(static_cast<std::size_t>((sample.due - begin) / length));
    const bool answered = sample.outcome == LoadOutcome::kAnswered;
    ++(answered ? part.answered : part.failed);
    if (!answered) continue;
    part.latency.push_back(sample.end - sample.due);
    if (const auto first = first_token(sample)) part.first.push_back(*first);
  }
  std::vector<LoadWindow> windows;
  for (std::size_t i = 0; i < kWindows; ++i) {
    Part& part = parts[i];
    windows.push_back({.from_s = seconds_in(length * static_cast<Duration::rep>(i)),
                       .answered_per_s = static_cast<double>(part.answered) / seconds_in(length),
                       .failed_per_s = static_cast<double>(part.failed) / seconds_in(length),
                       .first_token = times_of(std::move(part.first)),
                       .latency = times_of(std::move(part.latency))});
  }
  return windows;
}

std::string milliseconds(Duration time) {
  const double ms = to_milliseconds(time);
  return fmt::format("{:.{}f}", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

void add_times(std::vector<std::vector<std::string>>& rows, std::string name,
               const LoadTimes& times) {
  if (times.count == 0) return;
  rows.push_back({std::move(name), milliseconds(times.mean), milliseconds(times.p50),
                  milliseconds(times.p90), milliseconds(times.p99), milliseconds(times.most)});
}

void add_counts(std::vector<std::vector<std::string>>& rows, std::string_view heading,
                const std::vector<std::pair<std::string, std::uint64_t>>& counts, double of) {
  for (const auto& [name, count] : counts) {
    rows.push_back(
        {fmt::format("{} {}", heading, name),
         fmt::format("{} ({:.1f} %)", count, 100 * ratio(static_cast<double>(count), of))});
  }
}

ReportJson json_of(const LoadTimes& times) {
  return {{"count", times.count},
          {"mean_ms", to_milliseconds(times.mean)},
          {"p50_ms", to_milliseconds(times.p50)},
          {"p90_ms", to_milliseconds(times.p90)},
          {"p99_ms", to_milliseconds(times.p99)},
          {"max_ms", to_milliseconds(times.most)}};
}

ReportJson json_of(const LoadLimits& limits) {
  ReportJson json = ReportJson::object();
  if (limits.first_token) json["ttft_ms"] = to_milliseconds(*limits.first_token);
  if (limits.per_token) json["tpot_ms"] = to_milliseconds(*limits.per_token);
  if (limits.latency) json["latency_ms"] = to_milliseconds(*limits.latency);
  return json;
}

std::uint64_t count_of(const LoadReport& report, CacheWord word) {
  return report.cache.at(static_cast<std::size_t>(word));
}

bool says_cache(const LoadReport& report) {
  return count_of(report, CacheWord::kNone) < report.answered;
}

}  // namespace

LoadTimes times_of(std::vector<Duration> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  double total = 0;
  for (const Duration value : values) total += static_cast<double>(value.count());
  // The smallest value that the share of all does not exceed.
  const auto quantile = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  return {.count = values.size(),
          .mean = Duration(std::llround(total / static_cast<double>(values.size()))),
          .p50 = quantile(0.5),
          .p90 = quantile(0.9),
          .p99 = quantile(0.99),
          .most = values.back()};
}

LoadReport load_report(const LoadTrace& trace, const LoadResult& result, const LoadLimits& limits,
                       double warm_up) {
  LoadReport report;
  report.limits = limits;
  report.content = count_content(trace);
  report.failures = result.failures;
  const auto skipped = static_cast<std::size_t>(std::clamp(warm_up, 0.0, 1.0) *
                                                static_cast<double>(result.samples.size()));
  const auto counted =
      std::span(result.samples)
          .subspan(std::min(skipped,
                            result.samples.empty() ? std::size_t{0} : result.samples.size() - 1));
  if (counted.empty()) return report;
  Sums sums(report, result);
  Duration begin = Duration::max();
  Duration last{0};
  for (const LoadSample& sample : counted) {
    sums.add(sample);
    begin = std::min(begin, sample.due);
    last = std::max(last, sample.due);
  }
  sums.finish(begin);
  report.offered_per_s = ratio(static_cast<double>(report.requests - 1), seconds_in(last - begin));
  report.windows = windows_of(counted);
  return report;
}

std::vector<std::vector<std::string>> report_rows(const LoadReport& r) {
  std::vector<std::vector<std::string>> rows;
  const double answered = static_cast<double>(r.answered);
  rows.push_back({"requests", fmt::format("{} in {:.1f} s", r.requests, r.seconds)});
  rows.push_back({"  answered", fmt::format("{} ({:.1f} %)", r.answered,
                                            100 * ratio(answered, double(r.requests)))});
  if (r.refused > 0) rows.push_back({"  refused by status", fmt::format("{}", r.refused)});
  if (r.broken > 0) rows.push_back({"  broken or timed out", fmt::format("{}", r.broken)});
  if (r.invalid > 0) rows.push_back({"  invalid or cut off", fmt::format("{}", r.invalid)});
  rows.push_back({"offered", fmt::format("{:.2f} requests/s", r.offered_per_s)});
  rows.push_back({"throughput", fmt::format("{:.2f} requests/s, {:.0f} output tokens/s",
                                            r.answered_per_s, r.tokens_per_s)});
  if (r.limits.any()) {
    rows.push_back({"goodput", fmt::format("{:.2f} requests/s ({:.1f} % of all)", r.good_per_s,
                                           100 * ratio(double(r.good), double(r.requests)))});
  }
  rows.push_back({"sent", fmt::format("{:.1f} MiB", r.sent_mib)});
  if (says_cache(r)) {
    rows.push_back({"answers from the cache",
                    fmt::format("{} ({:.1f} %)", count_of(r, CacheWord::kHit),
                                100 * ratio(double(count_of(r, CacheWord::kHit)), answered))});
  }
  if (r.cached_tokens > 0) {
    rows.push_back({"prompt tokens cached",
                    fmt::format("{} of {} ({:.1f} %)", r.cached_tokens, r.prompt_tokens,
                                100 * ratio(double(r.cached_tokens), double(r.prompt_tokens)))});
  }
  add_counts(rows, "replica", r.replicas, answered);
  add_counts(rows, "route", r.routes, answered);
  rows.push_back({});
  rows.push_back({"ms", "mean", "p50", "p90", "p99", "max"});
  add_times(rows, "time to first token", r.first_token);
  add_times(rows, "time per output token", r.per_token);
  add_times(rows, "latency", r.latency);
  add_times(rows, "  answers from the cache", r.hit_latency);
  add_times(rows, "  other answers", r.miss_latency);
  add_times(rows, "sent later than due", r.late);
  return rows;
}

std::string to_table(const LoadReport& report) {
  std::string out = fmt::format("{}\n{}\n\n", report.server, report.load);
  for (const auto& row : report_rows(report)) {
    std::string line = row.empty() ? "" : fmt::format("{:28}", row.front());
    // One value begins at the margin; several are columns of numbers.
    if (row.size() == 2) line += row[1];
    for (std::size_t i = 1; row.size() > 2 && i < row.size(); ++i) {
      line += fmt::format("{:>10}", row[i]);
    }
    out += line + "\n";
  }
  if (report.late.p99 > kLateClient) {
    out += fmt::format(
        "\nThe client sent 1 % of the requests {} ms late or later: the results are its own in "
        "part.\nLower --rate, raise --max-in-flight, or run several clients.\n",
        milliseconds(report.late.p99));
  }
  if (!report.failures.empty()) out += "\nfailures\n";
  for (const auto& [text, count] : report.failures) out += fmt::format("  {} x {}\n", count, text);
  return out;
}

std::string to_json(const LoadReport& r) {
  ReportJson json{{"server", r.server},
                  {"load", r.load},
                  {"content",
                   {{"sessions", r.content.sessions},
                    {"pictures", r.content.pictures},
                    {"shared_pictures", r.content.shared},
                    {"picture_uses", r.content.picture_uses},
                    {"picture_bytes", r.content.picture_bytes}}},
                  {"limits", json_of(r.limits)},
                  {"requests", r.requests},
                  {"answered", r.answered},
                  {"good", r.good},
                  {"refused", r.refused},
                  {"broken", r.broken},
                  {"invalid", r.invalid},
                  {"seconds", r.seconds},
                  {"offered_per_s", r.offered_per_s},
                  {"answered_per_s", r.answered_per_s},
                  {"good_per_s", r.good_per_s},
                  {"output_tokens_per_s", r.tokens_per_s},
                  {"sent_mib", r.sent_mib},
                  {"ttft", json_of(r.first_token)},
                  {"tpot", json_of(r.per_token)},
                  {"latency", json_of(r.latency)},
                  {"hit_latency", json_of(r.hit_latency)},
                  {"miss_latency", json_of(r.miss_latency)},
                  {"late", json_of(r.late)},
                  {"hits", count_of(r, CacheWord::kHit)},
                  {"misses", count_of(r, CacheWord::kMiss)},
                  {"bypassed", count_of(r, CacheWord::kBypass)},
                  {"refreshed", count_of(r, CacheWord::kRefresh)},
                  {"prompt_tokens", r.prompt_tokens},
                  {"cached_tokens", r.cached_tokens}};
  for (const auto& [field, counts] :
       {std::pair("replicas", &r.replicas), std::pair("routes", &r.routes)}) {
    json[field] = ReportJson::object();
    for (const auto& [name, count] : *counts) json[field][name] = count;
  }
  json["failures"] = r.failures;
  return json.dump(2, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

}  // namespace afterimage
