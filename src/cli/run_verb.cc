// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/encrypted_tier.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/secret.h"
#include "afterimage/shared_store.h"
#include "afterimage/tier.h"
#include "bench/run/run.h"
#include "bench/run/run_page.h"
#include "bench/run/run_report.h"
#include "bench/workload/trace.h"
#include "cli/engine_args.h"
#include "cli/remote_args.h"
#include "cli/verbs.h"
#include "cli/workload_args.h"
#include "foundation/platform/environment.h"
#include "foundation/text/quantities.h"
#include "gateway/config/settings.h"
#include "policy/pressure/device_cache.h"
#include "policy/pressure/gauges.h"
#include "policy/pressure/linux_gauges.h"
#include "storage/stores/stores.h"

namespace afterimage {
namespace {

struct RunArgs {
  std::string workload;
  std::string images;
  std::string json;
  std::string record;
  std::string report;
  EngineArgs engine;
  std::string governor;
  std::string idle_limit;
  std::vector<std::string> shares;  // "NAME=0.25"
  std::uint64_t budget = (4_GiB).value();
  std::uint64_t max_entries = 1'000'000;
  EntryCount min_entries;
  std::string modes = "headroom";
  std::uint64_t max_sequences = 1'000'000;
  std::optional<std::uint64_t> max_kv_tokens;
  std::string policy = "worth";
  std::uint32_t max_tokens = 16;
  std::string disk;
  std::uint64_t disk_budget = (16_GiB).value();
  std::uint64_t gpu_memory = 0;
  std::uint32_t gpu = 0;
  RemoteArgs remote;
  std::string encrypt_key_file;
  bool load_always = false;
  bool disk_all = false;
};

ExitCode usage_error(const Error& error) {
  fmt::print(stderr, "afterimage run: {}\n", error.message);
  return ExitCode::kUsageError;
}

/// A store that cannot be used costs hits and nothing else: the run goes on without it.
Result<std::unique_ptr<Stores>> open_stores(const RunArgs& args, Tier* nearest, World& world) {
  StoresOptions options{.nearest = nearest,
                        .disk = args.disk,
                        .disk_capacity = Bytes(args.disk_budget),
                        .secret_file = args.remote.secret_file,
                        .encrypt_key_file = args.encrypt_key_file};
  if (!args.remote.url.empty()) {
    AFI_TRY(const Duration ttl, parse_duration(args.remote.ttl));
    options.remote =
        SharedStoreOptions{.url = args.remote.url,
                           .password = environment(kRemotePasswordVariable).value_or(""),
                           .sentinel_password = environment(kSentinelPasswordVariable).value_or(""),
                           .ttl = ttl,
                           .put_timeout = std::chrono::seconds(2)};
  }
  options.on_degraded = [](std::string_view store, const Error& error) {
    if (store == "disk") {
      fmt::print(stderr, "afterimage run: continuing without --disk: {}\n", error.message);
    } else {
      fmt::print(stderr, "afterimage run: --remote is unreachable and will be retried: {}\n",
                 error.message);
    }
  };
  return Stores::open(options, world.clock);
}

/// nullptr: no --gpu-memory, or no GPU that can be used.
std::unique_ptr<DeviceCache> open_device(const RunArgs& args, std::shared_ptr<PressureGauge> gauge,
                                         const World& world) {
  if (args.gpu_memory == 0) return nullptr;
  auto opened = DeviceCache::open({.capacity = Bytes(args.gpu_memory),
                                   .device = {.device = args.gpu},
                                   .gauge = std::move(gauge)},
                                  world.clock);
  if (opened.has_value()) return *std::move(opened);
  fmt::print(stderr, "afterimage run: continuing without --gpu-memory: {}\n",
             opened.error().message);
  return nullptr;
}

Result<NamedGauges> gauges_of(const RunArgs& args, const World& world) {
  AFI_TRY(NamedGauges gauges, open_gauges(args.governor, world.files));
  if (gauges.device == nullptr || args.gpu_memory > 0) return gauges;
  return fail(ErrorCode::kInvalidArgument,
              "--governor names a GPU, and nothing is cached there: add --gpu-memory");
}

Result<std::vector<MemoryShare>> shares_of(const RunArgs& args) {
  std::vector<MemoryShare> shares;
  for (const std::string& text : args.shares) {
    const std::size_t equals = text.rfind('=');
    double fraction = 0;
    const char* const end = text.data() + text.size();
    const bool named = equals != std::string::npos && equals > 0;
    const auto read = named ? std::from_chars(text.data() + equals + 1, end, fraction)
                            : std::from_chars_result{end, std::errc::invalid_argument};
    if (read.ec != std::errc() || read.ptr != end) {
      return fail(ErrorCode::kInvalidArgument,
                  "--tenant-share '" + text + "' is not NAME=SHARE, e.g. acme=0.25");
    }
    shares.push_back({.tenant = text.substr(0, equals), .fraction = fraction});
  }
  return shares;
}

Result<IdleLimits> idle_limits_of(const RunArgs& args) {
  if (args.modes != "headroom" && args.governor.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--modes are the governor's: add --governor");
  }
  if (args.idle_limit.empty()) return IdleLimits();
  if (args.governor.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the governor applies --idle-limit: add --governor");
  }
  AFI_TRY(const Duration limit, parse_duration(args.idle_limit));
  return IdleLimits::of(limit);
}

struct Finished {
  RunReport report;
  std::string page;  // if --report is given
};

Result<Finished> work(const RunArgs& args, World& world) {
  if (!args.encrypt_key_file.empty() && args.disk.empty() && args.remote.url.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--encrypt-key-file encrypts what --disk or --remote stores: add one of them");
  }
  AFI_TRY_VOID(check_shared_secret(args.remote.url, args.remote.secret_file));
  AFI_TRY(NamedGauges gauges, gauges_of(args, world));
  AFI_TRY(auto shares, shares_of(args));
  AFI_TRY(const IdleLimits idle, idle_limits_of(args));
  AFI_TRY(const Workload workload, load_workload(args.workload, args.images, world));
  AFI_TRY(const auto engine, make_engine(args.engine, world.clock));
  RunOptions options{.engine_name = args.engine.name(),
                     .generate = {.max_tokens = TokenCount(args.max_tokens)},
                     .reuse = {.budget = Bytes(args.budget),
                               .shares = std::move(shares),
                               .max_encoder_entries = EntryCount(args.max_entries),
                               .min_encoder_entries = args.min_entries,
                               .policy = args.policy,
                               .max_sequences = EntryCount(args.max_sequences),
                               .max_kv_tokens = args.max_kv_tokens.value_or(UINT64_MAX),
                               .weigh_loads = !args.load_always,
                               .weigh_writes = !args.disk_all,
                               .pressure = {.gauge = std::move(gauges.host)}},
                     .record = !args.record.empty()};
  options.reuse.pressure.governor.idle = idle;
  AFI_TRY(options.reuse.pressure.governor.modes, parse_modes(args.modes));
  const auto device = open_device(args, std::move(gauges.device), world);
  if (device != nullptr) options.gpu = &device->tier();
  AFI_TRY(const auto stores,
          open_stores(args, device == nullptr ? nullptr : &device->tier(), world));
  options.disk = stores->disk();
  options.remote = stores->remote();
  options.secret = stores->secret();
  options.reuse.tier = stores->tier();
  options.reuse.leases = stores->leases();
  Finished finished;
  AFI_TRY(finished.report, run_workload(workload, *engine, options, world.clock, progress_line()));
  if (!args.report.empty()) finished.page = to_page(finished.report, workload);
  return finished;
}

ExitCode run(const RunArgs& args, World& world) {
  for (const std::string& path : {args.json, args.record, args.report}) {
    if (const auto writable = check_report(path, world); !writable.has_value()) {
      return usage_error(writable.error());
    }
  }
  const auto finished = work(args, world);
  if (!finished.has_value()) return usage_error(finished.error());
  const RunReport& report = finished->report;
  const std::string json = args.json.empty() ? "" : to_json(report);
  auto printed = print_report(to_table(report), json, args.json, world);
  if (printed.has_value() && !args.record.empty()) {
    const std::string trace = to_text(report.trace);
    printed = world.files.replace(args.record, std::as_bytes(std::span(trace)));
  }
  if (printed.has_value() && !args.report.empty()) {
    printed = world.files.replace(args.report, std::as_bytes(std::span(finished->page)));
  }
  if (!printed.has_value()) {
    fmt::print(stderr, "afterimage run: {}\n", printed.error().message);
    return ExitCode::kProblem;
  }
  return report.fine() ? ExitCode::kFine : ExitCode::kProblem;
}

void add_file_options(CLI::App& verb, RunArgs& args) {
  verb.add_option(
          "--workload", args.workload,
          "Requests, one JSON object per line: id, agent, tenant, expected, messages (OpenAI chat)")
      ->required()
      ->type_name("FILE");
  verb.add_option(
          "--images", args.images,
          "Your own photos: the workload's image names are looked up here; if none is found,\n"
          "these photos replace them")
      ->type_name("DIR");
  verb.add_option("--json", args.json, "Write the full report as JSON; - for standard output")
      ->type_name("FILE");
  verb.add_option("--report", args.report,
                  "Write an HTML page: savings, and each picture, question, answer and what was "
                  "reused")
      ->type_name("FILE");
  verb.add_option("--record", args.record,
                  "Write a trace for replay: lengths and repetitions only, no content")
      ->type_name("FILE");
}

void add_memory_options(CLI::App& verb, RunArgs& args) {
  verb.add_option("--budget", args.budget,
                  "Memory budget for everything cached, e.g. 64MiB or "
                  "4GiB")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4GiB")
      ->type_name("SIZE");
  verb.add_option(
          "--governor", args.governor,
          "Shrink the cache under memory pressure; --budget is then the upper limit. What to "
          "watch,\n"
          "separated by commas, the tightest wins: auto (this process's control group or the\n"
          "machine, whichever has less memory), host, cgroup, the folder of a control group; and\n"
          "nvml:N, an NVIDIA GPU, for --gpu-memory")
      ->type_name("LIST");
  verb.add_option(
          "--modes", args.modes,
          "When the governor's modes begin: headroom (by the bytes needed soon), seed (at 70, 85, "
          "92\n"
          "and 96 % of the memory in use), or four percentages of your own: docs/pressure.md")
      ->capture_default_str()
      ->type_name("MODES");
  verb.add_option(
          "--idle-limit", args.idle_limit,
          "Evict from memory what nobody used for so long, e.g. \"10 min\"; the governor "
          "applies\n"
          "it, and shortens it to a fifth under pressure and to a twentieth in an emergency")
      ->type_name("TIME");
  verb.add_option("--tenant-share", args.shares,
                  "Share of --budget, 0 to 1, that other tenants of the workload never take; may "
                  "be\n"
                  "given for several tenants")
      ->type_name("NAME=SHARE");
  verb.add_option("--max-kv-tokens", args.max_kv_tokens,
                  "Maximum number of tokens with KV in memory; without it the budget decides")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  verb.add_option("--max-sequences", args.max_sequences,
                  "Maximum number of sequences with KV in memory that no other one continues")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str()
      ->type_name("N");
  verb.add_option_function<std::string>(
          "--min-entries",
          [&args](const std::string& text) {
            args.min_entries = text == "auto" ? kMinEntriesFromLoad : EntryCount(std::stoull(text));
          },
          "Encoder outputs that a new one must leave cached, or it is not cached itself; auto: as\n"
          "many as requests of the last minute held at a time")
      ->check(CLI::IsMember({"auto"}) | CLI::NonNegativeNumber)
      ->default_str("0")
      ->type_name("N");
  verb.add_option("--max-entries", args.max_entries, "Maximum number of cached encoder outputs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("N");
}

void add_store_options(CLI::App& verb, RunArgs& args) {
  verb.add_option("--disk", args.disk,
                  "Also store entries in this folder and reuse those of earlier runs; created "
                  "if missing")
      ->type_name("DIR");
  verb.add_option("--disk-budget", args.disk_budget, "Maximum size of that folder")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("16GiB")
      ->type_name("SIZE");
  verb.add_option("--gpu-memory", args.gpu_memory,
                  "Also keep entries in so much spare memory of an NVIDIA GPU, and give it back "
                  "when\n"
                  "other programs need it")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("none")
      ->type_name("SIZE");
  verb.add_option("--gpu", args.gpu, "Which GPU")->capture_default_str()->type_name("N");
  add_remote_options(verb, args.remote);
  verb.add_option("--remote-ttl", args.remote.ttl, "Time to live of entries on the servers")
      ->capture_default_str()
      ->type_name("TIME");
  verb.add_option("--encrypt-key-file", args.encrypt_key_file,
                  "Encrypt what --disk and --remote store (AES-256-GCM): a file of keys, 64 hex "
                  "digits\n"
                  "per line; the first encrypts, all decrypt; readable by its owner only")
      ->type_name("FILE");
  verb.add_flag("--load-always", args.load_always,
                "Load what the disk or the servers hold even where computing it would be faster");
  verb.add_flag("--disk-all", args.disk_all,
                "Write each new entry to --disk, even while almost none is asked for again");
  verb.add_option("--policy", args.policy, "Eviction policy")
      ->check(CLI::IsMember(std::vector<std::string>(policy_names().begin(), policy_names().end())))
      ->capture_default_str();
}

}  // namespace

void add_run(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<RunArgs>();
  CLI::App* verb =
      program.add_subcommand("run",
                             "Run a workload without and with reuse, prove that the outputs are "
                             "identical,\n"
                             "and print what was saved");
  add_file_options(*verb, *args);
  add_memory_options(*verb, *args);
  add_store_options(*verb, *args);
  verb->add_option("--max-tokens", args->max_tokens, "Tokens generated per request")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str()
      ->type_name("N");
  add_engine_options(*verb, args->engine);
  verb->footer(
      "Examples:\n"
      "  afterimage run --workload examples/agents.jsonl\n"
      "  afterimage run --workload examples/agents.jsonl --images ~/Pictures\n"
      "  afterimage run --workload mine.jsonl --budget 64MiB --json out.json\n"
      "  afterimage run --workload mine.jsonl --disk ~/.cache/afterimage   (twice)\n"
      "  afterimage run --workload mine.jsonl --remote redis://127.0.0.1:6379 --secret-file s\n"
      "  afterimage run --workload mine.jsonl --budget 64GiB --governor auto\n"
      "  afterimage run --workload mine.jsonl --engine llama --model m.gguf --mmproj p.gguf");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
