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

#include "cli/settings_args.h"
#include "cli/verbs.h"
#include "foundation/platform/terminal.h"
#include "lab/simulation/simulation_report.h"
#include "lab/workload/trace.h"

namespace afterimage {
namespace {

/// Flags as people say them: gigabits, milliseconds, per cent.
struct SimulateArgs {
  std::vector<std::uint32_t> nodes = {1, 10};
  std::vector<std::uint32_t> shards = {4};
  std::vector<std::string> policies = {NodeOptions().policy};
  std::vector<std::string> routes = {"affinity"};
  std::string trace;
  TrafficOptions traffic;
  std::string image_tokens = "256-1280";
  double rate = 6;  // of a node
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

ExitCode complain(const Error& error, ExitCode code) {
  fmt::print(stderr, "afterimage simulate: {}\n", error.message);
  return code;
}

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
    return fail(ErrorCode::kInvalidArgument,
                "\"" + text + "\" are no tokens of an image: say 576, or 256-1280");
  }
  traffic.least_image_tokens = least;
  traffic.most_image_tokens = most;
  return {};
}

ClusterOptions cluster_of(const SimulateArgs& call) {
  ClusterOptions options = call.cluster;
  options.warm_up = call.warm_up / 100;
  NodeOptions& node = options.node;
  node.memory = Bytes(call.memory);
  node.disk = Bytes(call.disk);
  node.segment = Bytes(call.segment);
  node.encoder_bytes = Bytes(call.encoder_bytes);
  node.kv_bytes = Bytes(call.kv_bytes);
  node.disk_read = static_cast<double>(call.disk_read);
  node.disk_write = static_cast<double>(call.disk_write);
  node.disk_latency = of_milliseconds(call.disk_latency);
  node.network = call.network * 1e9 / 8;
  node.measured_loads = !call.load_always;
  RemoteOptions& remote = options.remote;
  remote.memory = Bytes(call.shard_memory);
  remote.network = call.shard_network * 1e9 / 8;
  remote.round_trip = of_milliseconds(call.round_trip);
  remote.leases = !call.no_leases;
  remote.replaced_after = of_milliseconds(1e3 * call.replaced_after);
  if (call.lose_shard.has_value()) remote.lose_at = *call.lose_shard / 100;
  if (call.add_shard.has_value()) remote.add_at = *call.add_shard / 100;
  return options;
}

/// Every combination of what was given as a list, named by what differs.
Result<std::vector<SimulatedCluster>> combinations(const SimulateArgs& call) {
  std::vector<SimulatedCluster> all;
  for (const std::uint32_t nodes : call.nodes) {
    for (const std::uint32_t shards : call.shards) {
      for (const std::string& policy : call.policies) {
        for (const std::string& route : call.routes) {
          SimulatedCluster one;
          one.result.options = cluster_of(call);
          ClusterOptions& options = one.result.options;
          options.nodes = nodes;
          options.remote.shards = shards;
          options.node.policy = policy;
          AFI_TRY(options.routing, routing_of(route));
          AFI_TRY_VOID(check(options));
          one.name = fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s");
          if (call.shards.size() > 1) one.name += fmt::format(", {} shards", shards);
          if (call.policies.size() > 1) one.name += ", " + policy;
          if (call.routes.size() > 1) one.name += ", " + route;
          all.push_back(std::move(one));
        }
      }
    }
  }
  return all;
}

/// One simulation of a call.
struct PlayJob {
  ClusterOptions options;
  Result<SimulationResult> result = fail(ErrorCode::kUnavailable, "not played");
  std::uint64_t done = 0;  // requests
};

/// One line for all of them that is drawn over itself; nothing at all when nobody looks.
class PlayProgress {
 public:
  explicit PlayProgress(std::vector<PlayJob>& jobs) : jobs_(jobs) {}

  SimulationProgress of(PlayJob& job) {
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
    for (const PlayJob& job : jobs_) done += job.done;
    const std::uint64_t filled = of == 0 ? kWidth : kWidth * done / of;
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {} of {} requests\033[K", "", filled, "", kWidth - filled,
               done, of);
    if (done == of) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

  std::vector<PlayJob>& jobs_;
  const bool shown_ = standard_error_is_terminal();
  std::mutex mutex_;
};

Result<SimulationResult> play(const ClusterOptions& options, const SimulateArgs& call,
                              const Trace* trace, const SimulationProgress& progress) {
  std::unique_ptr<Traffic> traffic;
  if (trace != nullptr) {
    traffic = traced_traffic(*trace);
  } else {
    TrafficOptions made_up = call.traffic;
    made_up.rate = call.rate * options.nodes;
    AFI_TRY(traffic, generated_traffic(made_up));
  }
  return simulate(options, *traffic, progress);
}

/// Beside each other: none knows of another, so what comes of one hangs on nobody's pace.
void play_all(std::vector<PlayJob>& jobs, const SimulateArgs& call, const Trace* trace) {
  PlayProgress progress(jobs);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      jobs[i].result = play(jobs[i].options, call, trace, progress.of(jobs[i]));
    }
  };
  const std::size_t at_once = call.jobs > 0 ? call.jobs : std::thread::hardware_concurrency();
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(at_once, jobs.size()); ++i) others.emplace_back(work);
  work();
}

