// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Measure = double ReplayResult::*;

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string duration_text(Duration span) {
  const double minutes = to_milliseconds(span) / 60'000;
  if (minutes >= 120) return fmt::format("{:.1f} h", minutes / 60);
  if (minutes >= 2) return fmt::format("{:.0f} min", minutes);
  return fmt::format("{:.1f} s", minutes * 60);
}

std::string percent(double ratio) { return fmt::format("{:.1f}", 100 * ratio); }

std::vector<std::string> distinct(std::span<const ReplayResult> results,
                                  std::string ReplayResult::* field) {
  std::vector<std::string> found;
  for (const ReplayResult& result : results) {
    if (std::ranges::find(found, result.*field) == found.end()) found.push_back(result.*field);
  }
  return found;
}

/// Whether no other policy, except the bounds, is better at this capacity.
bool is_best(std::span<const ReplayResult> results, const ReplayResult& result, Measure measure) {
  return !is_bound(result) && std::ranges::none_of(results, [&](const ReplayResult& other) {
    return !is_bound(other) && other.capacity == result.capacity &&
           other.*measure > result.*measure;
  });
}

std::string gap_text(const ReplayReport& report, const ReplayResult& result, Measure measure) {
  if (is_bound(result) || result.policy == "lru") return "";
  const auto gap = report.gap_closed(result, measure);
  return gap ? fmt::format("{:+.0f} %", 100 * *gap) : "";
}

/// One line per policy, one column per capacity; `cell` returns 16 characters.
template <typename Cell>
void add_table(std::string& out, const ReplayReport& report, std::string_view title,
               const Cell& cell) {
  const auto capacities = report.capacities();
  const auto end_line = [&out] {
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  };
  out += fmt::format("\n{:<15}", title);
  for (const std::string& capacity : capacities) out += fmt::format("{:>8}{:8}", capacity, "");
  end_line();
  for (const std::string& policy : report.policies()) {
    out += fmt::format("{:<15}", policy);
    for (const std::string& capacity : capacities) {
      const ReplayResult* result = report.find(policy, capacity);
      out += result == nullptr ? std::string(16, ' ') : cell(*result);
    }
    end_line();
  }
}

void add_ratio_table(std::string& out, const ReplayReport& report, std::string_view title,
                     Measure measure) {
  add_table(out, report, title, [&](const ReplayResult& result) {
    return fmt::format("{:>8}{:1}{:>7}", percent(result.*measure),
                       is_best(report.results, result, measure) ? "*" : "",
                       gap_text(report, result, measure));
  });
}

OrderedJson trace_json(const ReplayReport& report) {
  OrderedJson rejected = OrderedJson::array();
  for (const RejectedLine& line : report.rejected) {
    rejected.push_back({{"line", line.number}, {"error", to_string(line.error)}});
  }
  return {{"trace", report.name},
          {"requests", report.requests},
          {"input_tokens", report.input_tokens},
          {"distinct_blocks", report.distinct_blocks},
          {"block_tokens", report.block_tokens},
          {"sessions", report.sessions},
          {"media", report.media},
          {"distinct_media", report.items},
          {"seconds", to_milliseconds(report.span) / 1000},
          {"warm_up", report.options.warm_up},
          {"hint_error",
           report.options.hint_error ? OrderedJson(*report.options.hint_error) : OrderedJson()},
          {"rejected", std::move(rejected)}};
}

OrderedJson result_json(const ReplayReport& report, const ReplayResult& result) {
  const auto gap = report.gap_closed(result, &ReplayResult::token_hit_ratio);
  return {{"trace", report.name},
          {"policy", result.policy},
          {"capacity", result.capacity},
          {"capacity_blocks", result.capacity_blocks},
          {"token_hit_ratio", result.token_hit_ratio},
          {"compute_saved_ratio", result.compute_saved_ratio},
          {"gap_closed", gap ? OrderedJson(*gap) : OrderedJson()},
          {"seconds_saved", result.seconds_saved},
          {"block_hits", result.hits},
          {"block_misses", result.misses},
          {"evictions", result.evictions},
          {"bytes_moved",
           {{"read", result.bytes_read.value()}, {"written", result.bytes_written.value()}}},
          {"below", report.options.below.blocks == 0
                        ? OrderedJson()
                        : OrderedJson({{"capacity", report.options.below.name},
                                       {"capacity_blocks", report.options.below.blocks},
                                       {"block_hits", result.below_hits},
                                       {"read", result.below_read.value()},
                                       {"written", result.below_written.value()}})},
          {"media_reused_ratio", report.media_reused(result)},
          {"item_hits", result.item_hits},
          {"item_misses", result.item_misses},
          {"replay_ms", to_milliseconds(result.wall)}};
}

}  // namespace

