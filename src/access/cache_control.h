// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/http/headers.h"
#include "afterimage/openai/request.h"
#include "afterimage/result.h"
#include "afterimage/semantic/canonical_text.h"
#include "afterimage/units.h"

namespace afterimage {

/// What one request says of reuse: its headers, those that clients of other gateways send, and the
/// `cache` object of its body; a header wins over the body, ours over others', and the stricter of
/// two of the same.
///
/// Source  RFC 9111 5.2.1; the table of aliases in docs/serve.md.
struct CacheWish {
  bool off = false;             // neither look nor keep
  bool no_store = false;        // what is answered is not kept
  bool no_cache = false;        // nothing kept is served; what is answered is kept
  bool only_if_cached = false;  // 504 instead of asking the model
  std::optional<Duration> max_age = std::nullopt;    // older answers are not served
  std::optional<Duration> min_fresh = std::nullopt;  // nor such as expire sooner
  std::optional<Duration> ttl = std::nullopt;        // of the answer, if it is kept
  std::optional<TextRung> ceiling = std::nullopt;    // the loosest rung that may be served
  std::string name_space;                            // within the tenant
  std::vector<std::string> tags;                     // what the answer depends on, by name
};

/// Errors   kInvalidArgument: one of our own headers (X-Afterimage-*) has a value that is none, and
///          the message says what would be. Directives of Cache-Control that nobody knows are
///          ignored, as RFC 9111 says; one that is broken counts as the strictest.
/// Threads  Any.
[[nodiscard]] Result<CacheWish> cache_wish(const HttpHeaders& headers,
                                           const std::optional<ApiCacheWish>& body);

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

/// Cache-Status (RFC 9211), X-Cache, X-Cache-Source; Age if it was served.
void add_cache_headers(HttpHeaders& headers, const CacheReport& report);

}  // namespace afterimage
