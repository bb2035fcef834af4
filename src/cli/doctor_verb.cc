// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "cli/verbs.h"
#include "foundation/http/client.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/wall_clocks.h"
#include "foundation/text/quantities.h"
#include "gateway/config/settings.h"
#include "gateway/model_server/model_server.h"
#include "policy/pressure/gauges.h"
#include "policy/pressure/linux_gauges.h"
#include "storage/block_io/block_io.h"

namespace afterimage {
namespace {

using DoctorJson = nlohmann::ordered_json;

struct DoctorArgs {
  std::string config;
  std::string upstream;
  std::string server = "http://127.0.0.1:8081";
  bool json = false;
};

enum class Finding : unsigned char { kFine, kNote, kProblem };
constexpr std::array<std::string_view, 3> kFindings{"fine", "note", "problem"};
std::string_view to_string(Finding finding) { return kFindings[static_cast<std::size_t>(finding)]; }

/// What was looked at, what was seen, and what to do about it.
struct Examined {
  std::string_view what;
  Finding finding = Finding::kFine;
  std::string seen;
  std::string todo = {};  // empty: nothing
};

Examined examine_cpu() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const int cores = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
  Examined cpu{.what = "cpu", .seen = plural(static_cast<std::uint64_t>(cores), "core")};
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool has_vnni = __builtin_cpu_supports("avx512vnni") != 0;
  cpu.seen += has_vnni ? ", AVX-512 with VNNI" : has_avx2 ? ", AVX2" : ", no AVX2";
  if (!has_avx2) {
    cpu.finding = Finding::kNote;
    cpu.todo = "--engine llama computes slowly here; before another server it does not matter";
  }
#endif
  return cpu;
}

Examined examine_memory(const Settings& settings, const Files& files) {
  Examined memory{.what = "memory"};
  const auto gauge = open_host_gauge(files);
  const auto reading = gauge.has_value() ? (*gauge)->read() : std::unexpected(gauge.error());
  if (!reading.has_value()) {
    return {.what = "memory",
            .finding = Finding::kNote,
            .seen = reading.error().message,
            .todo = "memory.governor cannot watch it: set memory.budget low enough yourself"};
  }
  const Bytes budget = settings.memory.budget;
  memory.seen =
      fmt::format("{} ({}), {} in use; the caches take at most {}", readable(reading->total),
                  (*gauge)->name(), readable(reading->used), print_size(budget));
  if (budget > reading->total) {
    memory.finding = Finding::kProblem;
    memory.todo = "set memory.budget below what there is";
  } else if (budget.value() + reading->used.value() > reading->total.value()) {
    memory.finding = Finding::kNote;
    memory.todo = "lower memory.budget, or leave memory.governor on, which gives memory back";
  }
  return memory;
}

/// The folder, or the nearest one above that there is. What cannot be told counts as not there; a link that leads
/// nowhere is there.
std::filesystem::path nearest(const std::string& folder) {
  std::error_code unknown;
  std::filesystem::path path(folder);
  while (!exists(std::filesystem::symlink_status(path, unknown)) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path;
}

Examined examine_disk(const Settings& settings) {
  const std::string& folder = settings.memory.disk;
  if (folder.empty()) {
    return {.what = "disk",
            .finding = Finding::kNote,
            .seen = "no folder: a restart forgets everything",
            .todo = "memory.disk = \"/var/cache/afterimage\" keeps it"};
  }
  const std::filesystem::path existing = nearest(folder);
  std::error_code error;
  const auto space = std::filesystem::space(existing, error);
  const bool is_folder = std::filesystem::is_directory(existing, error);
  if (error || !is_folder || access(existing.c_str(), W_OK) != 0) {
    return {
        .what = "disk",
        .finding = Finding::kProblem,
        .seen = fmt::format("{} cannot be written", existing.string()),
        .todo = "give its owner to the user of afterimage, or set memory.disk to another folder"};
  }
  Examined disk{
      .what = "disk",
      .seen = fmt::format("{}: {} free, {} wanted (memory.disk_size)", folder,
                          readable(Bytes(space.available)), print_size(settings.memory.disk_size))};
  const bool is_new = !std::filesystem::exists(folder, error);
  if (space.available < settings.memory.disk_size.value() && is_new) {
    disk.finding = Finding::kNote;
    disk.todo = "lower memory.disk_size: a disk that is full refuses entries";
  }
  return disk;
}

Examined examine_io() {
  if (make_uring_io() != nullptr) return {.what = "io_uring", .seen = "the kernel allows it"};
  return {.what = "io_uring",
          .finding = Finding::kNote,
          .seen = "the kernel or the container forbids it: threads read and write the disk",
          .todo = "in a container allow it (seccomp) if the disk is faster than 1 GB/s"};
}

Examined examine_gpu() {
  const auto nvidia = NvmlGauge::open(0);
  if (nvidia.has_value()) {
    const auto reading = (*nvidia)->read();
    if (reading.has_value()) {
      return {.what = "gpu",
              .seen = fmt::format("NVIDIA, {}, {} in use", readable(reading->total),
                                  readable(reading->used))};
    }
  }
  if (RocmGauge::open(0).has_value()) return {.what = "gpu", .seen = "AMD"};
  return {.what = "gpu", .seen = "none is seen from here; before another server none is needed"};
}

Examined examine_server(const UpstreamSettings& upstream) {
  if (!upstream.is_set()) {
    return {.what = "server",
            .finding = Finding::kNote,
            .seen = "none is named",
            .todo = "--upstream http://127.0.0.1:8000, or afterimage serve --engine llama"};
  }
  const auto info = model_server_of(upstream);
  if (!info.has_value()) {
    return {.what = "server",
            .finding = Finding::kProblem,
            .seen = info.error().message,
            .todo = "start it, or put its address into upstream.url"};
  }
  if (info->needs_key) {
    const bool has_key = !upstream.key_env.empty();
    return {.what = "server",
            .finding = has_key ? Finding::kProblem : Finding::kNote,
            .seen = has_key ? "it refuses the key of upstream.key_env" : "it wants a key",
            .todo = has_key ? "put a valid key into the variable " + upstream.key_env
                            : "clients' keys are sent on; upstream.key_env names one for all"};
  }
  const std::string models = plural(info->models.size(), "model");
  Examined server{.what = "server",
                  .seen = fmt::format("{}{}{}, {}", to_string(info->kind),
                                      info->version.empty() ? "" : " ", info->version, models)};
  if (info->models.empty()) {
    // Others may list none and serve all the same.
    const bool lists = info->kind != ServerKind::kUnknown;
    server.finding = lists ? Finding::kProblem : Finding::kNote;
    server.todo = lists ? "load a model there: GET /v1/models lists none"
                        : "GET /v1/models lists none there: is this the address of the API?";
  } else if (info->caches_prefixes == false) {
    server.finding = Finding::kNote;
    server.seen += ", which keeps no prefixes of prompts";
    server.todo = info->kind == ServerKind::kVllm ? "start it with --enable-prefix-caching"
                                                  : "start it without --disable-radix-cache";
  }
  return server;
}

/// A document of the running gateway.
Result<DoctorJson> admin_document(const std::string& server, const std::string& path) {
  AFI_TRY(Url url, parse_url(server));
  url.target = path;
  HttpQuestion question{.url = url, .deadline = std::chrono::seconds(5)};
  const std::string token = environment("AFTERIMAGE_ADMIN_TOKEN").value_or("");
  if (!token.empty()) question.headers["Authorization"] = "Bearer " + token;
  AFI_TRY(const HttpAnswer answer, http_get(question));
  DoctorJson read = DoctorJson::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (answer.status == 401) {
    return fail(ErrorCode::kInvalidArgument, "it wants the token of AFTERIMAGE_ADMIN_TOKEN");
  }
  if (answer.status != 200 || !read.is_object()) {
    return fail(ErrorCode::kUnavailable, server + " is not the admin port of a gateway");
  }
  return read;
}

constexpr std::int64_t kHour = 3'600'000;  // milliseconds

/// Of the last hour: what became of them, and which reasons kept repeated ones from the cache.
struct LastHour {
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::map<std::string, std::uint64_t> missed;  // repeats, by reason
};
LastHour last_hour(const DoctorJson& decisions, std::int64_t now) {
  LastHour found;
  for (const DoctorJson& one : decisions) {
    if (one.value("at_ms", std::int64_t{0}) + kHour < now) continue;
    ++found.requests;
    const std::string outcome = one.value("outcome", "");
    if (outcome == "hit" || outcome == "joined") {
      ++found.hits;
    } else if (one.contains("repeats") && one["repeats"] == true) {
      ++found.missed[one.value("reason", "")];
    }
  }
  return found;
}

/// What would change that requests bypass the cache for this reason; empty: nothing.
std::string remedy_of(const DoctorJson& requests, const std::string& reason) {
  for (const DoctorJson& bypass : requests.value("bypasses", DoctorJson::array())) {
    if (bypass.value("reason", "") == reason) return bypass.value("remedy", "");
  }
  return {};
}

/// What made the server compute the most tokens again.
std::optional<Examined> examine_prompts(const DoctorJson& requests) {
  const DoctorJson causes = requests.value("prefix_causes", DoctorJson::array());
  if (causes.empty() || causes.front().value("lost_tokens", std::uint64_t{0}) == 0) {
    return std::nullopt;
  }
  const DoctorJson& worst = causes.front();
  const std::string place = worst.value("place", worst.value("reason", ""));
  return Examined{
      .what = "prompts",
      .finding = Finding::kNote,
      .seen = fmt::format("{} tokens were computed again by {}: {}",
                          worst["lost_tokens"].get<std::uint64_t>(),
                          plural(worst.value("requests", std::uint64_t{0}), "request"), place),
      .todo = worst.value("remedy", "")};
}

void examine_tiers(const DoctorJson& stats, std::vector<Examined>& out) {
  for (const DoctorJson& tier : stats.value("tiers", DoctorJson::array())) {
    const std::string reason = tier.value("degraded_reason", "");
    if (reason.empty()) continue;
    out.push_back({.what = "tier",
                   .finding = Finding::kProblem,
                   .seen = tier.value("name", "") + ": " + reason,
                   .todo = "docs/operate.md says what each reason means"});
  }
}

/// Throws what the JSON library throws if the documents have another form.
void examine_documents(const DoctorJson& stats, const DoctorJson& decisions,
                       std::vector<Examined>& out) {
  const DoctorJson requests = stats.value("requests", DoctorJson::object());
  const LastHour hour =
      last_hour(decisions.value("decisions", DoctorJson::array()),
                std::chrono::floor<std::chrono::milliseconds>(SystemWallClock().now())
                    .time_since_epoch()
                    .count());
  out.push_back(
      {.what = "requests",
       .seen = fmt::format("{} of the last hour (of the last 500), {} answered from the cache",
                           plural(hour.requests, "request"), hour.hits)});
  for (const auto& [reason, repeats] : hour.missed) {
    const std::string todo = remedy_of(requests, reason);
    out.push_back({.what = "requests",
                   .finding = todo.empty() ? Finding::kFine : Finding::kNote,
                   .seen = fmt::format("{} that had been asked before did not hit: {}",
                                       plural(repeats, "request"), reason),
                   .todo = todo});
  }
  if (auto prompts = examine_prompts(requests)) out.push_back(*std::move(prompts));
  examine_tiers(stats, out);
}

Result<std::vector<Examined>> documents_of(const std::string& server) {
  AFI_TRY(const DoctorJson stats, admin_document(server, "/admin/api/stats"));
  AFI_TRY(const DoctorJson decisions, admin_document(server, "/admin/api/decisions?limit=500"));
  std::vector<Examined> found;
  try {
    examine_documents(stats, decisions, found);
  } catch (const DoctorJson::exception&) {
    return fail(ErrorCode::kUnavailable, server + " answers, but not as this gateway does");
  }
  return found;
}

/// What a running gateway says of its clients' requests, its tiers and their prompts.
void examine_gateway(const std::string& server, std::vector<Examined>& out) {
  auto found = documents_of(server);
  if (found.has_value()) {
    std::ranges::move(*found, std::back_inserter(out));
    return;
  }
  out.push_back({.what = "requests",
                 .finding = Finding::kNote,
                 .seen = "no gateway told of its requests: " + found.error().message,
                 .todo = "start afterimage serve, or name its admin port with --server"});
}

std::vector<Examined> examine(const DoctorArgs& args, const Settings& settings,
                              const Files& files) {
  std::vector<Examined> all{examine_cpu(),          examine_memory(settings, files),
                            examine_disk(settings), examine_io(),
                            examine_gpu(),          examine_server(settings.upstream)};
  examine_gateway(args.server, all);
  return all;
}

void print_table(const std::vector<Examined>& all) {
  for (const Examined& one : all) {
    fmt::print("{:<9} {:<8} {}\n", one.what, to_string(one.finding), one.seen);
    if (!one.todo.empty()) fmt::print("{:>19}{}\n", "", "-> " + one.todo);
  }
}

void print_json(const std::vector<Examined>& all) {
  DoctorJson list = DoctorJson::array();
  for (const Examined& one : all) {
    list.push_back({{"what", one.what},
                    {"finding", to_string(one.finding)},
                    {"seen", one.seen},
                    {"todo", one.todo}});
  }
  fmt::print("{}\n", list.dump(2, ' ', false, DoctorJson::error_handler_t::replace));
}

Result<Settings> doctor_settings(const DoctorArgs& args, const Files& files) {
  std::string text;
  if (!args.config.empty()) {
    AFI_TRY(const auto bytes, files.read(args.config, 1_MiB));
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  AFI_TRY(Settings settings, parse_settings(text, args.config.empty() ? "defaults" : args.config));
  if (args.upstream.empty()) return settings;
  AFI_TRY([[maybe_unused]] const Url checked, server_address(args.upstream));
  settings.upstream.url = args.upstream;
  settings.upstream.replicas.clear();
  return settings;
}

ExitCode doctor(const DoctorArgs& args, const World& world) {
  const auto settings = doctor_settings(args, world.files);
  if (!settings.has_value()) {
    return report_error("doctor", settings.error(), ExitCode::kUsageError);
  }
  const std::vector<Examined> all = examine(args, *settings, world.files);
  args.json ? print_json(all) : print_table(all);
  const bool has_problem = std::ranges::any_of(
      all, [](const Examined& one) { return one.finding == Finding::kProblem; });
  return has_problem ? ExitCode::kProblem : ExitCode::kFine;
}

}  // namespace

void add_doctor(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<DoctorArgs>();
  CLI::App* verb = program.add_subcommand(
      "doctor",
      "Look at this machine, the model's server and the requests of the last hour, and say what\n"
      "to do");
  verb->add_option("--config", args->config, "Settings file of the gateway")->type_name("FILE");
  verb->add_option("--upstream", args->upstream,
                   "The model's server, instead of upstream.url of the settings")
      ->type_name("URL");
  verb->add_option("--server", args->server,
                   "The admin port of a running gateway, which is asked for its requests")
      ->capture_default_str()
      ->type_name("URL");
  verb->add_flag("--json", args->json, "Print JSON");
  verb->footer(
      "Examples:\n"
      "  afterimage doctor --upstream http://127.0.0.1:8000\n"
      "  afterimage doctor --config afterimage.toml --json\n"
      "Each line is fine, a note, or a problem; the exit code is 1 if one is a problem. Nothing "
      "is\n"
      "changed.");
  verb->callback([args, &world, &code] { code = doctor(*args, world); });
}

}  // namespace afterimage
