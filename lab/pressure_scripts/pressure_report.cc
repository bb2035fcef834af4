// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "foundation/text/quantities.h"
#include "lab/pressure_scripts/pressure.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;

void row(std::string& out, std::string_view what, std::string_view governor,
         std::string_view seed) {
  out += fmt::format("{:<34}{:>14}{:>18}\n", what, governor, seed);
}

void count_row(std::string& out, std::string_view what, std::uint64_t governor,
               std::uint64_t seed) {
  row(out, what, std::to_string(governor), std::to_string(seed));
}

std::string ms(Duration d) { return fmt::format("{:.0f} ms", to_milliseconds(d)); }

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

std::string open_or_blocked(const PressureReport& report) {
  return report.open ? "open" : "BLOCKED";
}

/// The first twelve mode changes, like "3.2 s  relaxed > normal".
std::string changes_of(const PressureReport& report) {
  constexpr std::size_t kShown = 12;
  std::string out;
  for (std::size_t i = 0; i < std::min(kShown, report.changes.size()); ++i) {
    const ModeChange& change = report.changes[i];
    out += fmt::format("  {:>8.3f} s  {} > {}\n", to_milliseconds(change.at) / 1000,
                       to_string(change.from), to_string(change.to));
  }
  if (report.changes.size() > kShown) {
    out += fmt::format("  and {} more\n", report.changes.size() - kShown);
  }
  return out;
}

OrderedJson to_value(const PressureReport& report) {
  OrderedJson changes = OrderedJson::array();
  for (const ModeChange& change : report.changes) {
    changes.push_back({{"at_ms", to_milliseconds(change.at)},
                       {"from", to_string(change.from)},
                       {"to", to_string(change.to)}});
  }
  OrderedJson in_mode;
  for (std::size_t mode = 0; mode < kPressureModes; ++mode) {
    in_mode[std::string(to_string(static_cast<PressureMode>(mode)))] =
        to_milliseconds(report.time_in_mode[mode]);
  }
  OrderedJson value = {{"oom", report.oom},
                       {"violations", report.violations},
                       {"transitions", report.changes.size()},
                       {"requests", report.requests},
                       {"hits", report.hits},
                       {"hits_below", report.hits_below},
                       {"refused", report.refused},
                       {"hit_rate", report.hit_rate()},
                       {"release_ms",
                        {{"count", report.releases.size()},
                         {"p50", to_milliseconds(report.release_percentile(50))},
                         {"p99", to_milliseconds(report.release_percentile(99))},
                         {"max", to_milliseconds(report.release_percentile(100))}}},
                       {"peak_bytes", report.peak.value()},
                       {"copied_bytes", report.copied.value()},
                       {"entries", report.entries},
                       {"admission_open", report.open},
                       {"mode_ms", std::move(in_mode)},
                       {"changes", std::move(changes)}};
  return value;
}

}  // namespace

std::string to_table(const PressureReport& governor, const PressureReport& seed) {
  std::string out = fmt::format("{} requests in {:.0f} s of simulated time\n\n", governor.requests,
                                to_milliseconds(governor.ran) / 1000);
  row(out, "", "governor", "seed rules");
  count_row(out, "out of memory", governor.oom, seed.oom);
  count_row(out, "budget violations", governor.violations, seed.violations);
  count_row(out, "mode transitions", governor.changes.size(), seed.changes.size());
  row(out, "hit rate", percent(governor.hit_rate()), percent(seed.hit_rate()));
  count_row(out, "  of these, from the lower tier", governor.hits_below, seed.hits_below);
  count_row(out, "served uncached, no space", governor.refused, seed.refused);
  row(out, "reserve restored after, p50", ms(governor.release_percentile(50)),
      ms(seed.release_percentile(50)));
  row(out, "                        p99", ms(governor.release_percentile(99)),
      ms(seed.release_percentile(99)));
  row(out, "                        longest", ms(governor.release_percentile(100)),
      ms(seed.release_percentile(100)));
  row(out, "peak memory held", readable(governor.peak), readable(seed.peak));
  row(out, "copied to the lower tier", readable(governor.copied), readable(seed.copied));
  count_row(out, "entries at the end", governor.entries, seed.entries);
  row(out, "admission at the end", open_or_blocked(governor), open_or_blocked(seed));
  if (!governor.changes.empty()) out += "\nmode changes of the governor\n" + changes_of(governor);
  if (!governor.expectations.empty()) out += '\n';
  for (const ExpectationOutcome& outcome : governor.expectations) {
    out += fmt::format("{}  {}  (found {:.6g})\n", outcome.met ? "met    " : "NOT MET",
                       outcome.text, outcome.found);
  }
  return out;
}

std::string to_json(const PressureReport& governor, const PressureReport& seed) {
  OrderedJson expectations = OrderedJson::array();
  for (const ExpectationOutcome& outcome : governor.expectations) {
    expectations.push_back(
        {{"text", outcome.text}, {"found", outcome.found}, {"met", outcome.met}});
  }
  const OrderedJson json = {{"fine", governor.fine()},
                            {"simulated_ms", to_milliseconds(governor.ran)},
                            {"expectations", std::move(expectations)},
                            {"governor", to_value(governor)},
                            {"seed", to_value(seed)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace afterimage
