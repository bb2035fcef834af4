// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string readable(Duration d) {
  const double ms = to_milliseconds(d);
  if (ms >= 10'000) return fmt::format("{:.1f} s", ms / 1000);
  return ms >= 100 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} ms", ms);
}

std::string saved(Duration cold, Duration warm) {
  if (cold.count() <= 0) return "";
  const double part = 1 - static_cast<double>(warm.count()) / static_cast<double>(cold.count());
  return fmt::format("{:.0f} %", part * 100);
}

using Rows = std::vector<std::vector<std::string>>;

void time_row(Rows& rows, std::string what, const RunReport& report,
              const std::function<Duration(const PassReport&)>& measure) {
  const Duration cold = measure(report.cold);
  const Duration warm = measure(report.warm);
  rows.push_back({std::move(what), readable(cold), readable(measure(report.encode_once)),
                  readable(warm), saved(cold, warm)});
}

void count_row(Rows& rows, std::string what, std::uint64_t cold, std::uint64_t encode_once,
               std::uint64_t warm) {
  rows.push_back({std::move(what), std::to_string(cold), std::to_string(encode_once),
                  std::to_string(warm), saved(Duration(cold), Duration(warm))});
}
void count_row(Rows& rows, std::string what, const RunReport& report,
               std::uint64_t PassReport::* measure) {
  count_row(rows, std::move(what), report.cold.*measure, report.encode_once.*measure,
            report.warm.*measure);
}

std::string most_shared(const RunReport& report) {
  if (report.most_shared.empty()) return "";
  return fmt::format(" · most shared: {}, by {}", report.most_shared,
                     plural(report.most_shared_by, "agent"));
}

void add_problems(std::string& out, const RunReport& report) {
  for (const RejectedLine& line : report.rejected) {
    out += fmt::format("line {} was not run: {}\n", line.number, to_string(line.error));
  }
  for (const FailedRequest& failed : report.failed) {
    out += fmt::format("request {} failed{}: {}\n", failed.id,
                       failed.in_all_runs ? "" : " in some of the passes only", failed.error);
  }
  for (const RequestReport& request : report.requests) {
    if (!request.identical) out += fmt::format("request {} differs with reuse\n", request.id);
  }
}

void add_savings(std::string& out, const RunReport& report) {
  out += fmt::format("{} by {}: {}, {} of them distinct · engine {}\n\n",
                     plural(report.requests.size(), "request"), plural(report.agents, "agent"),
                     plural(report.media_items, "media item"), report.distinct_media,
                     report.engine_name);
  for (const auto& cells : savings_rows(report)) {
    out += fmt::format("{:<26}{:>14}{:>14}{:>16}{:>9}\n", cells[0], cells[1], cells[2], cells[3],
                       cells[4]);
  }
}

void add_remote(std::string& out, const RunReport& report) {
  if (!report.remote_after.has_value()) return;
  const TierStats& before = *report.remote_before;
  const TierStats& after = *report.remote_after;
  const EncoderArchiveStats& encoder = report.reuse.encoder_archive;
  out += fmt::format("remote: {} hit, {} missed; {} sent; loaded {} and KV of {}\n",
                     plural(after.hits - before.hits, "entry", "entries"),
                     after.misses - before.misses,
                     plural(after.puts - before.puts, "entry", "entries"),
                     plural(encoder.loaded, "encoder output"),
                     plural(report.reuse.prefix_archive.tokens_loaded, "token"));
  if (after.refused > before.refused) {
    out += fmt::format("remote: {} rejected\n",
                       plural(after.refused - before.refused, "entry", "entries"));
  }
  if (after.failures > before.failures) {
    out += fmt::format("remote: {} calls failed; computed instead\n",
                       after.failures - before.failures);
  }
  if (!after.degraded_reason.empty()) out += fmt::format("remote: {}\n", after.degraded_reason);
}

void add_gpu(std::string& out, const RunReport& report) {
  if (!report.gpu_after.has_value()) return;
  const TierStats& gpu = *report.gpu_after;
  out += fmt::format("GPU memory: {} hit, {} missed; {} put, {} evicted; {} of {} taken\n",
                     plural(gpu.hits, "entry", "entries"), gpu.misses, gpu.puts, gpu.evicted,
                     readable(gpu.used), readable(gpu.capacity));
  if (!gpu.degraded_reason.empty()) out += fmt::format("GPU memory: {}\n", gpu.degraded_reason);
}

