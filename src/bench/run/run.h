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
#include "bench/workload/trace.h"
#include "bench/workload/workload.h"

namespace afterimage {

struct RunOptions {
  std::string engine_name = "reference";  // for the report
  GenerateOptions generate;
  ReuseOptions reuse;            // its tier, if any, is used in the last pass only
  const Tier* gpu = nullptr;     // of the tier: for the report
  const Tier* disk = nullptr;    // likewise
  const Tier* remote = nullptr;  // likewise
  std::optional<Secret> secret;  // the installation's secret; none: a random one for this run
  bool record = false;           // fill RunReport::trace
};

/// One media item of one request, in the pass with reuse.
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
  TokenCount resumed_from{};  // prompt tokens whose KV was restored
  std::string text;           // the engine's answer, with reuse
  std::string expected;       // the right answer, if the workload names one; otherwise empty
  bool right = false;         // `text` is the expected answer
  bool identical = false;     // tokens and all logits, bit for bit
  Duration cold_ttft{0};
  Duration warm_ttft{0};
};

struct FailedRequest {
  std::string id;
  std::string error;
  /// False: reuse changed whether the request succeeds, which is a wrong output.
  bool in_all_runs = true;
};

/// One pass over the workload.
struct PassReport {
  std::uint64_t encoder_calls = 0;
  std::uint64_t parts = 0;  // of media that the engine splits: those needed; with reuse only
  std::uint64_t encoded_parts = 0;  // of them
  std::uint64_t prefilled = 0;      // prompt tokens computed
  std::uint64_t right = 0;  // answers that are the expected ones, apart from space around them
  Duration encoding{0};
  Duration total{0};
  std::vector<Duration> ttft;     // of each answered request, in order
  std::vector<Duration> arrived;  // arrival of every request, since the start of the pass

  /// Nearest-rank percentile; 0 if nothing was answered.
  [[nodiscard]] Duration ttft_percentile(double percent) const;
};

struct RunReport {
  std::string engine_name;
  ModelIdentity engine;
  std::vector<RequestReport> requests;  // answered in all passes
  std::vector<FailedRequest> failed;
  std::vector<RejectedLine> rejected;
  std::uint64_t judged = 0;          // those whose right answer the workload names
  std::uint64_t media_items = 0;     // occurrences in the answered requests
  std::uint64_t distinct_media = 0;  // distinct keys among them: content, preprocessing, tenant
  /// Requests whose cached KV could not be restored and was recomputed.
  std::uint64_t restore_failures = 0;
  std::uint64_t uncached = 0;  // occurrences of items that did not fit the budget
  std::uint64_t agents = 0;
  PassReport cold;         // without reuse
  PassReport encode_once;  // encoder outputs reused, from an empty cache
  PassReport warm;         // encoder outputs and KV reused, from an empty cache
  ReuseStats reuse;
  std::optional<TierStats> gpu_after;      // with GPU memory only
  std::optional<TierStats> disk_before;    // with a disk only
  std::optional<TierStats> disk_after;     // after all writes
  std::optional<TierStats> remote_before;  // with a remote tier only
  std::optional<TierStats> remote_after;
  std::string most_shared;  // the item that most agents asked about; empty if no item is shared
  std::uint64_t most_shared_by = 0;  // number of those agents
  Trace trace;                       // of the answered requests, as in the last pass; if requested

  /// False if nothing was answered, because nothing was compared.
  [[nodiscard]] bool outputs_identical() const;
  /// Everything ran, and reuse changed nothing.
  [[nodiscard]] bool fine() const {
    return outputs_identical() && failed.empty() && rejected.empty();
  }
};

/// Called after every request of every pass.
using RunProgress = std::function<void(std::string_view pass, std::size_t done, std::size_t of)>;

/// Runs every request three times: without reuse, with reuse of encoder outputs, and with reuse of
/// prefixes too; compares the results. Each pass starts with empty memory (the tier may hold
/// entries of an earlier process). A failed request is reported; the others run.
///
/// Errors   kInvalidArgument: invalid cache options, or an engine without an identity.
Result<RunReport> run_workload(const Workload& workload, const Engine& engine,
                               const RunOptions& options, const Clock& clock,
                               const RunProgress& progress = {});

}  // namespace afterimage