bool is_bound(const ReplayResult& result) {
  return result.policy == "min" || result.policy == "infinite";
}

ReplayReport::ReplayReport(std::string trace_name, const Trace& trace, ReplayOptions with,
                           std::vector<ReplayResult> found)
    : name(std::move(trace_name)),
      requests(trace.requests.size()),
      sessions(trace.sessions),
      items(trace.items.size()),
      distinct_blocks(trace.distinct_blocks),
      block_tokens(trace.block_tokens),
      rejected(trace.rejected),
      options(std::move(with)),
      results(std::move(found)) {
  const auto warm = static_cast<std::size_t>(options.warm_up * static_cast<double>(requests));
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    input_tokens += trace.requests[i].input_tokens;
    media += trace.requests[i].media.size();
    if (i >= warm) counted_media += trace.requests[i].media.size();
  }
  if (!trace.requests.empty()) span = trace.requests.back().at - trace.requests.front().at;
}

std::vector<std::string> ReplayReport::policies() const {
  return distinct(results, &ReplayResult::policy);
}

std::vector<std::string> ReplayReport::capacities() const {
  return distinct(results, &ReplayResult::capacity);
}

const ReplayResult* ReplayReport::find(std::string_view policy, std::string_view capacity) const {
  for (const ReplayResult& result : results) {
    if (result.policy == policy && result.capacity == capacity) return &result;
  }
  return nullptr;
}

std::optional<double> ReplayReport::gap_closed(const ReplayResult& result, Measure measure) const {
  const ReplayResult* lru = find("lru", result.capacity);
  const ReplayResult* min = find("min", result.capacity);
  // A gap below 0.05 % is treated as empty.
  constexpr double kNothing = 0.0005;
  if (lru == nullptr || min == nullptr || min->*measure - lru->*measure < kNothing) {
    return std::nullopt;
  }
  return (result.*measure - lru->*measure) / (min->*measure - lru->*measure);
}

double ReplayReport::media_reused(const ReplayResult& result) const {
  if (counted_media == 0) return 0;
  return 1 - static_cast<double>(result.item_misses) / static_cast<double>(counted_media);
}

std::string ReplayReport::description() const {
  std::string text = fmt::format("{} requests in {} · {} input tokens · {} distinct blocks of {}",
                                 grouped(requests), duration_text(span), grouped(input_tokens),
                                 grouped(distinct_blocks), block_tokens);
  if (sessions > 0) text += fmt::format(" · {} sessions", grouped(sessions));
  if (media > 0) {
    text += fmt::format(" · {} media items, {} distinct", grouped(media), grouped(items));
  }
  if (options.warm_up > 0) {
    text += fmt::format("\nthe first {:.0f} % of the requests are warm-up and not counted",
                        100 * options.warm_up);
  }
  if (options.below.blocks > 0) {
    text += fmt::format("\nbelow each cache a tier of {} blocks ({}), first in, first out",
                        grouped(options.below.blocks), options.below.name);
  }
  if (options.hint_error) {
    text += fmt::format("\none hint per request (goes on / ends), wrong {:.0f} % of the time",
                        100 * *options.hint_error);
  }
  return text;
}

std::string to_table(const ReplayReport& report) {
  std::string out = fmt::format("{}\n{}\n", report.name, report.description());
  add_ratio_table(out, report, "token hits %", &ReplayResult::token_hit_ratio);
  add_ratio_table(out, report, "compute saved %", &ReplayResult::compute_saved_ratio);
  if (report.options.below.blocks > 0) {
    add_table(out, report, "tier reads", [](const ReplayResult& result) {
      return fmt::format("{:>8}{:8}", readable(result.below_read), "");
    });
    add_table(out, report, "tier writes", [](const ReplayResult& result) {
      return fmt::format("{:>8}{:8}", readable(result.below_written), "");
    });
  }
  if (report.media > 0) {
    add_table(out, report, "media reused %", [&report](const ReplayResult& result) {
      return fmt::format("{:>8}{:8}", percent(report.media_reused(result)), "");
    });
  }
  out +=
      "\nsizes in % of the distinct blocks · * best policy · +n %: share of the gap from lru to "
      "min "
      "closed\n";
  for (const RejectedLine& line : report.rejected) {
    out += fmt::format("line {} was not replayed: {}\n", line.number, line.error.message);
  }
  return out;
}

std::string to_json(std::span<const ReplayReport> reports) {
  OrderedJson json = {{"traces", OrderedJson::array()}, {"results", OrderedJson::array()}};
  for (const ReplayReport& report : reports) {
    json["traces"].push_back(trace_json(report));
    for (const ReplayResult& result : report.results) {
      json["results"].push_back(result_json(report, result));
    }
  }
  // A file name may contain any bytes; invalid UTF-8 is replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace afterimage
