// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/replay/replay.h"
#include "bench/replay/replay_page.h"
#include "bench/replay/replay_report.h"
#include "bench/workload/trace.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "foundation/platform/terminal.h"

namespace afterimage {
namespace {

struct ReplayArgs {
  std::vector<std::string> traces;
  TraceFormat format = TraceFormat::kAuto;
  std::vector<std::string> policies;
  std::vector<std::string> capacities = {"1%", "2%", "5%", "10%"};
  std::string below;
  double warm_up = 0;  // per cent
  std::optional<double> hint_error;
  std::uint64_t seed = 1;
  double prefill_rate = ReplayOptions().tokens_per_second;
  std::uint64_t kv_bytes = ReplayOptions().bytes_per_token.value();
  std::string json;
  std::string page;
};

/// "5%" of the distinct blocks, or "20000" blocks.
Result<ReplayCapacity> parse_capacity(const std::string& text, std::uint32_t distinct_blocks) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const bool part = unit == "%";
  if (end == text.c_str() || !(part || unit.empty()) || !(number > 0 && number <= 1e12) ||
      (part && number > 100) || (!part && number != std::floor(number))) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "\"{}\" is not a capacity: expected a percentage of the trace's distinct blocks (5%) "
            "or a number of blocks (20000)",
            text));
  }
  const double blocks = part ? number / 100 * distinct_blocks : number;
  return ReplayCapacity{
      .name = text,
      .blocks = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(blocks)))};
}

/// The requested policies after lru, the baseline of the gaps, and before the bounds.
std::vector<std::string> with_bounds(const std::vector<std::string>& requested) {
  std::vector<std::string> policies = {"lru"};
  const auto add = [&policies](std::string_view name) {
    if (std::ranges::find(policies, name) == policies.end()) policies.emplace_back(name);
  };
  const auto is_bound = [](std::string_view name) { return name == "min" || name == "infinite"; };
  if (requested.empty()) {
    for (const std::string_view name : replay_policies()) {
      if (!is_bound(name)) add(name);
    }
  }
  for (const std::string& name : requested) {
    if (!is_bound(name)) add(name);
  }
  add("min");
  add("infinite");
  return policies;
}

