// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/simulation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string grouped(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string duration_text(double s) {
  if (s >= 7200) return fmt::format("{:.1f} h", s / 3600);
  if (s >= 120) return fmt::format("{:.0f} min", s / 60);
  if (s >= 1) return fmt::format("{:.1f} s", s);
  return fmt::format("{:.1f} ms", 1e3 * s);
}

std::string part(std::uint64_t n, std::uint64_t of) {
  return of == 0
             ? ""
             : fmt::format("{:.1f} %", 100.0 * static_cast<double>(n) / static_cast<double>(of));
}
std::string part(double share) { return fmt::format("{:.1f} %", 100 * share); }

using Cell = std::function<std::string(const SimulatedCluster&)>;
struct Row {
  std::string name;
  Cell cell;  // none: a heading
};

std::vector<Row> image_rows() {
  const auto of = [](std::uint64_t ImageCounts::* count) {
    return [count](const SimulatedCluster& c) {
      const ImageCounts& images = c.result.images;
      return part(images.*count, images.lookups + images.covered);
    };
  };
  return {{"images requested",
           [](const SimulatedCluster& c) {
             return grouped(c.result.images.lookups + c.result.images.covered);
           }},
          {"  covered by a cached prefix", of(&ImageCounts::covered)},
          {"  in memory", of(&ImageCounts::memory)},
          {"  coalesced on the node", of(&ImageCounts::awaited)},
          {"  on disk", of(&ImageCounts::disk)},
          {"  remote", of(&ImageCounts::remote)},
          {"  encoded", of(&ImageCounts::computed)},
          {"    faster than loading", of(&ImageCounts::declined)}};
}

std::vector<Row> kv_rows() {
  const auto of = [](std::uint64_t KvCounts::* count) {
    return
        [count](const SimulatedCluster& c) { return part(c.result.kv.*count, c.result.kv.input); };
  };
  return {{"prompt tokens", [](const SimulatedCluster& c) { return grouped(c.result.kv.input); }},
          {"  in memory", of(&KvCounts::memory)},
          {"  on disk", of(&KvCounts::disk)},
          {"  remote", of(&KvCounts::remote)},
          {"  prefilled", of(&KvCounts::computed)},
          {"    faster than loading", of(&KvCounts::declined)}};
}

std::vector<Row> time_rows() {
  const auto quantile = [](double share) {
    return [share](const SimulatedCluster& c) {
      return duration_text(in_seconds(c.result.first_token.quantile(share)));
    };
  };
  return {{"time to first token, p50", quantile(0.5)},
          {"                     p99", quantile(0.99)},
          {"                     p99.9", quantile(0.999)},
          {"engines busy", [](const SimulatedCluster& c) { return part(c.result.engines_busy); }},
          {"compute spent",
           [](const SimulatedCluster& c) { return duration_text(c.result.compute_seconds); }},
          {"compute saved",
           [](const SimulatedCluster& c) { return duration_text(c.result.compute_seconds_saved); }},
          {"  share saved", [](const SimulatedCluster& c) {
             const SimulationResult& r = c.result;
             const double all = r.compute_seconds + r.compute_seconds_saved;
             return all > 0 ? part(r.compute_seconds_saved / all) : "";
           }}};
}

std::vector<Row> byte_rows() {
  const auto moved = [](Bytes ByteCounts::* bytes) {
    return [bytes](const SimulatedCluster& c) { return readable(c.result.bytes.*bytes); };
  };
  return {{"from shards to nodes", moved(&ByteCounts::into_nodes)},
          {"from nodes to shards", moved(&ByteCounts::into_shards)},
          {"busiest shard's link",
           [](const SimulatedCluster& c) { return part(c.result.busiest_shard_link); }},
          {"busiest node's link",
           [](const SimulatedCluster& c) { return part(c.result.busiest_node_link); }},
          {"read from disks", moved(&ByteCounts::disk_read)},
          {"written to disks", moved(&ByteCounts::disk_written)},
          {"peak memory of a node",
           [](const SimulatedCluster& c) { return readable(c.result.node_memory); }},
          {"peak disk use of a node",
           [](const SimulatedCluster& c) { return readable(c.result.node_disk); }},
          {"peak memory of a shard",
           [](const SimulatedCluster& c) { return readable(c.result.shard_memory); }}};
}

