// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace afterimage {

// The reasons that a request's headers, decision, metrics, log line and spans give. Each has one line
// with its name and its sentence in reasons.cc, which does not compile without it.

/// Why a request ended as it did: `detail` of Cache-Status, `reason` of decisions, logs and spans.
enum class Reason : unsigned char {
  kNone,  // nothing was decided yet
  // Served:
  kServed,
  kJoined,
  kAnsweredElsewhere,
  // Looked up in vain, or not looked up because the request says so:
  kMissed,
  kAllDrawsHad,
  kNoCache,
  kOnlyIfCached,
  // Bypasses: not looked up, and not stored.
  kNotCacheable,
  kUnreadable,
  kMediaByAddress,
  kUnidentified,
  kDisabled,
  kOff,
  kDetails,
  kNoTemperature,
  kNotDeterministic,
  kNoSeed,
  // No response, or not a whole one:
  kClientLeft,
  kSlowReader,
  kCutShort,
  kUpstreamTimeout,
  kUpstreamFailed,
  // Refusals, named as the API's error codes:
  kInvalidHeader,
  kInvalidCacheDirectives,
  kInvalidBody,
  kUnsupported,
  kTooLarge,
  kNotFound,
  kMediaNotAllowed,
  kMediaNotFetched,
  kOverloaded,
  kPriceUnknown,
  kInvalidKey,
  kBudgetSpent,
  kTooManyRequests,
  kInternal,
  kCount,
};
/// "served", "no-match", …; kNone: "".
std::string_view to_string(Reason reason);
/// A sentence for a person, unless the request's own circumstances make a better one.
std::string_view explain(Reason reason);
/// Why a request bypassed the cache: it was not looked up, and its answer was not stored.
constexpr bool is_bypass(Reason reason) {
  return reason >= Reason::kNotCacheable && reason <= Reason::kNoSeed;
}
/// What an operator or a client may change so that such requests no longer bypass the cache; "": nothing.
std::string_view remedy(Reason reason);
/// As the errors of the API say it: with "_" between words.
std::string code_of(Reason reason);

/// Why a look-up found nothing, as far as this process knows.
enum class MissReason : unsigned char {
  kNeverSeen,    // not asked before, or longer ago than the history goes back
  kNotStored,    // asked before, and the answer was not stored
  kExpired,      // stored, and its time is over
  kGone,         // stored, then evicted or invalidated
  kTooOld,       // stored; this request wants a fresher answer
  kNotAllowed,   // stored; this request wants a stricter match
  kAllDrawsHad,  // stored, and this requester has had all of them: see gateway/draws
  kIncomplete,   // stored, without something that this request asks for
  kUnconfirmed,  // stored; whether another gateway has invalidated it is not known
  kCount,
};
/// "never_seen", "not_stored", "expired", "gone", …; "not_servable" of kTooOld and kNotAllowed.
std::string_view to_string(MissReason reason);
/// A sentence for a person. Of kNotStored its beginning: the StoreResult completes it.
std::string_view explain(MissReason reason);

/// Whether the response to a request was stored as an answer; if not, why.
enum class StoreResult : unsigned char {
  kStored,
  kTruncated,     // a token limit ended it, and it may not be kept: see what_may_be_stored()
  kToolCalls,     // it calls tools, and answers.tool_calls is off
  kNamesCall,     // it says the id of a tool call, and equal requests have other ids
  kFinishReason,  // it ended otherwise than by "stop": content_filter, …
  kNoStore,       // the request says no-store
  kBackendError,  // the backend refused it or failed
  kAbandoned,     // all clients left before its end
  kNotRecorded,   // its stream broke off, or it is not an answer of this API
  kTooLarge,      // larger than answers.max_answer
  kNoSpace,       // no room in memory.budget or in the tenant's quota
  kBlocked,       // memory is short, and no cache admits anything
  kEnoughDraws,   // answers.draws of this sampled request are stored
  kInvalidated,   // something it may depend on was invalidated while it was made
  kCount,
};
inline constexpr auto kStoreResults = static_cast<std::size_t>(StoreResult::kCount);
/// "stored", "truncated", "tool_calls", …: labels of metrics, words of the admin API.
std::string_view to_string(StoreResult result);
/// Completes "the answer was not stored: …". Of every result but kStored.
std::string_view explain(StoreResult result);

}  // namespace afterimage
