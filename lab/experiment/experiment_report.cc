// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/experiment_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ranges>

namespace afterimage {
namespace {

using ReportJson = nlohmann::ordered_json;

constexpr auto kSettingColumns = std::to_array<std::string_view>({"model",
                                                                  "dataset_config",
                                                                  "split",
                                                                  "max_samples",
                                                                  "shuffle_seed",
                                                                  "chunk_source",
                                                                  "prompt_template",
                                                                  "similarity_threshold",
                                                                  "embedding_layers",
                                                                  "embedding_hook",
                                                                  "max_cached_blocks",
                                                                  "cache_dir",
                                                                  "index_encoder",
                                                                  "temperature",
                                                                  "max_tokens",
                                                                  "trust_remote_code",
                                                                  "notes",
                                                                  "tensor_parallel_size",
                                                                  "gpu_memory_utilization",
                                                                  "enable_fusion_cache",
                                                                  "fusion_cache_dir",
                                                                  "enable_semantic_text_cache",
                                                                  "preset"});
constexpr auto kLaterSettingColumns = std::to_array<std::string_view>(
    {"index_encoder_device", "enable_exact_text_cache", "cache_max_size_gb", "dataset",
     "similarity", "vetoes", "images", "engine", "chunk_window"});

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double mean_seconds(Duration sum, std::uint64_t count) {
  return count == 0 ? 0 : seconds(sum) / static_cast<double>(count);
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Untrusted text on one line: line breaks and control characters are replaced.
std::string one_line(std::string_view text, std::size_t at_most) {
  std::string line;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 0x7F;
    line += control ? ' ' : c;
  }
  if (line.size() <= at_most) return line;
  line.resize(at_most);
  while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0U) == 0x80)
    line.pop_back();
  if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0) line.pop_back();
  return line + "…";
}

std::string python(std::optional<bool> value) {
  return !value.has_value() ? "None" : *value ? "True" : "False";
}

std::string_view decision_name(Decision decision) {
  constexpr std::array<std::string_view, 4> kNames{"served", "matched", "missed", "failed"};
  return kNames[static_cast<std::size_t>(decision)];
}

const std::string& expected_answer(const Sample& sample) {
  return sample.answer.empty() ? sample.full_answer : sample.answer;
}

std::string dumped(const ReportJson& json) {
  return json.dump(-1, ' ', false, ReportJson::error_handler_t::replace);
}

ReportJson techniques_json(const SampleResult& result) {
  ReportJson all = ReportJson::object();
  for (const Technique& one : result.techniques) all[one.name] = to_string(one.status);
  return all;
}

/// Counts by source, as JSON.
ReportJson breakdown(const ExperimentTotals& totals) {
  ReportJson all = ReportJson::object();
  for (const auto& [source, count] : totals.sources) all[source] = count.count;
  return all;
}

ReportJson latencies_json(const ExperimentTotals& totals) {
  ReportJson all = ReportJson::object();
  for (const auto& [source, count] : totals.sources) {
    all[source] = mean_seconds(count.latency, count.count);
  }
  all["engine"] = mean_seconds(totals.latency_other, totals.prompts - totals.served);
  return all;
}

std::string latency_text(Duration sum, std::uint64_t count) {
  return count == 0 ? "-" : fmt::format("{:.6f}s", mean_seconds(sum, count));
}

ReportJson metadata_json(const Sample& sample) {
  ReportJson parsed = ReportJson::parse(sample.metadata, nullptr, false);
  return parsed.is_discarded() ? ReportJson::object() : parsed;
}

/// A cell of sweep_columns() as a value: empty ones are null, but for texts.
ReportJson cell_json(std::string_view column, const std::string& cell) {
  constexpr auto kTexts =
      std::to_array<std::string_view>({"timestamp",       "experiment",
                                       "model",           "dataset_config",
                                       "split",           "chunk_source",
                                       "prompt_template", "embedding_hook",
                                       "cache_dir",       "index_encoder",
                                       "notes",           "fusion_cache_dir",
                                       "preset",          "index_encoder_device",
                                       "dataset",         "similarity",
                                       "images",          "engine",
                                       "cache_mode",      "spec_hash",
                                       "data_hash",       "outcome"});
  if (std::ranges::find(kTexts, column) != kTexts.end()) return cell;
  if (column == "embedding_layers") {
    ReportJson layers = ReportJson::array();
    for (const auto layer : std::views::split(cell, ',')) {
      if (!layer.empty()) layers.push_back(std::string(layer.begin(), layer.end()));
    }
    return layers;
  }
  if (cell == "True" || cell == "False") return cell == "True";
  const ReportJson value = ReportJson::parse(cell, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? ReportJson(nullptr) : value;
}

ReportJson row_json(const CsvRow& cells) {
  const CsvRow columns = sweep_columns();
  ReportJson all = ReportJson::object();
  for (std::size_t i = 0; i < columns.size(); ++i)
    all[columns[i]] = cell_json(columns[i], cells[i]);
  return all;
}

}  // namespace

