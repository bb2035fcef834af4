// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/workload/trace.h"
#include "cli/output.h"
#include "foundation/platform/terminal.h"
#include "lab/cli/settings_args.h"
#include "lab/cli/verbs.h"
#include "lab/simulation/simulation_report.h"

namespace afterimage {
namespace {

/// The flags in the units of the command line: gigabits, milliseconds, per cent.
struct SimulateArgs {
  std::vector<std::uint32_t> nodes = {1, 10};
  std::vector<std::uint32_t> shards = {4};
  std::vector<std::string> policies = {NodeOptions().policy};
  std::vector<std::string> routes = {"affinity"};
  std::string trace;
  TrafficOptions traffic;
  std::string image_tokens = "256-1280";
  double rate = 6;  // requests per second and node
  double think = 20;
  ClusterOptions cluster;
  std::uint64_t memory = NodeOptions().memory.value();
  std::uint64_t disk = NodeOptions().disk.value();
  std::uint64_t segment = NodeOptions().segment.value();
  std::uint64_t encoder_bytes = NodeOptions().encoder_bytes.value();
  std::uint64_t kv_bytes = NodeOptions().kv_bytes.value();
  std::uint64_t disk_read = 3'000'000'000;
  std::uint64_t disk_write = 1'500'000'000;
  double disk_latency = 0.1;
  double network = 25;
  std::uint64_t shard_memory = RemoteOptions().memory.value();
  double shard_network = 25;
  double round_trip = 0.2;
  bool no_leases = false;
  bool load_always = false;
  std::optional<double> lose_shard;  // per cent
  std::optional<double> add_shard;
  double replaced_after = 60;
  double warm_up = 20;
  std::uint32_t jobs = 0;
  std::string config;
  bool print_config = false;
  std::string json;
  std::string page;
};

Duration of_milliseconds(double ms) {
  return Duration(static_cast<Duration::rep>(std::llround(ms * 1e6)));
}

/// "256-1280", or "576" for images of one size.
Result<void> read_image_tokens(const std::string& text, TrafficOptions& traffic) {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  char more = 0;
  const int read = std::sscanf(text.c_str(), "%u-%u%c", &least, &most, &more);
  if (read == 1 && text.find_first_not_of("0123456789") == std::string::npos) most = least;
  if (least == 0 || most < least || read > 2) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--image-tokens \"" + text + "\": expected a number or a range of tokens, 576 or 256-1280");
  }
  traffic.least_image_tokens = least;
  traffic.most_image_tokens = most;
  return {};
}

ClusterOptions cluster_of(const SimulateArgs& args) {
  ClusterOptions options = args.cluster;
  options.warm_up = args.warm_up / 100;
  NodeOptions& node = options.node;
  node.memory = Bytes(args.memory);
  node.disk = Bytes(args.disk);
  node.segment = Bytes(args.segment);
  node.encoder_bytes = Bytes(args.encoder_bytes);
  node.kv_bytes = Bytes(args.kv_bytes);
  node.disk_read = static_cast<double>(args.disk_read);
  node.disk_write = static_cast<double>(args.disk_write);
  node.disk_latency = of_milliseconds(args.disk_latency);
  node.network = args.network * 1e9 / 8;
  node.measured_loads = !args.load_always;
  RemoteOptions& remote = options.remote;
  remote.memory = Bytes(args.shard_memory);
  remote.network = args.shard_network * 1e9 / 8;
  remote.round_trip = of_milliseconds(args.round_trip);
  remote.leases = !args.no_leases;
  remote.replaced_after = of_milliseconds(1e3 * args.replaced_after);
  if (args.lose_shard.has_value()) remote.lose_at = *args.lose_shard / 100;
  if (args.add_shard.has_value()) remote.add_at = *args.add_shard / 100;
  return options;
}

/// Every combination of the list options, named by the options that differ.
Result<std::vector<SimulatedCluster>> combinations(const SimulateArgs& args) {
  std::vector<SimulatedCluster> all;
  for (const std::uint32_t nodes : args.nodes) {
    for (const std::uint32_t shards : args.shards) {
      for (const std::string& policy : args.policies) {
        for (const std::string& route : args.routes) {
          SimulatedCluster one;
          one.result.options = cluster_of(args);
          ClusterOptions& options = one.result.options;
          options.nodes = nodes;
          options.remote.shards = shards;
          options.node.policy = policy;
          AFI_TRY(options.routing, routing_of(route));
          AFI_TRY_VOID(check(options));
          one.name = fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s");
          if (args.shards.size() > 1) one.name += fmt::format(", {} shards", shards);
          if (args.policies.size() > 1) one.name += ", " + policy;
          if (args.routes.size() > 1) one.name += ", " + route;
          all.push_back(std::move(one));
        }
      }
    }
  }
  return all;
}

