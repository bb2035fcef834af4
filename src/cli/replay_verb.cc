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

#include "cli/verbs.h"
#include "foundation/platform/terminal.h"
#include "lab/replay/replay.h"
#include "lab/replay/replay_page.h"
#include "lab/replay/replay_report.h"
#include "lab/workload/trace.h"

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

ExitCode complain(const Error& error, ExitCode code) {
  fmt::print(stderr, "afterimage replay: {}\n", error.message);
  return code;
}

/// "5%" of the distinct blocks, or "20000" blocks.
Result<ReplayCapacity> parse_capacity(const std::string& text, std::uint32_t distinct_blocks) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const bool part = unit == "%";
  if (end == text.c_str() || !(part || unit.empty()) || !(number > 0 && number <= 1e12) ||
      (part && number > 100) || (!part && number != std::floor(number))) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" is no capacity: say 5% of the trace's distinct blocks, or a "
                            "number of blocks",
                            text));
  }
  const double blocks = part ? number / 100 * distinct_blocks : number;
  return ReplayCapacity{
      .name = text,
      .blocks = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(blocks)))};
}

/// What was asked for between lru, which the gaps begin at, and the bounds.
std::vector<std::string> with_bounds(const std::vector<std::string>& asked) {
  std::vector<std::string> policies = {"lru"};
  const auto add = [&policies](std::string_view name) {
    if (std::ranges::find(policies, name) == policies.end()) policies.emplace_back(name);
  };
  const auto is_bound = [](std::string_view name) { return name == "min" || name == "infinite"; };
  if (asked.empty()) {
    for (const std::string_view name : replay_policies()) {
      if (!is_bound(name)) add(name);
    }
  }
  for (const std::string& name : asked) {
    if (!is_bound(name)) add(name);
  }
  add("min");
  add("infinite");
  return policies;
}

/// One line that is drawn over itself; nothing at all when nobody looks.
ReplayProgress progress_line() {
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

Result<ReplayReport> replay_one(const std::string& name, const Trace& trace, const ReplayArgs& call,
                                const Clock& clock) {
  ReplayOptions options{.policies = with_bounds(call.policies),
                        .warm_up = call.warm_up / 100,
                        .hint_error = call.hint_error,
                        .seed = call.seed,
                        .tokens_per_second = call.prefill_rate,
                        .bytes_per_token = Bytes(call.kv_bytes)};
  for (const std::string& text : call.capacities) {
    AFI_TRY(ReplayCapacity capacity, parse_capacity(text, trace.distinct_blocks));
    options.capacities.push_back(std::move(capacity));
  }
  if (!call.below.empty()) {
    AFI_TRY(options.below, parse_capacity(call.below, trace.distinct_blocks));
  }
  AFI_TRY(std::vector<ReplayResult> results, replay(trace, options, clock, progress_line()));
  return ReplayReport(name, trace, std::move(options), std::move(results));
}

Result<void> write(const std::string& path, const std::string& text, Files& files) {
  if (path.empty() || path == "-") return {};
  return files.replace(path, std::as_bytes(std::span(text)));
}

ExitCode run(const ReplayArgs& call, World& world) {
  for (const std::string& path : {call.json, call.page}) {
    if (path.empty() || path == "-") continue;
    if (const auto writable = world.files.check_replaceable(path); !writable) {
      return complain(writable.error(), ExitCode::kUsageError);
    }
  }
  // All of them first: a wrong call does nothing.
  std::vector<Trace> traces;
  for (const std::string& path : call.traces) {
    auto trace = read_trace(world.files, path, call.format);
    if (!trace) return complain(trace.error(), ExitCode::kUsageError);
    traces.push_back(*std::move(trace));
  }
  std::vector<ReplayReport> reports;
  bool all_lines_read = true;
  for (const Trace& trace : traces) {
    auto report = replay_one(call.traces[reports.size()], trace, call, world.clock);
    if (!report) return complain(report.error(), ExitCode::kUsageError);
    if (call.json != "-") fmt::print("{}{}", reports.empty() ? "" : "\n", to_table(*report));
    std::fflush(stdout);  // a folder of traces takes a while
    all_lines_read &= report->rejected.empty();
    reports.push_back(*std::move(report));
  }
  if (call.json == "-") fmt::print("{}", to_json(reports));
  for (const auto& written : {write(call.json, to_json(reports), world.files),
                              write(call.page, to_html(reports), world.files)}) {
    if (!written) return complain(written.error(), ExitCode::kProblem);
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
  auto call = std::make_shared<ReplayArgs>();
  CLI::App* verb = program.add_subcommand(
      "replay",
      "Replay traces of requests through the eviction policies, between the bounds of a cache\n"
      "that knows the future (min) and one that never evicts (infinite)");
  verb->add_option("--trace", call->traces, "Traces, plain or gzipped")
      ->required()
      ->type_name("FILE");
  verb->add_option("--format", call->format, "What the traces are written in")
      ->transform(CLI::CheckedTransformer(kFormats).description("{auto,mooncake,qwen,afterimage}"))
      ->default_str("auto")
      ->type_name("TEXT");
  verb->add_option("--policy", call->policies,
                   "Policies, by name; lru and the bounds are always beside them")
      ->delimiter(',')
      ->default_str("all")
      ->type_name("NAME,…");
  verb->add_option("--capacity", call->capacities,
                   "Cache sizes: in % of the trace's distinct blocks, or in blocks")
      ->delimiter(',')
      ->default_str("1%,2%,5%,10%")
      ->type_name("SIZE,…");
  verb->add_option("--below", call->below,
                   "A tier below the cache, such as a disk: every block is written to it, once,\n"
                   "and found there when the cache has let go of it")
      ->type_name("SIZE");
  verb->add_option("--hint-error", call->hint_error,
                   "Give policies one hint a request, goes on or ends, that is wrong this often\n"
                   "(0.1: one in ten). Default: what the trace itself says, if it does")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
  verb->add_option("--seed", call->seed, "Of the errors in the hints")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--warm-up", call->warm_up,
                   "Per cent of the requests, from the first, that are replayed and not counted")
      ->check(CLI::Range(0.0, 99.0))
      ->default_str("0")
      ->type_name("PERCENT");
  verb->add_option("--prefill-rate", call->prefill_rate,
                   "Tokens prefilled in a second, early in a prompt: for the time saved")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--kv-bytes", call->kv_bytes, "KV of one token: for the bytes moved")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("128KiB")
      ->type_name("SIZE");
  verb->add_option("--json", call->json, "Write the results; - for standard output")
      ->type_name("FILE");
  verb->add_option("--report", call->page, "Write a page with the miss-ratio curves")
      ->type_name("OUT.html");
  verb->footer(
      "Examples:\n"
      "  afterimage replay --trace requests.jsonl.gz\n"
      "  afterimage replay --trace a.jsonl b.jsonl --capacity 0.5%,1%,2%,5% --report curves.html\n"
      "  afterimage replay --trace chat.jsonl --policy lru,lfu --hint-error 0.1 --json -");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