std::string start_text(std::string_view label, const KeyUse& use, const AttachedImages& images,
                       std::span<const std::string> remarks) {
  constexpr std::size_t kPreview = 60;
  std::string out = fmt::format("Loaded {} prompts from {}.\n", use.prompts, one_line(label, 400));
  out += fmt::format("Chunk-key uniqueness: {} unique keys / {} prompts ({:.1f}% reused >=2x)\n",
                     use.keys, use.prompts, 100 * share(use.repeated, use.keys));
  for (const auto& [key, count] : use.top) {
    out += fmt::format("  {:>5}x {}\n", count, one_line(key, kPreview));
  }
  out += fmt::format("Images attached: {} of {}\n", images.attached, use.prompts);
  if (images.missing > 0) {
    out += fmt::format("[warn] {} samples are asked without their image; the first: {}\n",
                       images.missing, one_line(images.first_missing, 400));
  }
  for (const std::string& remark : remarks) out += fmt::format("[info] {}\n", remark);
  return out;
}

std::string sample_line(const Sample& sample, const SampleResult& result, std::size_t of) {
  const std::string decided = result.decision == Decision::kServed    ? "hit"
                              : result.decision == Decision::kMatched ? "match"
                              : result.decision == Decision::kFailed  ? "failed"
                                                                      : "miss";
  std::string techniques;
  for (const Technique& one : result.techniques) {
    if (one.status == TechniqueStatus::kSkip) continue;
    techniques +=
        fmt::format("{}{}={}", techniques.empty() ? "" : ", ", one.name, to_string(one.status));
  }
  std::string line = fmt::format(
      "[{}] {} ({}) | latency={:.3f}s | answer match={} | {}/{} | {:.0f} us | {}",
      one_line(sample.dataset_id, 80), decided, result.source.empty() ? "none" : result.source,
      seconds(result.latency), python(result.is_correct), result.sample + 1, of,
      1e6 * seconds(result.latency), techniques.empty() ? "no look-up" : techniques);
  if (result.is_wrong) line += " | WRONG";
  if (!result.error.empty()) line += " | " + one_line(result.error, 400);
  return line + "\n";
}

std::string summary_text(const ExperimentReport& report, CacheMode mode) {
  const ExperimentTotals& all = report.totals;
  const std::uint64_t asked = all.prompts - all.served;
  std::string out = fmt::format("Total prompts: {}\n", all.prompts);
  const auto line = [&](std::string_view name, std::uint64_t count) {
    out += fmt::format("{}: {} ({:.1f}%)\n", name, count, 100 * share(count, all.prompts));
  };
  line("Cache hits", all.served);
  if (mode == CacheMode::kDryRun) line("Matched, not served (dry run)", all.matched_not_used);
  line("Cache misses", all.missed);
  if (all.failed > 0) line("Without an answer", all.failed);
  out += fmt::format(
      "Average latency: {} (hits {}, others {})\n", latency_text(all.latency, all.prompts),
      latency_text(all.latency_served, all.served), latency_text(all.latency_other, asked));
  out += fmt::format("Answer match rate: {:.1f}% (n={})\n", 100 * share(all.correct, all.judged),
                     all.judged);
  out += mode == CacheMode::kLive
             ? fmt::format("Served wrong: {} of {}\n", all.wrong_served, all.served)
             : fmt::format("Would have been wrong: {} of {}\n", all.wrong_matched,
                           all.matched_not_used);
  out += fmt::format("{} rate by cache source:\n", mode == CacheMode::kLive ? "Hit" : "Match");
  if (all.sources.empty()) out += "  none\n";
  for (const auto& [source, count] : all.sources) {
    out += fmt::format("  {}: {} ({:.1f}%), average latency {}, wrong {}\n", source, count.count,
                       100 * share(count.count, all.prompts),
                       latency_text(count.latency, count.count), count.wrong);
  }
  out += "Technique breakdown:\n";
  for (const std::string& name : all.technique_order) {
    const auto& counts = all.techniques.at(name);
    const auto of = [&](TechniqueStatus status) {
      const auto it = counts.find(status);
      return it == counts.end() ? 0 : it->second;
    };
    out += fmt::format("  {}: hit={} miss={} skip={}\n", name, of(TechniqueStatus::kHit),
                       of(TechniqueStatus::kMiss), of(TechniqueStatus::kSkip));
  }
  if (all.expected > 0) {
    out += fmt::format("Decided by the technique that the data set expects: {} of {}\n",
                       all.expected_met, all.expected);
  }
  return out;
}

