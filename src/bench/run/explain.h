// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/ids.h"
#include "afterimage/kv.h"
#include "afterimage/media.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "afterimage/units.h"
#include "bench/run/run.h"
#include "bench/workload/workload.h"
#include "caches/prefix/prefix_explanation.h"

namespace afterimage {

/// Where two prompts diverge, with the text around that point.
struct DivergenceQuote {
  std::size_t message = 0;     // from 1
  bool whole_message = false;  // the whole message differs
  Role role = Role::kUser;
  std::string before;       // the end of the shared part; media as [image NAME], roles as <user>
  std::string asked;        // this request's continuation; empty: the message ends here
  std::string cached;       // the earlier request's continuation; likewise
  bool asked_ends = false;  // this request ends here
  bool cached_ends = false;
};

/// The earlier request whose prompt shares the longest prefix with this one; the earliest if
/// several do.
struct ClosestRequest {
  std::string id;
  TokenCount shared{};                   // shared leading tokens, including media
  TokenCount length{};                   // of its whole prompt
  std::optional<DivergenceQuote> quote;  // none: the prompts are equal
};

struct ExplainedMedia {
  std::string name;
  Modality modality = Modality::kImage;
  TokenCount offset{};  // of its span in the prompt
  TokenCount length{};
  MediaSource source = MediaSource::kReused;
  std::string first_asked_by;  // id of the first request with this item; empty: this one
};

/// Explains where one request resumed and how each of its media items was obtained.
struct RequestExplanation {
  std::string id;
  std::string tenant;
  std::size_t place = 0;  // position in the workload, from 1
  std::size_t of = 0;     // total number of requests
  /// Earlier requests that failed; they left nothing in the cache.
  std::vector<FailedRequest> failed;
  PrefixExplanation prefix;   // before the request was served
  KvLayout layout;            // of the engine
  Exactness exactness;        // of the engine
  TokenCount resumed_from{};  // actual resume point
  bool restore_failed = false;
  std::vector<ExplainedMedia> media;
  std::optional<ClosestRequest> closest;  // none: no earlier request of this tenant was served
  std::uint64_t evictions = 0;            // KV evictions before this request
  Bytes budget;

  [[nodiscard]] TokenCount computed() const { return prefix.length - resumed_from; }
};

/// Serves the requests before `id` through one initially empty cache, explains what `id` would
/// reuse, then serves it. Earlier requests that fail are reported and leave nothing in the cache.
///
/// Errors   kNotFound: no request has this id; the message lists similar ids. kUnsupported: the
///          engine does not expose its KV. Errors of serving `id`.
Result<RequestExplanation> explain_request(const Workload& workload, const RequestId& id,
                                           const Engine& engine, const ReuseOptions& options,
                                           const Clock& clock, const RunProgress& progress = {});

/// A name shortened for one line of text: data URLs are truncated.
std::string short_name(const std::string& name);

/// Human-readable; assumes no prior knowledge.
std::string to_text(const RequestExplanation& explanation);
/// Machine-readable. Positions count tokens from the start of the prompt.
std::string to_json(const RequestExplanation& explanation);

}  // namespace afterimage