Result<SimulationReport> simulate_all(SimulateArgs& call, const Trace* trace) {
  call.traffic.think = of_milliseconds(1e3 * call.think);
  AFI_TRY_VOID(read_image_tokens(call.image_tokens, call.traffic));
  SimulationReport report;
  AFI_TRY(report.clusters, combinations(call));
  if (trace != nullptr) {
    report.traffic = fmt::format("{}: {} requests", call.trace, trace->requests.size());
  } else {
    call.traffic.rate = call.rate;
    report.traffic = fmt::format("made-up traffic: {} requests, {:g} a second and node, {} images",
                                 call.traffic.requests, call.rate, call.traffic.images);
    report.assumptions = assumptions(call.traffic);
  }
  const bool disturbed = call.lose_shard.has_value() || call.add_shard.has_value();
  std::vector<PlayJob> jobs;
  for (const SimulatedCluster& cluster : report.clusters) {
    jobs.push_back({.options = cluster.result.options});
    if (!disturbed) continue;
    jobs.push_back(jobs.back());
    RemoteOptions& calm = jobs.back().options.remote;
    calm.lose_at = calm.add_at = std::nullopt;
  }
  play_all(jobs, call, trace);
  auto job = jobs.begin();
  for (SimulatedCluster& cluster : report.clusters) {
    AFI_TRY(cluster.result, std::move(job++->result));
    if (!disturbed) continue;
    AFI_TRY(cluster.undisturbed, std::move(job++->result));
  }
  return report;
}

Result<void> write(const std::string& path, const std::string& text, Files& files) {
  if (path.empty() || path == "-") return {};
  return files.replace(path, std::as_bytes(std::span(text)));
}

ExitCode run(SimulateArgs& call, World& world) {
  for (const std::string& path : {call.json, call.page}) {
    if (path.empty() || path == "-") continue;
    if (const auto writable = world.files.check_replaceable(path); !writable) {
      return complain(writable.error(), ExitCode::kUsageError);
    }
  }
  std::optional<Trace> trace;
  if (!call.trace.empty()) {
    auto read = read_trace(world.files, call.trace);
    if (!read) return complain(read.error(), ExitCode::kUsageError);
    trace = *std::move(read);
  }
  const auto report = simulate_all(call, trace.has_value() ? &*trace : nullptr);
  if (!report) return complain(report.error(), ExitCode::kUsageError);
  fmt::print("{}", call.json == "-" ? to_json(*report) : to_table(*report));
  for (const auto& written : {write(call.json, to_json(*report), world.files),
                              write(call.page, to_html(*report), world.files)}) {
    if (!written) return complain(written.error(), ExitCode::kProblem);
  }
  const bool all_read = !trace.has_value() || trace->rejected.empty();
  return all_read ? ExitCode::kFine : ExitCode::kProblem;
}