std::vector<Row> disturbance_rows(const SimulationReport& report) {
  const auto any = [&](auto&& is) { return std::ranges::any_of(report.clusters, is); };
  std::vector<Row> rows;
  if (any([](const SimulatedCluster& c) { return c.result.lost_at.has_value(); })) {
    rows.push_back({"entries in the lost shard", [](const SimulatedCluster& c) {
                      return fmt::format("{} of {}", grouped(c.result.lost_entries),
                                         grouped(c.result.remote_entries_then));
                    }});
    rows.push_back({"recovered after", [](const SimulatedCluster& c) {
                      return c.result.recovered_after.has_value()
                                 ? duration_text(in_seconds(*c.result.recovered_after))
                                 : "not in this run";
                    }});
  }
  if (!any([](const SimulatedCluster& c) { return c.undisturbed.has_value(); })) return rows;
  rows.push_back({"images saved before, at worst", [](const SimulatedCluster& c) {
                    const Disturbance cost = disturbance(c);
                    return fmt::format("{}, {}", part(cost.images_saved_before),
                                       part(cost.images_saved_worst));
                  }});
  rows.push_back({"extra images encoded", [](const SimulatedCluster& c) {
                    return fmt::format("{:+d}", disturbance(c).images_computed);
                  }});
  rows.push_back({"extra compute", [](const SimulatedCluster& c) {
                    return fmt::format("{:+.1f} s", disturbance(c).compute_seconds);
                  }});
  return rows;
}

std::vector<std::pair<std::string, std::vector<Row>>> all_rows(const SimulationReport& report) {
  std::vector<std::pair<std::string, std::vector<Row>>> all = {{"images", image_rows()},
                                                               {"prompts", kv_rows()},
                                                               {"time", time_rows()},
                                                               {"bytes", byte_rows()}};
  if (auto rows = disturbance_rows(report); !rows.empty()) {
    all.emplace_back("the shard", std::move(rows));
  }
  return all;
}

OrderedJson result_json(const SimulationResult& r) {
  OrderedJson json = {{"nodes", r.options.nodes},
                      {"shards", r.options.remote.shards},
                      {"policy", r.options.node.policy},
                      {"routing", to_string(r.options.routing)},
                      {"requests", r.requests},
                      {"seconds", in_seconds(r.span)},
                      {"images",
                       {{"asked", r.images.lookups + r.images.covered},
                        {"covered", r.images.covered},
                        {"memory", r.images.memory},
                        {"awaited", r.images.awaited},
                        {"disk", r.images.disk},
                        {"remote", r.images.remote},
                        {"encoded", r.images.computed},
                        {"declined", r.images.declined}}},
                      {"tokens",
                       {{"input", r.kv.input},
                        {"memory", r.kv.memory},
                        {"disk", r.kv.disk},
                        {"remote", r.kv.remote},
                        {"prefilled", r.kv.computed},
                        {"declined", r.kv.declined}}},
                      {"first_token_ms",
                       {{"mean", to_milliseconds(r.first_token.mean())},
                        {"p50", to_milliseconds(r.first_token.quantile(0.5))},
                        {"p99", to_milliseconds(r.first_token.quantile(0.99))},
                        {"p99_9", to_milliseconds(r.first_token.quantile(0.999))}}},
                      {"compute_seconds", r.compute_seconds},
                      {"compute_seconds_saved", r.compute_seconds_saved},
                      {"engines_busy", r.engines_busy},
                      {"bytes",
                       {{"shards_to_nodes", r.bytes.into_nodes.value()},
                        {"nodes_to_shards", r.bytes.into_shards.value()},
                        {"disk_read", r.bytes.disk_read.value()},
                        {"disk_written", r.bytes.disk_written.value()}}},
                      {"busiest",
                       {{"shard_link", r.busiest_shard_link},
                        {"node_link", r.busiest_node_link},
                        {"disk", r.busiest_disk}}},
                      {"peak_bytes",
                       {{"node_memory", r.node_memory.value()},
                        {"node_disk", r.node_disk.value()},
                        {"shard_memory", r.shard_memory.value()}}}};
  if (r.lost_at.has_value()) {
    json["lost_shard"] = {
        {"at_seconds", in_seconds(*r.lost_at)},
        {"entries", r.lost_entries},
        {"bytes", r.lost_bytes.value()},
        {"remote_entries", r.remote_entries_then},
        {"recovered_after_seconds",
         r.recovered_after ? OrderedJson(in_seconds(*r.recovered_after)) : OrderedJson()}};
  }
  return json;
}

}  // namespace