/// One simulation of the run.
struct SimulationJob {
  ClusterOptions options;
  Result<SimulationResult> result = fail(ErrorCode::kUnavailable, "not simulated");
  std::uint64_t done = 0;  // requests
};

/// One progress line for all jobs on standard error; empty unless standard error is a terminal.
class SharedProgress {
 public:
  explicit SharedProgress(std::vector<SimulationJob>& jobs) : jobs_(jobs) {}

  SimulationProgress of(SimulationJob& job) {
    if (!shown_) return {};
    return [this, &job](std::uint64_t done, std::uint64_t of) {
      const std::lock_guard lock(mutex_);
      job.done = done;
      draw(of * jobs_.size());
    };
  }

 private:
  void draw(std::uint64_t of) {
    constexpr std::uint64_t kWidth = 30;
    std::uint64_t done = 0;
    for (const SimulationJob& job : jobs_) done += job.done;
    const std::uint64_t filled = of == 0 ? kWidth : kWidth * done / of;
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {} of {} requests\033[K", "", filled, "", kWidth - filled,
               done, of);
    if (done == of) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

  std::vector<SimulationJob>& jobs_;
  const bool shown_ = standard_error_is_terminal();
  std::mutex mutex_;
};

Result<SimulationResult> simulate_one(const ClusterOptions& options, const SimulateArgs& args,
                                      const Trace* trace, const SimulationProgress& progress) {
  std::unique_ptr<Traffic> traffic;
  if (trace != nullptr) {
    traffic = traced_traffic(*trace);
  } else {
    TrafficOptions generated = args.traffic;
    generated.rate = args.rate * options.nodes;
    AFI_TRY(traffic, generated_traffic(generated));
  }
  return simulate(options, *traffic, progress);
}

/// Runs all jobs in parallel. Jobs share no state, so results do not depend on scheduling.
void run_all(std::vector<SimulationJob>& jobs, const SimulateArgs& args, const Trace* trace) {
  SharedProgress progress(jobs);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      jobs[i].result = simulate_one(jobs[i].options, args, trace, progress.of(jobs[i]));
    }
  };
  const std::size_t threads = args.jobs > 0 ? args.jobs : std::thread::hardware_concurrency();
  std::vector<std::jthread> workers;
  for (std::size_t i = 1; i < std::min(threads, jobs.size()); ++i) workers.emplace_back(work);
  work();
}

Result<SimulationReport> simulate_all(SimulateArgs& args, const Trace* trace) {
  args.traffic.think = of_milliseconds(1e3 * args.think);
  AFI_TRY_VOID(read_image_tokens(args.image_tokens, args.traffic));
  SimulationReport report;
  AFI_TRY(report.clusters, combinations(args));
  if (trace != nullptr) {
    report.traffic = fmt::format("{}: {} requests", args.trace, trace->requests.size());
  } else {
    args.traffic.rate = args.rate;
    report.traffic =
        fmt::format("generated traffic: {} requests, {:g} per second and node, {} images",
                    args.traffic.requests, args.rate, args.traffic.images);
    report.assumptions = assumptions(args.traffic);
  }
  const bool disturbed = args.lose_shard.has_value() || args.add_shard.has_value();
  std::vector<SimulationJob> jobs;
  for (const SimulatedCluster& cluster : report.clusters) {
    jobs.push_back({.options = cluster.result.options});
    if (!disturbed) continue;
    jobs.push_back(jobs.back());
    RemoteOptions& undisturbed = jobs.back().options.remote;
    undisturbed.lose_at = undisturbed.add_at = std::nullopt;
  }
  run_all(jobs, args, trace);
  auto job = jobs.begin();
  for (SimulatedCluster& cluster : report.clusters) {
    AFI_TRY(cluster.result, std::move(job++->result));
    if (!disturbed) continue;
    AFI_TRY(cluster.undisturbed, std::move(job++->result));
  }
  return report;
}

