// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/encrypted_tier.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/host_tier.h"
#include "afterimage/secret.h"
#include "afterimage/shared_store.h"
#include "cli/engine_args.h"
#include "cli/remote_args.h"
#include "cli/verbs.h"
#include "cli/workload_args.h"
#include "foundation/platform/environment.h"
#include "foundation/text/quantities.h"
#include "gateway/config/settings.h"
#include "lab/run/run.h"
#include "lab/run/run_report.h"
#include "lab/workload/trace.h"
#include "policy/pressure/linux_gauges.h"

namespace afterimage {
namespace {

struct RunArgs {
  std::string workload;
  std::string images;
  std::string json;
  std::string record;
  EngineArgs engine;
  std::string governor;
  std::uint64_t budget = (4_GiB).value();
  std::uint64_t max_entries = 1'000'000;
  std::string policy = "worth";
  std::uint32_t max_tokens = 16;
  std::string disk;
  std::uint64_t disk_budget = (16_GiB).value();
  RemoteArgs remote;
  std::string encrypt_key_file;
  bool load_always = false;
};

/// A folder of entries, open, and the secret under which they are found.
struct Disk {
  std::unique_ptr<MemoryBudget> in_flight;
  std::unique_ptr<DiskTier> tier;
  std::unique_ptr<EncryptedTier> sealed;  // nullptr: entries are kept as they are
  Secret secret{};

