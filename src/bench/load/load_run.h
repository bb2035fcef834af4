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
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "bench/load/load_trace.h"
#include "foundation/http/headers.h"
#include "foundation/http/url.h"

namespace afterimage {

struct LoadRunOptions {
  Url server;                // its target: the base path, "/" or "/v1"
  HttpHeaders headers = {};  // of each request, e.g. Authorization
  std::string model;
  bool stream = true;
  /// Open loop: requests are sent when they are due, whatever the server does. Closed loop: as many
  /// clients, each of which asks again once it was answered; a session's turns in order.
  bool open = false;
  std::uint32_t clients = 8;                   // of a closed loop
  std::uint32_t max_in_flight = 4096;          // of an open loop; beyond it requests wait
  Duration timeout = std::chrono::minutes(5);  // of each request
  unsigned threads = 1;                        // that receive
};

enum class LoadOutcome : std::uint8_t {
  kAnswered,
  kStatus,   // another status than 200
  kBroken,   // no connection, a timeout, or it broke
  kInvalid,  // no valid response, or one that ended early
};

/// What a server's header says of a cached answer.
enum class CacheWord : std::uint8_t { kNone, kHit, kMiss, kBypass, kRefresh };

/// One request as it went. Times since the run began.
struct LoadSample {
  Duration due{0};  // open loop: when it should have been sent; closed loop: when it was sent
  Duration sent{0};
  std::optional<Duration> first = std::nullopt;  // its first text; of streams only
  std::optional<Duration> last = std::nullopt;
  Duration end{0};
  LoadOutcome outcome = LoadOutcome::kBroken;
  std::uint16_t status = 0;  // 0: none came
  CacheWord cache = CacheWord::kNone;
  std::uint16_t replica = 0;  // index into LoadResult::replicas
  std::uint16_t route = 0;    // index into LoadResult::routes
  std::uint64_t output_tokens = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t sent_bytes = 0;
};

struct LoadResult {
  std::vector<LoadSample> samples;                // in the order of the trace
  std::map<std::string, std::uint64_t> failures;  // by what the server or the network said
  std::vector<std::string> replicas = {""};       // "": the server does not say
  std::vector<std::string> routes = {""};
  Duration length{0};  // until the last response ended
};

struct LoadProgress {
  std::size_t sent = 0;
  std::size_t ended = 0;
  std::size_t failed = 0;
};

struct ListedModels {
  std::vector<std::string> names;
  std::optional<Error> refusal;  // it answers, but with another status than 200 or with no list
};

/// The models that the server lists, to see whether it can be reached and what it serves.
///
/// Errors   As http_get() says: it cannot be reached.
[[nodiscard]] Result<ListedModels> listed_models(const LoadRunOptions& options);

/// Sends a load and measures. Failed requests are part of the result; `progress` is called from time
/// to time, on this thread.
///
/// Shape    samples[i] belongs to trace.requests[i].
/// Errors   kInvalidArgument: no requests or no clients.
/// Threads  Blocks; starts options.threads and one that makes bodies ahead.
[[nodiscard]] Result<LoadResult> run_load(const LoadTrace& trace, const LoadRunOptions& options,
                                          const Clock& clock,
                                          const std::function<void(LoadProgress)>& progress = {});

}  // namespace afterimage
