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
  lines.push_back(fmt::format(
      "a node: {} engine(s), each encodes {:g} tokens of images or prefills {:g} tokens a second "
      "(half as many after {:g}), one thing at a time; decoding takes no time from others",
      node.engines, node.encode_rate, node.prefill_rate, node.attention_tokens));
  lines.push_back(fmt::format("an encoder's output has {} a token, KV {}",
                              readable(node.encoder_bytes),
                              node.kv_bytes == 0_B ? "is not kept" : readable(node.kv_bytes)));
  lines.push_back(fmt::format("memory {} a node, policy {}, network {} each way",
                              readable(node.memory), node.policy, gigabits(node.network)));
  lines.push_back(node.disk == 0_B
                      ? std::string("no disks")
                      : fmt::format("a disk of {} a node reads {:g} GB/s after {:g} ms, writes "
                                    "{:g} GB/s, and evicts segments of {}",
                                    readable(node.disk), node.disk_read / 1e9,
                                    to_milliseconds(node.disk_latency), node.disk_write / 1e9,
                                    readable(node.segment)));
  lines.push_back(
      remote.shards == 0
          ? std::string("no remote tier")
          : fmt::format("a shard: {}, policy {}, network {} each way, {:g} ms to ask; what is made "
                        "is sent there; nodes {} each other's encoding",
                        readable(remote.memory), remote.policy, gigabits(remote.network),
                        to_milliseconds(remote.round_trip),
                        remote.leases ? "wait for" : "do not know of"));
  lines.push_back(node.measured_loads
                      ? "what is expected to be computed sooner than loaded is computed"
                      : "what is there is loaded, however long that takes");
  lines.push_back(
      fmt::format("the first {:g} % of the requests fill the caches and are not counted",
                  100 * options.warm_up));
  return lines;
}

std::vector<std::string> assumptions(const TrafficOptions& t) {
  return {fmt::format("{} images of {} to {} tokens, popularity by Zipf with exponent {:g}",
                      t.images, t.least_image_tokens, t.most_image_tokens, t.skew),
          fmt::format("a task shows {} image(s) to {} agent(s), each in a session of {:g} turns on "
                      "average, {:g} s apart",
                      t.images_per_task, t.agents, t.turns, to_milliseconds(t.think) / 1e3),
          fmt::format("prompts: {} tokens of instructions, the images, questions of {} and answers "
                      "of {} tokens",
                      t.instruction_tokens, t.question_tokens, t.answer_tokens),
          fmt::format("tasks arrive by Poisson, seed {}", t.seed)};
}

}  // namespace afterimage
