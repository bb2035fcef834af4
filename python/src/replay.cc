// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "afterimage/clock.h"
#include "bench/workload/trace.h"
#include "bindings.h"
#include "foundation/platform/files.h"

namespace afterimage::python {

namespace {

nb::dict told(const ReplayResult& result) {
  nb::dict row;
  row["policy"] = result.policy;
  row["capacity_blocks"] = result.capacity_blocks;
  row["token_hit_ratio"] = result.token_hit_ratio;
  row["compute_saved_ratio"] = result.compute_saved_ratio;
  row["seconds_saved"] = result.seconds_saved;
  row["hits"] = result.hits;
  row["misses"] = result.misses;
  row["evictions"] = result.evictions;
  row["item_hits"] = result.item_hits;
  row["item_misses"] = result.item_misses;
  return row;
}

nb::list replay_trace(const std::string& path, std::vector<std::string> policies,
                      const std::vector<std::uint64_t>& capacities, double warm_up) {
  ReplayOptions options{.policies = std::move(policies), .warm_up = warm_up};
  for (const std::uint64_t blocks : capacities) {
    if (blocks == 0) raise(ErrorCode::kInvalidArgument, "expected capacities of at least 1 block");
    options.capacities.push_back({.name = std::to_string(blocks), .blocks = blocks});
  }
  const auto results = or_raise(without_gil([&]() -> Result<std::vector<ReplayResult>> {
    const SystemFiles files;
    const SystemClock clock;
    AFI_TRY(const Trace trace, read_trace(files, path));
    return replay(trace, options, clock);
  }));
  nb::list rows;
  for (const ReplayResult& result : results) rows.append(told(result));
  return rows;
}

}  // namespace

void bind_replay(nb::module_& module) {
  module.def("replay", replay_trace, nb::arg("trace"), nb::arg("policies"), nb::arg("capacities"),
             nb::kw_only(), nb::arg("warm_up") = 0.0,
             nb::sig("def replay(trace: str, policies: collections.abc.Sequence[str], capacities: "
                     "collections.abc.Sequence[int], *, warm_up: float = 0.0) -> list[dict[str, "
                     "str | int | float]]"),
             "Replays a request trace through eviction policies; returns one row per policy and "
             "capacity.\n"
             "\n"
             "trace: a file in the format of docs/formats/trace.md, of Mooncake or of "
             "Qwen-Bailian, plain or\n"
             "gzipped. policies: of policy_names(), or the bounds min and infinite. capacities: "
             "in blocks.\n"
             "warm_up: share of the trace that is replayed and not counted. Releases the GIL.");
}

}  // namespace afterimage::python