void add_disk(std::string& out, const RunReport& report) {
  if (!report.disk_after.has_value()) return;
  const TierStats& before = *report.disk_before;
  const TierStats& after = *report.disk_after;
  const EncoderArchiveStats& encoder = report.reuse.encoder_archive;
  const PrefixArchiveStats& prefix = report.reuse.prefix_archive;
  out +=
      fmt::format("disk: {} at start, {}; loaded {} and KV of {}; wrote {}; now {} of {}\n",
                  plural(before.entries.value(), "entry", "entries"), readable(before.used),
                  plural(encoder.loaded, "encoder output"), plural(prefix.tokens_loaded, "token"),
                  plural(encoder.kept + prefix.kept, "entry", "entries"), readable(after.used),
                  readable(after.capacity));
  if (encoder.declined + prefix.declined > 0) {
    out += fmt::format(
        "disk: {} and KV of {} recomputed, which was expected to be faster than loading\n",
        plural(encoder.declined, "encoder output"), plural(prefix.tokens_declined, "token"));
  }
  if (encoder.unwritten + prefix.unwritten > 0) {
    out += fmt::format(
        "disk: {} and KV of {} not written, because almost none of the last was asked for again\n",
        plural(encoder.unwritten, "encoder output"), plural(prefix.unwritten, "prompt"));
  }
  const std::uint64_t lost = encoder.refused + prefix.refused;
  if (lost > 0) out += fmt::format("disk: {} rejected\n", plural(lost, "entry", "entries"));
  const std::uint64_t failed = encoder.failed + prefix.failed;
  if (failed > 0) {
    const std::uint64_t no_memory = encoder.no_memory + prefix.no_memory;
    out += fmt::format("disk: {} loads failed{}; computed instead\n", failed,
                       no_memory == 0
                           ? ""
                           : fmt::format(", {} for lack of memory (raise --budget)",
                                         no_memory == failed ? "all" : std::to_string(no_memory)));
  }
  if (!after.degraded_reason.empty()) out += fmt::format("disk: {}\n", after.degraded_reason);
}

/// Entries that were not cached, for any reason.
std::uint64_t refused_total(const ReuseStats& stats) {
  return stats.encodes.uncached + stats.prefix.refused + stats.prefix.blocked;
}

std::string governed(const ReuseStats& stats) {
  if (!stats.governed.has_value()) return "";
  const PressureControllerStats& controller = *stats.governed;
  return fmt::format(
      "governor: {} of {}, read {} · peak {} cached, lowest budget {}, {} released, "
      "{}{} refused\n",
      controller.gauge, readable(controller.memory), plural(controller.ticks, "time"),
      readable(stats.peak), readable(controller.lowest_budget), readable(controller.given_back),
      controller.idle > 0_B ? readable(controller.idle) + " idle, " : "", refused_total(stats));
}

/// What the tenants hold of the memory.
std::string shared(const ReuseStats& stats) {
  if (stats.shares.empty()) return "";
  std::string out = "memory of tenants:";
  for (const TenantMemory& tenant : stats.shares) {
    out += fmt::format(" {} {} of {} ·", tenant.tenant.empty() ? "all others" : tenant.tenant,
                       readable(tenant.used), readable(tenant.share));
  }
  out.resize(out.size() - std::string_view(" ·").size());
  return out + "\n";
}

void add_outcome(std::string& out, const RunReport& report) {
  const auto same = static_cast<std::uint64_t>(
      std::ranges::count(report.requests, true, &RequestReport::identical));
  out += fmt::format(
      "\noutputs identical: {}  ({} of {}: every token and every logit, bit for bit)\n",
      report.outputs_identical() ? "yes" : "NO", same, plural(report.requests.size(), "request"));
  out += fmt::format("cached: {} and KV of {}, {} of {}{}\n",
                     plural(report.reuse.encoder.entries.value(), "encoder output"),
                     plural(report.reuse.prefix.tokens, "token"), readable(report.reuse.used),
                     readable(report.reuse.budget), most_shared(report));
  add_disk(out, report);
  add_gpu(out, report);
  add_remote(out, report);
  out += governed(report.reuse) + shared(report.reuse);
  if (report.restore_failures > 0) {
    out += fmt::format(
        "cached KV could not be restored for {}: the engine rejected it and computed the prompt\n",
        plural(report.restore_failures, "request"));
  }
  if (report.uncached == 0) return;
  out += fmt::format(
      "served uncached {}: larger than the budget of {}, or no space beside entries in use\n",
      plural(report.uncached, "time"), readable(report.reuse.budget));
}

OrderedJson pass_json(const PassReport& pass) {
  return {{"p50", to_milliseconds(pass.ttft_percentile(50))},
          {"p99", to_milliseconds(pass.ttft_percentile(99))}};
}

OrderedJson in_each_run(const RunReport& report, std::uint64_t PassReport::* measure) {
  return {{"cold", report.cold.*measure},
          {"encode_once", report.encode_once.*measure},
          {"warm", report.warm.*measure}};
}