ExitCode run(SimulateArgs& args, World& world) {
  for (const std::string& path : {args.json, args.page}) {
    if (path.empty() || path == "-") continue;
    if (const auto writable = world.files.check_replaceable(path); !writable) {
      return report_error("simulate", writable.error(), ExitCode::kUsageError);
    }
  }
  std::optional<Trace> trace;
  if (!args.trace.empty()) {
    auto read = read_trace(world.files, args.trace);
    if (!read) return report_error("simulate", read.error(), ExitCode::kUsageError);
    trace = *std::move(read);
  }
  const auto report = simulate_all(args, trace.has_value() ? &*trace : nullptr);
  if (!report) return report_error("simulate", report.error(), ExitCode::kUsageError);
  fmt::print("{}", args.json == "-" ? to_json(*report) : to_table(*report));
  for (const auto& written : {write_output(args.json, to_json(*report), world.files),
                              write_output(args.page, to_html(*report), world.files)}) {
    if (!written) return report_error("simulate", written.error(), ExitCode::kProblem);
  }
  const bool all_read = !trace.has_value() || trace->rejected.empty();
  return all_read ? ExitCode::kFine : ExitCode::kProblem;
}

/// Fills in the settings of --config that the command line leaves out, then runs.
ExitCode configured(CLI::App& verb, SimulateArgs& args, World& world) {
  if (!args.config.empty()) {
    const auto applied = take_settings(verb, args.config, world.files);
    if (!applied) return report_error("simulate", applied.error(), ExitCode::kUsageError);
  }
  if (!args.print_config) return run(args, world);
  fmt::print("{}", settings_text(verb));
  return ExitCode::kFine;
}

template <typename Value>
CLI::Option* add(CLI::App* verb, const char* name, Value& value, const char* help,
                 const char* type) {
  return verb->add_option(name, value, help)->capture_default_str()->type_name(type);
}

void add_size(CLI::App* verb, const char* name, std::uint64_t& value, const char* help,
              const char* shown) {
  verb->add_option(name, value, help)
      ->transform(CLI::AsSizeValue(false))
      ->default_str(shown)
      ->type_name("SIZE");
}

void add_cluster(CLI::App* verb, SimulateArgs& args) {
  verb->option_defaults()->group("Cluster");
  verb->add_option("--nodes", args.nodes, "Number of nodes; a list is compared")
      ->delimiter(',')
      ->default_str("1,10")
      ->type_name("N,…");
  verb->add_option("--shards", args.shards,
                   "Shards of the remote tier; 0: no remote tier; a "
                   "list is compared")
      ->delimiter(',')
      ->default_str("4")
      ->type_name("N,…");
  verb->add_option("--policy", args.policies,
                   "Eviction policy of a node's memory; a list is "
                   "compared")
      ->delimiter(',')
      ->default_str(NodeOptions().policy)
      ->type_name("NAME,…");
  verb->add_option("--route", args.routes,
                   "Routing by session (affinity), by image (image), or round-robin;\n"
                   "a list is compared")
      ->delimiter(',')
      ->default_str("affinity")
      ->type_name("NAME,…");
  add(verb, "--warm-up", args.warm_up,
      "Percentage of requests, from the first, that warm the caches and are not counted",
      "PERCENT");
}

void add_traffic(CLI::App* verb, SimulateArgs& args) {
  verb->option_defaults()->group("Traffic");
  TrafficOptions& t = args.traffic;
  add(verb, "--trace", args.trace, "Trace to play, plain or gzipped, instead of generated traffic",
      "FILE");
  add(verb, "--requests", t.requests, "Number of requests", "N");
  add(verb, "--images", t.images, "Number of distinct images", "N");
  add(verb, "--skew", t.skew, "Zipf exponent of the images' popularity; 0: uniform", "S");
  add(verb, "--rate", args.rate, "Requests per second and node", "N");
  add(verb, "--images-per-task", t.images_per_task, "Images per task", "N");
  add(verb, "--agents", t.agents, "Agents that share a task's images", "N");
  add(verb, "--turns", t.turns, "Turns per session, on average", "N");
  add(verb, "--think", args.think, "Seconds between two turns of a session, on average", "S");
  add(verb, "--image-tokens", args.image_tokens, "Tokens per image: a number, or a range MIN-MAX",
      "N-N");
  add(verb, "--instruction-tokens", t.instruction_tokens,
      "Tokens of the instructions that all prompts of an agent begin with", "N");
  add(verb, "--question-tokens", t.question_tokens, "Tokens per question", "N");
  add(verb, "--answer-tokens", t.answer_tokens,
      "Tokens per answer, which the next prompt "
      "includes",
      "N");
  add(verb, "--seed", t.seed, "Random seed of the generated traffic", "N");
}

