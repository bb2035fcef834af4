// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/reasons.h"

#include <algorithm>
#include <array>

namespace afterimage {
namespace {

template <typename R>
struct Text {
  R reason;
  std::string_view name;
  std::string_view sentence;
};

/// The table of the reasons R, in the order of the enumeration.
template <typename R, std::size_t size>
consteval std::array<Text<R>, size> table_of(const Text<R> (&texts)[size]) {
  static_assert(size == static_cast<std::size_t>(R::kCount), "each reason has one line");
  std::array<Text<R>, size> table{};
  for (std::size_t i = 0; i < size; ++i) {
    table[i] = texts[i];
    const bool is_default = i == 0;
    const bool has_texts = !texts[i].name.empty() && !texts[i].sentence.empty();
    if (texts[i].reason != static_cast<R>(i) || !(is_default || has_texts)) throw "a line is amiss";
  }
  return table;
}

constexpr auto kReasons = table_of<Reason>({
    {Reason::kNone, "", ""},
    {Reason::kServed, "served", "the same was answered before"},
    {Reason::kJoined, "joined", "another request was asking the same"},
    {Reason::kAnsweredElsewhere, "answered-elsewhere", "another gateway was asking the same"},
    {Reason::kMissed, "no-match", "no stored answer may be served to this"},
    {Reason::kAllDrawsHad, "all-draws-had",
     "answers vary, and this requester has had each that is stored: the model is asked for "
     "another"},
    {Reason::kNoCache, "no-cache", "the request asks for a new answer"},
    {Reason::kOnlyIfCached, "only-if-cached", "no stored answer may be served to this"},
    {Reason::kNotCacheable, "not-cacheable", "answers of this path are not reused"},
    {Reason::kUnreadable, "unreadable", "the body cannot be read"},
    {Reason::kMediaByAddress, "media-by-address",
     "media by address can only be identified once they are fetched"},
    {Reason::kUnidentified, "unidentified", "the model is not named"},
    {Reason::kDisabled, "disabled", "answers.enabled is false"},
    {Reason::kOff, "off", "the request switched the cache off"},
    {Reason::kDetails, "details", "the request asks how its answer is computed"},
    {Reason::kNoTemperature, "no-temperature",
     "the request names no temperature, the server's own is seldom 0, and answers.sampled is off"},
    {Reason::kNotDeterministic, "not-deterministic",
     "temperature above 0 and no seed: answers vary, and answers.sampled is off"},
    {Reason::kNoSeed, "no-seed",
     "images and speech are made anew each time: the request has no seed, and answers.sampled is "
     "not replay"},
    {Reason::kClientLeft, "client-left", "the client left before its response"},
    {Reason::kSlowReader, "slow-reader", "the client read too slowly"},
    {Reason::kCutShort, "cut-short", "the response broke off"},
    {Reason::kUpstreamTimeout, "upstream-timeout", "the model's server took too long"},
    {Reason::kUpstreamFailed, "upstream-failed", "the model's server failed"},
    {Reason::kInvalidHeader, "invalid_header", "a header has an invalid value"},
    {Reason::kInvalidCacheDirectives, "invalid_cache_directives",
     "the body's cache object has an invalid value"},
    {Reason::kInvalidBody, "invalid_body", "the body cannot be read"},
    {Reason::kUnsupported, "unsupported", "the body has a field that is not supported"},
    {Reason::kTooLarge, "request_too_large",
     "with its files and earlier messages the request is larger than limits.body"},
    {Reason::kNotFound, "not_found", "the request names something that is not there"},
    {Reason::kMediaNotAllowed, "media_not_allowed", "media may not be fetched from this address"},
    {Reason::kMediaNotFetched, "media_not_fetched", "media could not be fetched"},
    {Reason::kOverloaded, "overloaded", "too many large requests are waiting; try again soon"},
    {Reason::kPriceUnknown, "price_unknown",
     "the key has a budget of money, and what this costs is not known"},
    {Reason::kInvalidKey, "invalid_api_key", "the API key is not valid"},
    {Reason::kBudgetSpent, "insufficient_quota", "the budget of the key is used up"},
    {Reason::kTooManyRequests, "rate_limit_exceeded", "the quota of the key is used up"},
    {Reason::kInternal, "internal", "an error of the gateway; its log has the reason"},
});

constexpr auto kMissReasons = table_of<MissReason>({
    {MissReason::kNeverSeen, "never_seen", "this gateway has not seen this question before"},
    {MissReason::kNotStored, "not_stored",
     "this was asked before, and the answer was not stored: "},
    {MissReason::kExpired, "expired", "the stored answer has expired"},
    {MissReason::kGone, "gone", "the stored answer was evicted or invalidated"},
    {MissReason::kTooOld, "not_servable",
     "an answer is stored, and the request's max-age or min-fresh wants a fresher one"},
    {MissReason::kNotAllowed, "not_servable",
     "an answer to similar words is stored, and may not be served"},
    {MissReason::kAllDrawsHad, "all_draws_had",
     "answers vary, and this requester has had each that is stored"},
    {MissReason::kIncomplete, "incomplete",
     "the stored answer does not hold all that was asked for"},
    {MissReason::kUnconfirmed, "unconfirmed",
     "the servers did not say whether another gateway has invalidated the answer"},
});

constexpr auto kStored = table_of<StoreResult>({
    {StoreResult::kStored, "stored", ""},
    {StoreResult::kTruncated, "truncated",
     "a token limit truncated it, and answers.cache_truncated is off or the request names no "
     "max_tokens"},
    {StoreResult::kToolCalls, "tool_calls", "it calls tools, and answers.tool_calls is off"},
    {StoreResult::kNamesCall, "names_call",
     "it says the id of a tool call, and the same request may have another"},
    {StoreResult::kFinishReason, "finish_reason", "it did not end with finish_reason stop"},
    {StoreResult::kNoStore, "no_store", "the request said no-store"},
    {StoreResult::kBackendError, "backend_error", "the model's server answered with an error"},
    {StoreResult::kAbandoned, "abandoned",
     "all clients left before its end, and answers.finish_abandoned is off"},
    {StoreResult::kNotRecorded, "not_recorded",
     "it broke off, is no answer of this API, or names pictures by address"},
    {StoreResult::kTooLarge, "too_large", "it is larger than answers.max_answer"},
    {StoreResult::kNoSpace, "no_space", "it did not fit into memory.budget or the tenant's quota"},
    {StoreResult::kBlocked, "blocked", "memory was short"},
    {StoreResult::kEnoughDraws, "enough_draws",
     "answers vary, and as many of them as answers.draws allows are stored"},
    {StoreResult::kInvalidated, "invalidated", "something was invalidated while it was made"},
});

}  // namespace

std::string_view to_string(Reason reason) {
  return kReasons[static_cast<std::size_t>(reason)].name;
}
std::string_view explain(Reason reason) {
  return kReasons[static_cast<std::size_t>(reason)].sentence;
}

std::string_view remedy(Reason reason) {
  switch (reason) {
    case Reason::kMediaByAddress:
      return "list their hosts in media.hosts";
    case Reason::kUnidentified:
      return "have clients name a model, or set upstream.epoch";
    case Reason::kDisabled:
      return "set answers.enabled = true";
    case Reason::kOff:
      return "have clients leave the header out that switches the cache off";
    case Reason::kDetails:
      return "set engine.verbose = false, or have clients leave verbose out";
    case Reason::kNoTemperature:
      return "set answers.sampled = \"per-requester\" or \"replay\", or have clients send "
             "temperature 0";
    case Reason::kNotDeterministic:
      return "set answers.sampled = \"per-requester\" or \"replay\" and answers.tool_calls = true, "
             "or have "
             "clients send temperature 0 or a seed";
    case Reason::kNoSeed:
      return "have clients send a seed if it makes the server's results repeat, or set "
             "answers.sampled = \"replay\"";
    default:
      return "";
  }
}

std::string code_of(Reason reason) {
  std::string code(to_string(reason));
  std::ranges::replace(code, '-', '_');
  return code;
}

std::string_view to_string(MissReason reason) {
  return kMissReasons[static_cast<std::size_t>(reason)].name;
}
std::string_view explain(MissReason reason) {
  return kMissReasons[static_cast<std::size_t>(reason)].sentence;
}

std::string_view to_string(StoreResult result) {
  return kStored[static_cast<std::size_t>(result)].name;
}
std::string_view explain(StoreResult result) {
  return kStored[static_cast<std::size_t>(result)].sentence;
}

}  // namespace afterimage
