// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include "foundation/text/quantities.h"
#include "lab/simulation/simulation_report.h"

namespace afterimage {
namespace {

std::string gigabits(double bytes_per_second) {
  return fmt::format("{:g} Gbit/s", bytes_per_second * 8 / 1e9);
}

}  // namespace

std::vector<std::string> assumptions(const ClusterOptions& options) {
  const NodeOptions& node = options.node;
  const RemoteOptions& remote = options.remote;
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("node: {} engine(s), each encodes {:g} image tokens/s or prefills {:g} tokens/s "
                  "(half that rate at position {:g}), one item at a time; decoding is not modelled",
                  node.engines, node.encode_rate, node.prefill_rate, node.attention_tokens));
  lines.push_back(fmt::format("encoder output {} per token, KV {}", readable(node.encoder_bytes),
                              node.kv_bytes == 0_B ? "not cached" : readable(node.kv_bytes)));
  lines.push_back(fmt::format("memory {} per node, policy {}, network {} each way",
                              readable(node.memory), node.policy, gigabits(node.network)));
  lines.push_back(node.disk == 0_B
                      ? std::string("no disks")
                      : fmt::format("disk {} per node, reads {:g} GB/s after {:g} ms, writes "
                                    "{:g} GB/s, evicts segments of {}",
                                    readable(node.disk), node.disk_read / 1e9,
                                    to_milliseconds(node.disk_latency), node.disk_write / 1e9,
                                    readable(node.segment)));
  lines.push_back(
      remote.shards == 0
          ? std::string("no remote tier")
          : fmt::format(
                "shard: {}, policy {}, network {} each way, {:g} ms round trip; nodes write new "
                "entries through; nodes {} each other's encoding",
                readable(remote.memory), remote.policy, gigabits(remote.network),
                to_milliseconds(remote.round_trip),
                remote.leases ? "wait for" : "do not wait for"));
  lines.push_back(node.measured_loads
                      ? "entries are loaded only if loading is expected to be faster than computing"
                      : "available entries are always loaded");
  lines.push_back(
      fmt::format("the first {:g} % of the requests warm the caches and are not counted",
                  100 * options.warm_up));
  return lines;
}

std::vector<std::string> assumptions(const TrafficOptions& t) {
  return {fmt::format("{} images of {} to {} tokens, Zipf popularity with exponent {:g}", t.images,
                      t.least_image_tokens, t.most_image_tokens, t.skew),
          fmt::format("each task: {} image(s), {} agent(s), each in a session of {:g} turns on "
                      "average, {:g} s apart",
                      t.images_per_task, t.agents, t.turns, to_milliseconds(t.think) / 1e3),
          fmt::format("prompts: {} instruction tokens, the images, questions of {} and answers "
                      "of {} tokens",
                      t.instruction_tokens, t.question_tokens, t.answer_tokens),
          fmt::format("Poisson arrival of tasks, seed {}", t.seed)};
}

}  // namespace afterimage