/// A progress line on standard error; empty unless standard error is a terminal.
ReplayProgress replay_progress() {
  if (!standard_error_is_terminal()) return {};
  return [](std::size_t done, std::size_t of, std::string_view now) {
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = of == 0 ? kWidth : kWidth * done / of;
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {}/{} {}\033[K", "", filled, "", kWidth - filled, done, of,
               now);
    if (done == of) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

Result<ReplayReport> replay_one(const std::string& name, const Trace& trace, const ReplayArgs& args,
                                const Clock& clock) {
  ReplayOptions options{.policies = with_bounds(args.policies),
                        .warm_up = args.warm_up / 100,
                        .hint_error = args.hint_error,
                        .seed = args.seed,
                        .tokens_per_second = args.prefill_rate,
                        .bytes_per_token = Bytes(args.kv_bytes)};
  for (const std::string& text : args.capacities) {
    AFI_TRY(ReplayCapacity capacity, parse_capacity(text, trace.distinct_blocks));
    options.capacities.push_back(std::move(capacity));
  }
  if (!args.below.empty()) {
    AFI_TRY(options.below, parse_capacity(args.below, trace.distinct_blocks));
  }
  AFI_TRY(std::vector<ReplayResult> results, replay(trace, options, clock, replay_progress()));
  return ReplayReport(name, trace, std::move(options), std::move(results));
}

ExitCode run(const ReplayArgs& args, World& world) {
  for (const std::string& path : {args.json, args.page}) {
    if (path.empty() || path == "-") continue;
    if (const auto writable = world.files.check_replaceable(path); !writable) {
      return report_error("replay", writable.error(), ExitCode::kUsageError);
    }
  }
  // Read all traces first, so that a usage error does no work.
  std::vector<Trace> traces;
  for (const std::string& path : args.traces) {
    auto trace = read_trace(world.files, path, args.format);
    if (!trace) return report_error("replay", trace.error(), ExitCode::kUsageError);
    traces.push_back(*std::move(trace));
  }
  std::vector<ReplayReport> reports;
  bool all_lines_read = true;
  for (const Trace& trace : traces) {
    auto report = replay_one(args.traces[reports.size()], trace, args, world.clock);
    if (!report) return report_error("replay", report.error(), ExitCode::kUsageError);
    if (args.json != "-") fmt::print("{}{}", reports.empty() ? "" : "\n", to_table(*report));
    std::fflush(stdout);  // many traces take a while
    all_lines_read &= report->rejected.empty();
    reports.push_back(*std::move(report));
  }
  if (args.json == "-") fmt::print("{}", to_json(reports));
  for (const auto& written : {write_output(args.json, to_json(reports), world.files),
                              write_output(args.page, to_html(reports), world.files)}) {
    if (!written) return report_error("replay", written.error(), ExitCode::kProblem);
  }
  return all_lines_read ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_replay(CLI::App& program, World& world, ExitCode& code) {
  static const std::map<std::string, TraceFormat> kFormats = {
      {"auto", TraceFormat::kAuto},
      {"mooncake", TraceFormat::kMooncake},
      {"qwen", TraceFormat::kQwen},
      {"afterimage", TraceFormat::kAfterimage}};
  auto args = std::make_shared<ReplayArgs>();
  CLI::App* verb = program.add_subcommand(
      "replay",
      "Replay request traces through the eviction policies and compare their hit ratios with an\n"
      "optimal cache that knows the future (min) and one that never evicts (infinite)");
  verb->add_option("--trace", args->traces, "Trace files, plain or gzipped")
      ->required()
      ->type_name("FILE");
  verb->add_option("--format", args->format, "Format of the traces")
      ->transform(CLI::CheckedTransformer(kFormats).description("{auto,mooncake,qwen,afterimage}"))
      ->default_str("auto")
      ->type_name("TEXT");
  verb->add_option("--policy", args->policies,
                   "Eviction policies to replay; lru and both bounds are always included")
      ->delimiter(',')
      ->default_str("all")
      ->type_name("NAME,…");
  verb->add_option("--capacity", args->capacities,
                   "Cache sizes, in % of the trace's distinct blocks or in blocks")
      ->delimiter(',')
      ->default_str("1%,2%,5%,10%")
      ->type_name("SIZE,…");
  verb->add_option("--below", args->below,
                   "Size of a second tier, such as a disk: every block is written to it once\n"
                   "and found there after the cache has evicted it")
      ->type_name("SIZE");
  verb->add_option("--hint-error", args->hint_error,
                   "Hint to the policies whether each session continues or ends, with this share "
                   "of\n"
                   "wrong hints (0.1: one in ten). Default: the trace's own hints, if it has any")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
  verb->add_option("--seed", args->seed, "Random seed of the errors in the hints")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--warm-up", args->warm_up,
                   "Percentage of requests, from the first, that warm the cache and are not "
                   "counted")
      ->check(CLI::Range(0.0, 99.0))
      ->default_str("0")
      ->type_name("PERCENT");
  verb->add_option("--prefill-rate", args->prefill_rate,
                   "Prefill speed in tokens per second, early in a prompt; used to compute the "
                   "time saved")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--kv-bytes", args->kv_bytes,
                   "KV size of one token; used to compute the "
                   "bytes moved")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("128KiB")
      ->type_name("SIZE");
  verb->add_option("--json", args->json, "Write the results as JSON; - for standard output")
      ->type_name("FILE");
  verb->add_option("--report", args->page, "Write an HTML page with the miss-ratio curves")
      ->type_name("OUT.html");
  verb->footer(
      "Examples:\n"
      "  afterimage replay --trace requests.jsonl.gz\n"
      "  afterimage replay --trace a.jsonl b.jsonl --capacity 0.5%,1%,2%,5% --report curves.html\n"
      "  afterimage replay --trace chat.jsonl --policy lru,lfu --hint-error 0.1 --json -");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
