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
#include "afterimage/kv_layout.h"
#include "afterimage/media.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "afterimage/units.h"
#include "lab/run/run.h"
#include "lab/workload/workload.h"

namespace afterimage {

/// Where two requests part, in the words of the one that is explained.
struct PartingWords {
  std::size_t message = 0;    // from 1
  bool at_its_start = false;  // nothing of the message is shared
  Role role = Role::kUser;
  std::string before;       // the end of what they share; media as [image NAME], roles as <user>
  std::string asked;        // what follows here; empty: the message, or all of it, ends
  std::string cached;       // what followed there; empty likewise
  bool asked_ends = false;  // this request has nothing further
  bool cached_ends = false;
};

/// The earlier request whose prompt begins most like this one; the earliest of several.
struct LikestRequest {
  std::string id;
  TokenCount shared{};                // leading tokens, media included
  TokenCount length{};                // of its whole prompt
  std::optional<PartingWords> words;  // none: the two are the same
};

struct ExplainedMedia {
  std::string name;
  Modality modality = Modality::kImage;
  TokenCount offset{};  // of its span in the prompt
  TokenCount length{};
  MediaSource source = MediaSource::kReused;
  std::string first_asked_by;  // id of the first request with this item; empty: this one
};

/// Why one request resumed where it did, and what became of its media.
struct RequestExplanation {
  std::string id;
  std::string tenant;
  std::size_t place = 0;              // in the workload, from 1
  std::size_t of = 0;                 // how many there are
  std::vector<FailedRequest> failed;  // among those before it; they left nothing
  PrefixExplanation prefix;           // before it was served
  KvLayout layout;                    // of the engine
  TokenCount resumed_from{};          // when it was served
  bool restore_failed = false;
  std::vector<ExplainedMedia> media;
  std::optional<LikestRequest> likest;  // none: no earlier request of its tenant was served
  std::uint64_t evictions = 0;          // of KV, before it
  Bytes budget;

  [[nodiscard]] TokenCount computed() const { return prefix.length - resumed_from; }
};

/// Serves the requests before `id` through one cache that begins empty, explains what `id` finds
/// there, and serves it, too. Earlier requests that fail are reported and leave nothing.
///
/// Errors   kNotFound: no request is called that; the message names those that nearly are.
///          kUnsupported: the engine keeps its KV to itself. Those of serving `id`.
Result<RequestExplanation> explain_request(const Workload& workload, const RequestId& id,
                                           const Engine& engine, const ReuseOptions& options,
                                           const Clock& clock, const RunProgress& progress = {});

/// A name as a line of text can hold it: data URLs are cut.
std::string short_name(const std::string& name);

/// For a person who has never seen this before.
std::string to_text(const RequestExplanation& explanation);
/// For a program. Positions count tokens from the start of the prompt.
std::string to_json(const RequestExplanation& explanation);

}  // namespace afterimage