std::string outputs_text(std::span<const Sample> samples, const ExperimentReport& report,
                         std::size_t limit) {
  std::string out;
  for (std::size_t i = 0; i < std::min(limit, report.samples.size()); ++i) {
    const SampleResult& result = report.samples[i];
    const Sample& sample = samples[result.sample];
    out += fmt::format("{}[{}] {}\n  key: {}\n  response: {}\n  reference: {}\n",
                       i == 0 ? "Sample outputs:\n" : "", one_line(sample.dataset_id, 80),
                       one_line(sample.question, 400), one_line(result.chunk_text, 400),
                       one_line(result.response, 400), one_line(expected_answer(sample), 400));
  }
  return out;
}

CsvRow sample_columns() {
  return {"dataset_id",   "image_id",        "question",      "prompt",          "chunk_text",
          "response",     "reference",       "is_correct",    "latency_seconds", "cache_hit",
          "cache_source", "techniques_json", "metadata_json", "decision",        "score",
          "candidate",    "is_wrong",        "image_attached"};
}

CsvRow sample_cells(const Sample& sample, const SampleResult& result) {
  return {sample.dataset_id,
          sample.image_id,
          sample.question,
          result.prompt,
          result.chunk_text,
          result.response,
          expected_answer(sample),
          result.is_correct.has_value() ? python(result.is_correct) : "",
          fmt::format("{:.9f}", seconds(result.latency)),
          python(result.decision == Decision::kServed),
          result.source,
          dumped(techniques_json(result)),
          sample.metadata,
          std::string(decision_name(result.decision)),
          fmt::format("{}", result.score),
          result.candidate,
          python(result.is_wrong),
          python(sample.content.has_value())};
}

std::string sample_json(const Sample& sample, const SampleResult& result,
                        const std::string& settings) {
  const ReportJson line{
      {"dataset_id", sample.dataset_id},
      {"image_id", sample.image_id},
      {"question", sample.question},
      {"chunk_text", result.chunk_text},
      {"prompt", result.prompt},
      {"hit", result.decision == Decision::kServed},
      {"hit_source", result.source.empty() ? ReportJson(nullptr) : ReportJson(result.source)},
      {"latency", seconds(result.latency)},
      {"response", result.response},
      {"reference", expected_answer(sample)},
      {"is_correct", result.is_correct.has_value() ? ReportJson(*result.is_correct) : nullptr},
      {"decision", decision_name(result.decision)},
      {"score", result.score},
      {"candidate", result.candidate},
      {"is_wrong", result.is_wrong},
      {"image_attached", sample.content.has_value()},
      {"techniques", techniques_json(result)},
      {"metadata", metadata_json(sample)},
      {"error", result.error},
      {"spec_hash", settings}};
  return dumped(line) + "\n";
}

