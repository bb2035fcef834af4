// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "lab/workload/trace.h"
#include "lab/workload/workload.h"

namespace afterimage {

struct RunOptions {
  std::string engine_name = "reference";  // for the report
  GenerateOptions generate;
  ReuseOptions reuse;            // its tier, if any, is used in the last pass only
  const Tier* disk = nullptr;    // of the tier: for the report
  const Tier* remote = nullptr;  // likewise
  std::optional<Secret> secret;  // the installation's; without one, one that dies with the run
  bool record = false;           // into RunReport::trace
};

/// One media item of one request, in the run with reuse.
struct MediaReport {
  std::string name;
  Modality modality = Modality::kImage;
  ContentDigest content;
  MediaSource source = MediaSource::kReused;
};

struct RequestReport {
  std::string id;
  std::string agent;
  std::vector<MediaReport> media;
  TokenCount prompt_tokens{};
  TokenCount resumed_from{};  // of them, those whose KV was restored
  std::string text;           // what the engine said, with reuse
  bool identical = false;     // tokens and every logit, bit for bit
  Duration cold_ttft{0};
  Duration warm_ttft{0};
};

struct FailedRequest {
  std::string id;
  std::string error;
  bool in_all_runs = true;  // false: reuse changed whether it works, which is a wrong output
};

/// One pass over the workload.
struct PassReport {
  std::uint64_t encoder_calls = 0;
  std::uint64_t prefilled = 0;  // prompt tokens computed
  Duration encoding{0};
  Duration total{0};
  std::vector<Duration> ttft;     // of each request that was answered, in order
  std::vector<Duration> arrived;  // every request, since the pass began

  /// Nearest rank; 0 if nothing was answered.
  [[nodiscard]] Duration ttft_percentile(double percent) const;
};

struct RunReport {
  std::string engine_name;
  ModelIdentity engine;
  std::vector<RequestReport> requests;  // answered in both runs
  std::vector<FailedRequest> failed;
  std::vector<RejectedLine> rejected;
  std::uint64_t media_items = 0;       // occurrences in the answered requests
  std::uint64_t distinct_media = 0;    // distinct keys among them: content, preprocessing, tenant
  std::uint64_t restore_failures = 0;  // requests whose cached KV did not serve: computed instead
  std::uint64_t uncached = 0;          // items that did not fit the budget, each time they came
  std::uint64_t agents = 0;
  PassReport cold;         // without reuse
  PassReport encode_once;  // with reuse of encoder outputs only, from an empty cache
  PassReport warm;         // with reuse, from an empty cache
  ReuseStats reuse;
  std::optional<TierStats> disk_before;    // only with a disk
  std::optional<TierStats> disk_after;     // everything written
  std::optional<TierStats> remote_before;  // only with servers that are shared
  std::optional<TierStats> remote_after;
  std::string most_shared;  // the item that most agents asked about; empty if none is shared
  std::uint64_t most_shared_by = 0;  // how many
  Trace trace;  // of the answered requests as they came in the last pass, if it was asked for

  /// False if nothing was answered: nothing was compared then.
  [[nodiscard]] bool outputs_identical() const;
  /// Everything ran, and reuse changed nothing.
  [[nodiscard]] bool fine() const {
    return outputs_identical() && failed.empty() && rejected.empty();
  }
};

/// Told after every request of every pass.
using RunProgress = std::function<void(std::string_view pass, std::size_t done, std::size_t of)>;

/// Runs every request three times: without reuse, with encoder outputs reused, and with prefixes
/// reused too, each time from empty memory (the tier may hold what an earlier process left); and
/// compares what came out. A request that fails is
/// reported; the others run.
///
/// Errors   kInvalidArgument: options that make no cache, or an engine without an identity.
Result<RunReport> run_workload(const Workload& workload, const Engine& engine,
                               const RunOptions& options, const Clock& clock,
                               const RunProgress& progress = {});

}  // namespace afterimage