OrderedJson request_json(const RequestReport& request) {
  OrderedJson media = OrderedJson::array();
  for (const MediaReport& item : request.media) {
    media.push_back({{"name", item.name},
                     {"modality", to_string(item.modality)},
                     {"sha256", item.content.hex()},
                     {"source", to_string(item.source)}});
  }
  return {{"id", request.id},
          {"agent", request.agent},
          {"prompt_tokens", request.prompt_tokens.value()},
          {"resumed_from", request.resumed_from.value()},
          {"ttft_ms",
           {{"cold", to_milliseconds(request.cold_ttft)},
            {"warm", to_milliseconds(request.warm_ttft)}}},
          {"identical", request.identical},
          {"text", request.text},
          {"expected", request.expected.empty() ? OrderedJson() : OrderedJson(request.expected)},
          {"media", std::move(media)}};
}

OrderedJson problems_json(const RunReport& report) {
  OrderedJson problems = OrderedJson::array();
  for (const RejectedLine& line : report.rejected) {
    problems.push_back({{"line", line.number}, {"error", to_string(line.error)}});
  }
  for (const FailedRequest& failed : report.failed) {
    problems.push_back(
        {{"id", failed.id}, {"error", failed.error}, {"in_all_runs", failed.in_all_runs}});
  }
  return problems;
}

OrderedJson gpu_json(const RunReport& report) {
  if (!report.gpu_after.has_value()) return nullptr;
  const TierStats& gpu = *report.gpu_after;
  return {{"hits", gpu.hits},
          {"misses", gpu.misses},
          {"puts", gpu.puts},
          {"evicted", gpu.evicted},
          {"damaged", gpu.damaged},
          {"failures", gpu.failures},
          {"used_bytes", gpu.used.value()},
          {"capacity_bytes", gpu.capacity.value()}};
}

OrderedJson remote_json(const RunReport& report) {
  if (!report.remote_after.has_value()) return nullptr;
  const TierStats& before = *report.remote_before;
  const TierStats& after = *report.remote_after;
  return {{"hits", after.hits - before.hits},
          {"misses", after.misses - before.misses},
          {"puts", after.puts - before.puts},
          {"refused", after.refused - before.refused},
          {"failures", after.failures - before.failures},
          {"damaged", after.damaged - before.damaged},
          {"encoder_outputs_loaded", report.reuse.encoder_archive.loaded},
          {"tokens_loaded", report.reuse.prefix_archive.tokens_loaded},
          {"degraded_reason", after.degraded_reason}};
}

OrderedJson disk_json(const RunReport& report) {
  if (!report.disk_after.has_value()) return nullptr;
  const TierStats& before = *report.disk_before;
  const TierStats& after = *report.disk_after;
  const EncoderArchiveStats& encoder = report.reuse.encoder_archive;
  const PrefixArchiveStats& prefix = report.reuse.prefix_archive;
  return {{"entries_before", before.entries.value()},
          {"bytes_before", before.used.value()},
          {"entries", after.entries.value()},
          {"bytes", after.used.value()},
          {"capacity_bytes", after.capacity.value()},
          {"encoder_outputs_loaded", encoder.loaded},
          {"encoder_outputs_kept", encoder.kept},
          {"prompts_promoted", prefix.promoted},
          {"tokens_loaded", prefix.tokens_loaded},
          {"kv_entries_kept", prefix.kept},
          {"encoder_outputs_declined", encoder.declined},
          {"tokens_declined", prefix.tokens_declined},
          {"encoder_outputs_unwritten", encoder.unwritten},
          {"prompts_unwritten", prefix.unwritten},
          {"refused", encoder.refused + prefix.refused},
          {"failed", encoder.failed + prefix.failed},
          {"failed_for_memory", encoder.no_memory + prefix.no_memory},
          {"damaged", after.damaged},
          {"degraded_reason", after.degraded_reason}};
}

OrderedJson governor_json(const ReuseStats& stats) {
  if (!stats.governed.has_value()) return nullptr;
  const PressureControllerStats& controller = *stats.governed;
  OrderedJson releases = OrderedJson::array();
  for (const MemoryRelease& release : controller.releases) {
    releases.push_back({{"at_ms", to_milliseconds(release.at)},
                        {"took_ms", to_milliseconds(release.took)},
                        {"bytes", release.bytes.value()},
                        {"left_bytes", release.left.value()},
                        {"budget_bytes", release.budget.value()}});
  }
  return {{"gauge", controller.gauge},
          {"memory_bytes", controller.memory.value()},
          {"ticks", controller.ticks},
          {"failed_readings", controller.failed_readings},
          {"mode", to_string(controller.mode)},
          {"transitions", controller.transitions},
          {"peak_bytes", stats.peak.value()},
          {"lowest_budget_bytes", controller.lowest_budget.value()},
          {"given_back_bytes", controller.given_back.value()},
          {"idle_bytes", controller.idle.value()},
          {"refused", refused_total(stats)},
          {"longest_tick_ms", to_milliseconds(controller.longest_tick)},
          {"releases", std::move(releases)}};
}