/// With what a file says where the call says nothing.
ExitCode configured(CLI::App& verb, SimulateArgs& call, World& world) {
  if (!call.config.empty()) {
    const auto taken = take_settings(verb, call.config, world.files);
    if (!taken) return complain(taken.error(), ExitCode::kUsageError);
  }
  if (!call.print_config) return run(call, world);
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

void add_cluster(CLI::App* verb, SimulateArgs& call) {
  verb->option_defaults()->group("Cluster");
  verb->add_option("--nodes", call.nodes, "How many; several are compared")
      ->delimiter(',')
      ->default_str("1,10")
      ->type_name("N,…");
  verb->add_option("--shards", call.shards, "Of the remote tier; 0: none; several are compared")
      ->delimiter(',')
      ->default_str("4")
      ->type_name("N,…");
  verb->add_option("--policy", call.policies, "Of a node's memory; several are compared")
      ->delimiter(',')
      ->default_str(NodeOptions().policy)
      ->type_name("NAME,…");
  verb->add_option("--route", call.routes,
                   "Requests go to their session's node (affinity), their image's (image), or to\n"
                   "each in its turn (round-robin); several are compared")
      ->delimiter(',')
      ->default_str("affinity")
      ->type_name("NAME,…");
  add(verb, "--warm-up", call.warm_up,
      "Per cent of the requests, from the first, that are not counted", "PERCENT");
}

void add_traffic(CLI::App* verb, SimulateArgs& call) {
  verb->option_defaults()->group("Traffic");
  TrafficOptions& t = call.traffic;
  add(verb, "--trace", call.trace, "A trace, plain or gzipped, instead of made-up traffic", "FILE");
  add(verb, "--requests", t.requests, "How many", "N");
  add(verb, "--images", t.images, "That there are to be asked about", "N");
  add(verb, "--skew", t.skew, "Zipf exponent of their popularity; 0: all alike", "S");
  add(verb, "--rate", call.rate, "Requests a second for each node", "N");
  add(verb, "--images-per-task", t.images_per_task, "That a task shows", "N");
  add(verb, "--agents", t.agents, "Who share a task's images", "N");
  add(verb, "--turns", t.turns, "Of a session, on average", "N");
  add(verb, "--think", call.think, "Seconds between two turns, on average", "S");
  add(verb, "--image-tokens", call.image_tokens, "Of an image: one size, or least-most", "N-N");
  add(verb, "--instruction-tokens", t.instruction_tokens,
      "That every prompt of an agent begins with", "N");
  add(verb, "--question-tokens", t.question_tokens, "Of a question", "N");
  add(verb, "--answer-tokens", t.answer_tokens, "Of an answer, in the next prompt", "N");
  add(verb, "--seed", t.seed, "Of all that is made up", "N");
}

void add_nodes(CLI::App* verb, SimulateArgs& call) {
  verb->option_defaults()->group("Node");
  NodeOptions& node = call.cluster.node;
  add_size(verb, "--memory", call.memory, "A node's, for encoder outputs and KV", "32GiB");
  add_size(verb, "--disk", call.disk, "A node's; 0: none", "1TiB");
  add_size(verb, "--segment", call.segment, "What leaves a disk at once", "256MiB");
  add(verb, "--engines", node.engines, "A node's; each does one thing at a time", "N");
  add(verb, "--encode-rate", node.encode_rate, "Tokens of images that one encodes in a second",
      "N");
  add(verb, "--prefill-rate", node.prefill_rate,
      "Tokens that one prefills in a second, early in a prompt", "N");
  add_size(verb, "--encoder-bytes", call.encoder_bytes, "Of a token of an encoder's output",
           "8KiB");
  add_size(verb, "--kv-bytes", call.kv_bytes, "Of a token's KV; 0: KV is not kept", "128KiB");
  add_size(verb, "--disk-read", call.disk_read, "A disk's, a second", "3000000000");
  add_size(verb, "--disk-write", call.disk_write, "A disk's, a second", "1500000000");
  add(verb, "--disk-latency", call.disk_latency, "Of a read", "MS");
  add(verb, "--network", call.network, "A node's, each way; 0: no remote tier", "GBIT");
  verb->add_flag("--load-always", call.load_always,
                 "Load what is there, also where computing it is expected to be quicker");
}

void add_remote(CLI::App* verb, SimulateArgs& call) {
  verb->option_defaults()->group("Remote");
  add_size(verb, "--shard-memory", call.shard_memory, "A shard's", "256GiB");
  add(verb, "--shard-network", call.shard_network, "A shard's, each way", "GBIT");
  add(verb, "--round-trip", call.round_trip, "To ask a shard", "MS");
  verb->add_flag("--no-leases", call.no_leases,
                 "Nodes do not wait for what another node is encoding");
  verb->add_option("--lose-shard", call.lose_shard,
                   "Lose the first shard after this part of the requests, and compare with a run\n"
                   "that does not")
      ->type_name("PERCENT");
  add(verb, "--replaced-after", call.replaced_after, "Seconds until an empty shard takes its place",
      "S");
  verb->add_option("--add-shard", call.add_shard, "The same with one shard more")
      ->type_name("PERCENT");
}

}  // namespace

void add_simulate(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<SimulateArgs>();
  CLI::App* verb = program.add_subcommand(
      "simulate",
      "What would so many nodes and shards do? The real policies, in simulated time: hits by "
      "tier,\n"
      "bytes on the wire, time to the first token, compute saved, what losing a shard costs");
  const std::string ungrouped = verb->option_defaults()->get_group();
  add_cluster(verb, *call);
  add_traffic(verb, *call);
  add_nodes(verb, *call);
  add_remote(verb, *call);
  verb->option_defaults()->group(ungrouped);
  verb->add_option("--jobs", call->jobs,
                   "Clusters that are played at once, each with memory of its own; 0: as many as\n"
                   "there are processors. The results are the same")
      ->default_str("0")
      ->type_name("N");
  verb->add_option("--config", call->config, "Settings; what the call says comes first")
      ->type_name("FILE");
  verb->add_flag("--print-config", call->print_config,
                 "Print all settings with what they are, and end");
  verb->add_option("--json", call->json, "Write the results; - for standard output")
      ->type_name("FILE");
  verb->add_option("--report", call->page, "Write a page with the results over time")
      ->type_name("OUT.html");
  verb->footer(
      "Examples:\n"
      "  afterimage simulate --nodes 1,10,100\n"
      "  afterimage simulate --nodes 10 --route affinity,image --images 100000 --report page.html\n"
      "  afterimage simulate --nodes 4 --lose-shard 60\n"
      "  afterimage simulate --print-config > cluster.toml\n"
      "  afterimage simulate --config cluster.toml --nodes 100\n"
      "  afterimage simulate --trace requests.jsonl.gz --nodes 2 --json -");
  verb->callback([call, verb, &world, &code] { code = configured(*verb, *call, world); });
}

}  // namespace afterimage
