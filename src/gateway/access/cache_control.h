// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/canonical_text.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/http/headers.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// What one request says of reuse: its headers, those that clients of other gateways send, and the
/// `cache` object of its body.
///
/// What restricts (off, no_store, no_cache, only_if_cached, max_age, min_fresh, ceiling) adds up:
/// the strictest of all that was said counts. What is chosen (ttl, name_space) is ours, else that
/// of others' headers, else the body's; the shorter ttl of two of the same. No word of another
/// gateway makes anything be served or kept that would not be without it.
///
/// Source  RFC 9111 5.2.1; docs/serve-headers.md lists every header.
struct CacheDirectives {
  bool off = false;             // neither look nor keep
  bool no_store = false;        // what is answered is not kept
  bool no_cache = false;        // nothing kept is served; what is answered is kept
  bool only_if_cached = false;  // 504 instead of asking the model
  std::optional<Duration> max_age = std::nullopt;    // older answers are not served
  std::optional<Duration> min_fresh = std::nullopt;  // nor such as expire sooner
  std::optional<Duration> ttl = std::nullopt;        // of the answer, if it is kept; 0: no_store
  std::optional<TextRung> ceiling = std::nullopt;    // the loosest rung that may be served
  std::string name_space;                            // within the tenant
  std::vector<std::string> tags;                     // what the answer depends on, by name

  bool operator==(const CacheDirectives&) const = default;
};

/// Errors   kInvalidArgument: one of our own headers (X-Afterimage-*) has a value that is none, and
///          the message says what would be. Directives of Cache-Control that nobody knows are
///          ignored, as RFC 9111 says; one that is broken counts as the strictest.
/// Threads  Any.
[[nodiscard]] Result<CacheDirectives> cache_directives(
    const HttpHeaders& headers, const std::optional<ApiCacheDirectives>& body);

/// What became of a request, as its answer's headers say it.
enum class CacheOutcome : unsigned char { kHit, kJoined, kMiss, kBypass, kRefresh };
/// "HIT", "MISS", …; joined is a "HIT" whose detail says that it was in the air.
std::string_view to_string(CacheOutcome outcome);

struct CacheReport {
  CacheOutcome outcome = CacheOutcome::kMiss;
  std::string detail;  // the rung that served, or why not, in one token: "text:exact", "no-seed"
  bool stored = false;
  std::optional<Duration> age = std::nullopt;  // of what was served
  std::optional<Duration> ttl = std::nullopt;  // what is left of its time
};

/// Cache-Status (RFC 9211), X-Cache; X-Cache-Source if it was served; Age if it was a hit. Those of
/// an upstream are replaced, but for its Cache-Status, which is a list that caches add to.
///
/// Hit      afterimage; hit; ttl=3540; detail=text:exact
/// Joined   afterimage; fwd=miss; collapsed; detail=…      X-Cache says HIT
/// Miss     afterimage; fwd=miss; stored; detail=…
/// Bypass   afterimage; fwd=bypass; detail=…               the cache was not to handle it
/// Refresh  afterimage; fwd=request; stored                the client wanted a new answer
///
/// Cost     Some hundred nanoseconds.
void add_cache_headers(HttpHeaders& headers, const CacheReport& report);

}  // namespace afterimage