void add_nodes(CLI::App* verb, SimulateArgs& args) {
  verb->option_defaults()->group("Node");
  NodeOptions& node = args.cluster.node;
  add_size(verb, "--memory", args.memory, "Memory per node, for encoder outputs and KV", "32GiB");
  add_size(verb, "--disk", args.disk, "Disk per node; 0: no disk tier", "1TiB");
  add_size(verb, "--segment", args.segment, "Disk segment size, the unit of eviction on disk",
           "256MiB");
  add(verb, "--engines", node.engines, "Engines per node; each runs one task at a time", "N");
  add(verb, "--encode-rate", node.encode_rate, "Image tokens that an engine encodes per second",
      "N");
  add(verb, "--prefill-rate", node.prefill_rate,
      "Tokens that an engine prefills per second, early in a prompt", "N");
  add_size(verb, "--encoder-bytes", args.encoder_bytes, "Bytes of encoder output per token",
           "8KiB");
  add_size(verb, "--kv-bytes", args.kv_bytes, "Bytes of KV per token; 0: KV is not cached",
           "128KiB");
  add_size(verb, "--disk-read", args.disk_read, "Disk read bandwidth, bytes per second",
           "3000000000");
  add_size(verb, "--disk-write", args.disk_write, "Disk write bandwidth, bytes per second",
           "1500000000");
  add(verb, "--disk-latency", args.disk_latency, "Latency of a disk read, milliseconds", "MS");
  add(verb, "--network", args.network,
      "Bandwidth per node and direction, Gbit/s; 0: no remote "
      "tier",
      "GBIT");
  verb->add_flag("--load-always", args.load_always,
                 "Load cached entries even where computing them is expected to be faster");
}

void add_remote(CLI::App* verb, SimulateArgs& args) {
  verb->option_defaults()->group("Remote");
  add_size(verb, "--shard-memory", args.shard_memory, "Memory per shard", "256GiB");
  add(verb, "--shard-network", args.shard_network, "Bandwidth per shard and direction, Gbit/s",
      "GBIT");
  add(verb, "--round-trip", args.round_trip, "Round trip to a shard, milliseconds", "MS");
  verb->add_flag("--no-leases", args.no_leases,
                 "Without leases: nodes do not wait for what another node is encoding");
  verb->add_option("--lose-shard", args.lose_shard,
                   "Lose the first shard after this percentage of the requests, and compare with "
                   "an\n"
                   "undisturbed run")
      ->type_name("PERCENT");
  add(verb, "--replaced-after", args.replaced_after,
      "Seconds until an empty shard replaces the "
      "lost one",
      "S");
  verb->add_option("--add-shard", args.add_shard,
                   "Add a shard after this percentage of the "
                   "requests, and compare likewise")
      ->type_name("PERCENT");
}

}  // namespace

void add_simulate(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<SimulateArgs>();
  CLI::App* verb = program.add_subcommand(
      "simulate",
      "Simulate a cluster of nodes and remote shards with the real policies, in simulated time:\n"
      "hits by tier, network traffic, time to first token, compute saved, cost of losing a shard");
  const std::string ungrouped = verb->option_defaults()->get_group();
  add_cluster(verb, *args);
  add_traffic(verb, *args);
  add_nodes(verb, *args);
  add_remote(verb, *args);
  verb->option_defaults()->group(ungrouped);
  verb->add_option("--jobs", args->jobs,
                   "Clusters simulated in parallel, each with its own memory; 0: one per "
                   "processor.\n"
                   "The results do not depend on it")
      ->default_str("0")
      ->type_name("N");
  verb->add_option("--config", args->config, "Settings file; flags override it")->type_name("FILE");
  verb->add_flag("--print-config", args->print_config,
                 "Print all settings with their values, and exit");
  verb->add_option("--json", args->json, "Write the results as JSON; - for standard output")
      ->type_name("FILE");
  verb->add_option("--report", args->page, "Write an HTML page with the results over time")
      ->type_name("OUT.html");
  verb->footer(
      "Examples:\n"
      "  afterimage-lab simulate --nodes 1,10,100\n"
      "  afterimage-lab simulate --nodes 10 --route affinity,image --images 100000 --report "
      "page.html\n"
      "  afterimage-lab simulate --nodes 4 --lose-shard 60\n"
      "  afterimage-lab simulate --print-config > cluster.toml\n"
      "  afterimage-lab simulate --config cluster.toml --nodes 100\n"
      "  afterimage-lab simulate --trace requests.jsonl.gz --nodes 2 --json -");
  verb->callback([args, verb, &world, &code] { code = configured(*verb, *args, world); });
}

}  // namespace afterimage