OrderedJson cache_json(const ReuseStats& stats) {
  OrderedJson seed_names;
  for (const auto& [name, value] : seed_named_stats(stats.encoder)) seed_names[name] = value;
  return {{"budget_bytes", stats.budget.value()},
          {"used_bytes", stats.used.value()},
          {"peak_bytes", stats.peak.value()},
          {"entries", stats.encoder.entries.value()},
          {"hits", stats.encoder.hits},
          {"misses", stats.encoder.misses},
          {"evictions", stats.encoder.evictions},
          {"uncached", stats.encodes.uncached},
          {"corrupt", stats.encodes.corrupt},
          {"bytes_reused", stats.encoder.bytes_reused.value()},
          {"encode_ms_saved", to_milliseconds(stats.encoder.encode_time_saved)},
          {"seed_names", std::move(seed_names)}};
}

}  // namespace

std::vector<std::vector<std::string>> savings_rows(const RunReport& report) {
  Rows rows = {{"", "without reuse", "encode once", "+ prefill once", "saved"}};
  count_row(rows, "encoder calls", report, &PassReport::encoder_calls);
  if (report.encode_once.parts > 0) {
    // Without reuse, all that are needed.
    count_row(rows, "parts of media encoded", report.encode_once.parts,
              report.encode_once.encoded_parts, report.warm.encoded_parts);
  }
  count_row(rows, "prompt tokens computed", report, &PassReport::prefilled);
  if (report.judged > 0) {
    const auto share = [&](const PassReport& pass) {
      return fmt::format("{} of {}", pass.right, report.judged);
    };
    rows.push_back(
        {"answers right", share(report.cold), share(report.encode_once), share(report.warm), ""});
  }
  time_row(rows, "time in the encoder", report, [](const PassReport& p) { return p.encoding; });
  time_row(rows, "time to first token, p50", report,
           [](const PassReport& p) { return p.ttft_percentile(50); });
  time_row(rows, "                     p99", report,
           [](const PassReport& p) { return p.ttft_percentile(99); });
  time_row(rows, "whole workload", report, [](const PassReport& p) { return p.total; });
  return rows;
}

std::string to_table(const RunReport& report) {
  std::string out;
  if (report.requests.empty()) {
    out = "nothing was answered, so nothing was compared\n";
  } else {
    add_savings(out, report);
    add_outcome(out, report);
  }
  add_problems(out, report);
  return out;
}

std::string to_json(const RunReport& report) {
  OrderedJson requests = OrderedJson::array();
  for (const RequestReport& request : report.requests) requests.push_back(request_json(request));
  const OrderedJson json = {{"requests", report.requests.size()},
                            {"media_items", report.media_items},
                            {"distinct_media", report.distinct_media},
                            {"encoder_calls", in_each_run(report, &PassReport::encoder_calls)},
                            {"media_parts",
                             {{"needed", report.encode_once.parts},
                              {"encode_once", report.encode_once.encoded_parts},
                              {"warm", report.warm.encoded_parts}}},
                            {"prompt_tokens_computed", in_each_run(report, &PassReport::prefilled)},
                            {"answers_judged", report.judged},
                            {"answers_right", in_each_run(report, &PassReport::right)},
                            {"prefix_tokens_reused", report.reuse.prefix.tokens_reused},
                            {"restore_failures", report.restore_failures},
                            {"outputs_identical", report.outputs_identical()},
                            {"ttft_ms",
                             {{"cold", pass_json(report.cold)},
                              {"encode_once", pass_json(report.encode_once)},
                              {"warm", pass_json(report.warm)}}},
                            {"encoding_ms",
                             {{"cold", to_milliseconds(report.cold.encoding)},
                              {"encode_once", to_milliseconds(report.encode_once.encoding)},
                              {"warm", to_milliseconds(report.warm.encoding)}}},
                            {"total_ms",
                             {{"cold", to_milliseconds(report.cold.total)},
                              {"warm", to_milliseconds(report.warm.total)}}},
                            {"engine",
                             {{"name", report.engine_name},
                              {"model", report.engine.model},
                              {"weights_epoch", report.engine.weights_epoch},
                              {"encoder", report.engine.encoder}}},
                            {"agents", report.agents},
                            {"cache", cache_json(report.reuse)},
                            {"gpu", gpu_json(report)},
                            {"disk", disk_json(report)},
                            {"remote", remote_json(report)},
                            {"governor", governor_json(report.reuse)},
                            {"problems", problems_json(report)},
                            {"per_request", std::move(requests)}};
  // A model's text may contain any bytes; invalid UTF-8 is replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace afterimage