Result<SampleResult> sample_from_json(std::string_view line, const Sample& sample,
                                      const std::string& settings) {
  const ReportJson json = ReportJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail(ErrorCode::kInvalidArgument, "not a JSON object");
  const auto text = [&](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto flag = [&](const char* name) { return json.value(name, ReportJson()) == true; };
  const auto number = [&](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_number() ? it->get<double>() : 0;
  };
  if (text("spec_hash") != settings) {
    return fail(ErrorCode::kInvalidArgument,
                "written by an experiment with other settings, or by an earlier version");
  }
  const ReportJson now = ReportJson::parse(sample_json(sample, {}, settings));
  for (const char* const name : {"dataset_id", "question", "reference", "image_attached"}) {
    if (json.value(name, ReportJson()) == now[name]) continue;
    return fail(ErrorCode::kInvalidArgument, "the data has another sample there");
  }
  SampleResult result{.prompt = text("prompt"),
                      .chunk_text = text("chunk_text"),
                      .source = text("hit_source"),
                      .candidate = text("candidate"),
                      .score = number("score"),
                      .latency = std::chrono::duration_cast<Duration>(
                          std::chrono::duration<double>(number("latency"))),
                      .response = text("response"),
                      .error = text("error"),
                      .is_wrong = flag("is_wrong")};
  constexpr std::array kDecisions{Decision::kServed, Decision::kMatched, Decision::kMissed,
                                  Decision::kFailed};
  const auto* const decision = std::ranges::find_if(
      kDecisions, [&](Decision one) { return decision_name(one) == text("decision"); });
  if (decision == kDecisions.end()) {
    return fail(ErrorCode::kInvalidArgument, "it says no decision");
  }
  result.decision = *decision;
  if (const auto it = json.find("is_correct"); it != json.end() && it->is_boolean()) {
    result.is_correct = it->get<bool>();
  }
  const ReportJson techniques = json.value("techniques", ReportJson::object());
  for (const auto& [name, status] : techniques.items()) {
    Technique& technique = result.techniques.emplace_back(Technique{name});
    for (const auto one : {TechniqueStatus::kMiss, TechniqueStatus::kHit}) {
      if (status == to_string(one)) technique.status = one;
    }
  }
  return result;
}

CsvRow sweep_columns() {
  CsvRow columns{"timestamp", "experiment"};
  columns.insert(columns.end(), kSettingColumns.begin(), kSettingColumns.end());
  for (const char* name :
       {"total_prompts", "cache_hits", "cache_hit_rate", "avg_latency", "avg_latency_hit",
        "avg_latency_miss", "answer_accuracy", "wall_time", "hit_breakdown"}) {
    columns.emplace_back(name);
  }
  columns.insert(columns.end(), kLaterSettingColumns.begin(), kLaterSettingColumns.end());
  for (const char* name :
       {"cache_mode", "served", "matched_not_used", "missed", "failed", "match_rate",
        "wrong_served", "wrong_matched", "match_breakdown", "latency_by_source", "images_attached",
        "images_missing", "spec_hash", "data_hash", "outcome"}) {
    columns.emplace_back(name);
  }
  return columns;
}

CsvRow sweep_cells(const SweepRow& row) {
  const ExperimentTotals& all = row.report.totals;
  const std::uint64_t asked = all.prompts - all.served;
  const std::uint64_t matched = all.served + all.matched_not_used;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  CsvRow cells{row.timestamp, row.spec.name};
  for (const std::string_view name : kSettingColumns) cells.push_back(setting_text(row.spec, name));
  for (std::string cell :
       {number(all.prompts), number(all.served), number(share(all.served, all.prompts)),
        number(mean_seconds(all.latency, all.prompts)),
        all.served == 0 ? "" : number(mean_seconds(all.latency_served, all.served)),
        asked == 0 ? "" : number(mean_seconds(all.latency_other, asked)),
        all.judged == 0 ? "" : number(share(all.correct, all.judged)),
        number(seconds(row.report.wall_time)),
        row.mode == CacheMode::kLive ? dumped(breakdown(all)) : "{}"}) {
    cells.push_back(std::move(cell));
  }
  for (const std::string_view name : kLaterSettingColumns) {
    cells.push_back(setting_text(row.spec, name));
  }
  for (std::string cell :
       {std::string(to_string(row.mode)), number(all.served), number(all.matched_not_used),
        number(all.missed), number(all.failed), number(share(matched, all.prompts)),
        number(all.wrong_served), number(all.wrong_matched), dumped(breakdown(all)),
        dumped(latencies_json(all)), number(row.images.attached), number(row.images.missing),
        spec_hash(row.spec, row.mode), row.data_hash, outcome_hash(row.report.samples)}) {
    cells.push_back(std::move(cell));
  }
  return cells;
}

std::string to_json(std::span<const CsvRow> rows) {
  ReportJson all = ReportJson::array();
  for (const CsvRow& row : rows) all.push_back(row_json(row));
  return all.dump(2, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

std::string to_json(const SweepRow& row) {
  ReportJson all = row_json(sweep_cells(row));
  const ExperimentTotals& totals = row.report.totals;
  ReportJson techniques = ReportJson::object();
  for (const std::string& name : totals.technique_order) {
    for (const auto& [status, count] : totals.techniques.at(name)) {
      techniques[name][std::string(to_string(status))] = count;
    }
  }
  all["techniques"] = std::move(techniques);
  return all.dump(2, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

}  // namespace afterimage
