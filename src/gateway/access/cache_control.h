// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/question.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/http/headers.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// The cache directives of one request: from its Cache-Control and X-Afterimage-* headers, from
/// headers of other gateways, and from the `cache` object of its body.
///
/// Restrictions (off, no_store, no_cache, only_if_cached, max_age, min_fresh, ceiling) add up: the
/// strictest one counts. Choices (ttl, sampled, name_space) are taken from X-Afterimage-* headers, else from
/// other gateways' headers, else from the body; of two ttl values of the same rank the shorter one
/// counts. Headers of other gateways never make the cache serve or store more.
///
/// Source  RFC 9111 5.2.1; docs/serve-headers.md lists every header.
struct CacheDirectives {
  bool off = false;             // bypass the cache: no look-up, no store
  bool no_store = false;        // do not store the answer
  bool no_cache = false;        // do not serve a stored answer; store the new one
  bool only_if_cached = false;  // 504 instead of calling the model
  std::optional<Duration> max_age = std::nullopt;    // do not serve older answers
  std::optional<Duration> min_fresh = std::nullopt;  // do not serve answers that expire sooner
  std::optional<Duration> ttl = std::nullopt;        // of the stored answer; 0 means no_store
  std::optional<MatchLevel> ceiling = std::nullopt;  // loosest match that may be served
  std::string sampled;                               // as answers.sampled; empty: as that says
  std::string name_space;                            // cache namespace within the tenant
  std::vector<std::string> tags;                     // invalidation tags of the stored answer
  RequestHints hints;

  bool operator==(const CacheDirectives&) const = default;
};

/// Reads the cache directives of a request.
///
/// Errors   kInvalidArgument: an X-Afterimage-* header has an invalid value; the message says what
///          is valid. Unknown Cache-Control directives are ignored, as RFC 9111 requires; malformed
///          ones count as the strictest.
/// Threads  Any.
[[nodiscard]] Result<CacheDirectives> cache_directives(
    const HttpHeaders& headers, const std::optional<ApiCacheDirectives>& body);

/// The cache's part in a response, as the response headers report it. kJoined: the request shared
/// the upstream call of a concurrent identical request.
enum class CacheOutcome : unsigned char { kHit, kJoined, kMiss, kBypass, kRefresh };
/// The value of X-Cache: "HIT", "MISS", "BYPASS" or "REFRESH". kJoined is a "HIT".
std::string_view to_string(CacheOutcome outcome);

struct CacheReport {
  CacheOutcome outcome = CacheOutcome::kMiss;
  std::string detail;  // one token: the match that hit, or the reason of a miss ("text:exact", …)
  bool stored = false;
  std::optional<Duration> age = std::nullopt;  // of the served answer
  std::optional<Duration> ttl = std::nullopt;  // its remaining time to live
  std::uint32_t draw = 0;                      // of a sampled request: its number; 0: none
  std::string_view not_stored = {};            // why the model's answer was not, if that is known
};

/// Sets the response headers Cache-Status (RFC 9211) and X-Cache, X-Cache-Source on a hit or a
/// joined call, Age on a hit, and X-Afterimage-Draw of a draw,
/// X-Afterimage-Not-Stored of an answer that was not stored. Replaces the upstream's values, except Cache-Status, a list that
/// every cache on the path appends to.
///
/// Hit      afterimage; hit; ttl=3540; detail=text:exact
/// Joined   afterimage; fwd=miss; collapsed; detail=…      X-Cache says HIT
/// Miss     afterimage; fwd=miss; stored; detail=…
/// Bypass   afterimage; fwd=bypass; detail=…               the cache was not used
/// Refresh  afterimage; fwd=request; stored                the client asked for a new answer
///
/// Cost     A few hundred nanoseconds.
void add_cache_headers(HttpHeaders& headers, const CacheReport& report);

}  // namespace afterimage