  [[nodiscard]] Tier& entries() const {
    return sealed != nullptr ? static_cast<Tier&>(*sealed) : *tier;
  }
};

ExitCode wrong_call(const Error& error) {
  fmt::print(stderr, "afterimage run: {}\n", error.message);
  return ExitCode::kUsageError;
}

Result<Disk> open_disk(const RunArgs& call, std::optional<EncryptionKeys> keys, World& world) {
  Disk disk;
  DiskTierOptions options;
  options.log.capacity = Bytes(call.disk_budget);
  options.log.append_timeout = std::chrono::seconds(2);  // nobody waits for this program
  // Besides --budget, since it is there before anything is kept.
  const Bytes batches(options.log.batch_bytes.value() * options.log.batches);
  disk.in_flight = std::make_unique<MemoryBudget>(batches + 128_MiB);
  AFI_TRY(disk.tier, DiskTier::open(call.disk, options, *disk.in_flight, world.clock));
  AFI_TRY(disk.secret, store_secret(call.disk));
  if (keys.has_value()) {
    disk.sealed = std::make_unique<EncryptedTier>(*disk.tier, *std::move(keys), *disk.in_flight);
  }
  return disk;
}

/// nullopt: entries are kept as they are.
Result<std::optional<EncryptionKeys>> encryption_keys(const RunArgs& call) {
  if (call.encrypt_key_file.empty()) return std::nullopt;
  AFI_TRY(auto keys, EncryptionKeys::read(call.encrypt_key_file));
  return std::optional(std::move(keys));
}

/// A disk that cannot be used costs reuse and nothing else: the work goes on without it. Keys that
/// cannot be read end the call: nothing is kept in the clear that was to be sealed.
Result<std::optional<Disk>> open_disk_or_go_on(const RunArgs& call, World& world) {
  AFI_TRY(auto keys, encryption_keys(call));
  if (call.disk.empty()) return std::nullopt;
  auto disk = open_disk(call, std::move(keys), world);
  if (disk.has_value()) return *std::move(disk);
  fmt::print(stderr, "afterimage run: going on without --disk: {}\n", disk.error().message);
  return std::nullopt;
}

/// nullptr: none is asked for. Servers that are not there cost reuse and nothing else.
Result<std::unique_ptr<SharedStore>> open_remote(const RunArgs& call, World& world) {
  if (call.remote.url.empty()) return nullptr;
  SharedStoreOptions options{.url = call.remote.url,
                             .password = environment(RemoteSettings().password_env).value_or(""),
                             .put_timeout = std::chrono::seconds(2)};
  AFI_TRY(options.ttl, parse_duration(call.remote.ttl));
  AFI_TRY(auto store, SharedStore::open(options, world.clock));
  const std::string degraded_reason = store->tier().stats().degraded_reason;
  if (!degraded_reason.empty()) {
    fmt::print(stderr, "afterimage run: --remote does not answer, and is looked for: {}\n",
               degraded_reason);
  }
  return store;
}

/// nullptr: none is asked for.
Result<std::shared_ptr<PressureGauge>> make_gauge(const std::string& where, const World& world) {
  if (where.empty()) return nullptr;
  AFI_TRY(std::shared_ptr<PressureGauge> gauge,
          where == "auto" ? open_host_gauge(world.files) : open_group_gauge(world.files, where));
  return gauge;
}

Result<RunReport> work(const RunArgs& call, World& world) {
  if (!call.encrypt_key_file.empty() && call.disk.empty() && call.remote.url.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--encrypt-key-file is for what --disk or --remote keeps: name one of them");
  }
  AFI_TRY_VOID(
      check_sharing({.remote = {.url = call.remote.url}, .secret_file = call.remote.secret_file}));
  AFI_TRY(auto gauge, make_gauge(call.governor, world));
  AFI_TRY(const Workload workload, load_workload(call.workload, call.images, world));
  AFI_TRY(const auto engine, make_engine(call.engine, world.clock));
  RunOptions options{.engine_name = call.engine.name(),
                     .generate = {.max_tokens = TokenCount(call.max_tokens)},
                     .reuse = {.budget = Bytes(call.budget),
                               .max_encoder_entries = EntryCount(call.max_entries),
                               .policy = call.policy,
                               .weigh_loads = !call.load_always,
                               .pressure = {.gauge = std::move(gauge)}},
                     .record = !call.record.empty()};
  AFI_TRY(const std::optional<Disk> disk, open_disk_or_go_on(call, world));
  AFI_TRY(const auto remote, open_remote(call, world));
  MemoryBudget sealing(64_MiB);
  std::optional<EncryptedTier> encrypted_remote;
  std::vector<Tier*> tiers;
  if (disk.has_value()) {
    tiers.push_back(&disk->entries());
    options.disk = &disk->entries();
    options.secret = disk->secret;
  }
  if (remote != nullptr) {
    AFI_TRY(auto keys, encryption_keys(call));
    if (keys.has_value()) {
      encrypted_remote.emplace(remote->tier(), *std::move(keys), sealing);
    }
    tiers.push_back(encrypted_remote.has_value() ? static_cast<Tier*>(&*encrypted_remote)
                                                 : &remote->tier());
    options.remote = tiers.back();
    options.reuse.leases = &remote->leases();
  }
  if (!call.remote.secret_file.empty()) {
    AFI_TRY(options.secret, secret_in_file(call.remote.secret_file));
  }
  std::optional<TierStack> stack;
  if (!tiers.empty()) options.reuse.tier = &stack.emplace(tiers);
  return run_workload(workload, *engine, options, world.clock, progress_line());
}

ExitCode run(const RunArgs& call, World& world) {
  for (const std::string& path : {call.json, call.record}) {
    if (const auto writable = check_report(path, world); !writable.has_value()) {
      return wrong_call(writable.error());
    }
  }
  const auto report = work(call, world);
  if (!report.has_value()) return wrong_call(report.error());
  const std::string json = call.json.empty() ? "" : to_json(*report);
  auto printed = print_report(to_table(*report), json, call.json, world);
  if (printed.has_value() && !call.record.empty()) {
    const std::string trace = to_text(report->trace);
    printed = world.files.replace(call.record, std::as_bytes(std::span(trace)));
  }
  if (!printed.has_value()) {
    fmt::print(stderr, "afterimage run: {}\n", printed.error().message);
    return ExitCode::kProblem;
  }
  return report->fine() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_run(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<RunArgs>();
  CLI::App* verb =
      program.add_subcommand("run",
                             "Run a workload without reuse, encoding once, and prefilling once;\n"
                             "prove that the outputs are identical and print what was saved");
  verb->add_option("--workload", call->workload,
                   "Requests, one JSON object a line: id, agent, tenant, messages (OpenAI chat)")
      ->required()
      ->type_name("FILE");
  verb->add_option(
          "--images", call->images,
          "Your own photos: names are looked up here; if none is here, the photos stand in")
      ->type_name("DIR");
  verb->add_option("--json", call->json, "Write the full report; - for standard output")
      ->type_name("FILE");
  verb->add_option("--record", call->record,
                   "Write a trace of the requests, for replay: lengths and repeats, no content")
      ->type_name("FILE");
  verb->add_option("--budget", call->budget, "Memory for everything that is kept: 64MiB, 4GiB")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4GiB")
      ->type_name("SIZE");
  verb->add_option(
          "--governor", call->governor,
          "Give memory back when others need it, and take no more than they leave: the\n"
          "budget is then the most that is kept. auto: this process's control group or the\n"
          "machine, whichever has less; or the folder of another control group")
      ->type_name("auto|DIR");
  verb->add_option("--max-entries", call->max_entries, "Encoder outputs kept at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--disk", call->disk,
                   "Keep everything in this folder, too, and begin with what an earlier run left\n"
                   "there; made if it is missing")
      ->type_name("DIR");
  verb->add_option("--disk-budget", call->disk_budget, "Room that the folder may take")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("16GiB")
      ->type_name("SIZE");
  add_remote_options(*verb, call->remote);
  verb->add_option("--remote-ttl", call->remote.ttl, "What is put there is forgotten after so long")
      ->capture_default_str()
      ->type_name("TIME");
  verb->add_option("--encrypt-key-file", call->encrypt_key_file,
                   "Encrypt what is kept there (AES-256-GCM): keys of 64 hex digits, one\n"
                   "a line, the first encrypts and all decrypt; readable by its owner only")
      ->type_name("FILE");
  verb->add_flag("--load-always", call->load_always,
                 "Load what the disk or the servers hold, also where computing it is quicker");
  verb->add_option("--policy", call->policy, "Who leaves first when the memory is full")
      ->check(CLI::IsMember(std::vector<std::string>(policy_names().begin(), policy_names().end())))
      ->capture_default_str();
  verb->add_option("--max-tokens", call->max_tokens, "Tokens generated for each request")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str()
      ->type_name("N");
  add_engine_options(*verb, call->engine);
  verb->footer(
      "Examples:\n"
      "  afterimage run --workload examples/agents.jsonl\n"
      "  afterimage run --workload examples/agents.jsonl --images ~/Pictures\n"
      "  afterimage run --workload mine.jsonl --budget 64MiB --json out.json\n"
      "  afterimage run --workload mine.jsonl --disk ~/.cache/afterimage   (twice)\n"
      "  afterimage run --workload mine.jsonl --remote redis://127.0.0.1:6379 --secret-file s\n"
      "  afterimage run --workload mine.jsonl --budget 64GiB --governor auto\n"
      "  afterimage run --workload mine.jsonl --engine llama --model m.gguf --mmproj p.gguf");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