Disturbance disturbance(const SimulatedCluster& cluster) {
  Disturbance cost;
  if (!cluster.undisturbed.has_value()) return cost;
  const SimulationResult& with = cluster.result;
  const SimulationResult& without = *cluster.undisturbed;
  cost.images_computed = static_cast<std::int64_t>(with.images.computed) -
                         static_cast<std::int64_t>(without.images.computed);
  cost.compute_seconds = with.compute_seconds - without.compute_seconds;
  // The event happened in the first window in which the two runs differ.
  std::size_t first_difference = 0;
  while (first_difference < with.windows.size() &&
         with.windows[first_difference].images_saved ==
             without.windows[first_difference].images_saved) {
    ++first_difference;
  }
  cost.images_saved_worst = 1;
  for (std::size_t i = first_difference; i < with.windows.size(); ++i) {
    cost.images_saved_worst = std::min(cost.images_saved_worst, with.windows[i].saved_share());
  }
  if (first_difference > 0 && first_difference < with.windows.size()) {
    cost.images_saved_before = with.windows[first_difference - 1].saved_share();
  }
  return cost;
}

std::vector<std::vector<std::string>> report_rows(const SimulationReport& report) {
  std::vector<std::vector<std::string>> all;
  for (const auto& [heading, rows] : all_rows(report)) {
    for (const Row& row : rows) {
      // HTML does not show leading spaces, so dots mark the depth.
      const std::size_t deep = std::min(row.name.find_first_not_of(' '), row.name.size());
      std::string name;
      for (std::size_t i = 0; i < std::min<std::size_t>(deep, 6); i += 2) name += "· ";
      all.push_back({deep > 6 ? "· " + row.name.substr(deep) : name + row.name.substr(deep)});
      for (const SimulatedCluster& cluster : report.clusters)
        all.back().push_back(row.cell(cluster));
    }
  }
  return all;
}

std::string to_table(const SimulationReport& report) {
  std::size_t width = 12;
  for (const SimulatedCluster& c : report.clusters) width = std::max(width, c.name.size());
  std::string out = report.traffic + "\n";
  const auto line = [&](const std::string& name, const Cell& cell) {
    std::string text = fmt::format("{:<31}", name);
    for (const SimulatedCluster& c : report.clusters) {
      text += fmt::format("  {:>{}}", cell(c), width);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  out += "\n";
  line("", [](const SimulatedCluster& c) { return c.name; });
  for (const auto& [heading, rows] : all_rows(report)) {
    for (const Row& row : rows) line(row.name, row.cell);
    out += "\n";
  }
  out += "Assumptions:\n";
  std::vector<std::string> lines = report.assumptions;
  if (!report.clusters.empty()) {
    const auto more = assumptions(report.clusters.front().result.options);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  for (const std::string& text : lines) out += "- " + text + "\n";
  return out;
}

std::string to_json(const SimulationReport& report) {
  OrderedJson clusters = OrderedJson::array();
  for (const SimulatedCluster& c : report.clusters) {
    OrderedJson one = {{"name", c.name}};
    one.update(result_json(c.result));
    if (c.undisturbed.has_value()) {
      const Disturbance cost = disturbance(c);
      one["disturbance"] = {{"images_encoded", cost.images_computed},
                            {"compute_seconds", cost.compute_seconds},
                            {"saved_before", cost.images_saved_before},
                            {"saved_worst", cost.images_saved_worst}};
    }
    OrderedJson assumed = assumptions(c.result.options);
    one["assumptions"] = std::move(assumed);
    clusters.push_back(std::move(one));
  }
  const OrderedJson json = {{"traffic", report.traffic},
                            {"assumptions", report.assumptions},
                            {"clusters", std::move(clusters)}};
  return json.dump(2) + "\n";
}

}  // namespace afterimage
