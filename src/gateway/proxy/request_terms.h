// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "foundation/http/message.h"
#include "gateway/access/cache_control.h"
#include "gateway/access/tenants.h"
#include "gateway/config/settings.h"
#include "gateway/draws/draws.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"
#include "gateway/prompts/content_chain.h"
#include "gateway/proxy/backend.h"
#include "gateway/proxy/reasons.h"
#include "gateway/proxy/shared_responses.h"
#include "gateway/proxy/tenant_spaces.h"

namespace afterimage {

/// What a request is: who asks, and what. Filled while it is read; nothing changes it afterwards.
struct RequestSubject {
  std::optional<ApiOperation> operation;    // nullopt: whatever else the API has
  std::shared_ptr<const std::string> body;  // as it is forwarded
  Tenant tenant;
  CacheDirectives directives;
  std::shared_ptr<const ApiRequest> api;     // nullptr: it was not read
  std::shared_ptr<SharedChain> chain;        // with `api`
  std::vector<ContentDigest> texts;          // of files that became texts of the chat
  std::vector<std::string> attached;         // tags of these, and of bytes that are no media
  std::shared_ptr<const TenantSpace> space;  // nullptr: it was not identified
  std::optional<Question> question;          // with `space`
  std::vector<Question> inputs;              // of a batch whose inputs are entries of their own
  std::optional<Question>
      frame;  // of such a batch, as its client sent it: what is around the vectors
};

// What a request may be served by, and what may be stored of its answer: functions of the request and
// the settings alone, for the state machine and for explain().

/// By which its answer is found, if this backend answers it at this moment.
[[nodiscard]] Question question_of(const ApiRequest& api, const HttpRequest& request,
                                   const TenantSpace& space, const Backend& backend, WallTime now);

/// By which the vector of each input of its batch is found: as a request for that input alone.
[[nodiscard]] std::vector<Question> input_questions(const ApiRequest& api,
                                                    const HttpRequest& request,
                                                    const TenantSpace& space,
                                                    const Backend& backend, WallTime now);

/// By which the rest of the answer to its batch is found, usage above all. No request asks this question.
[[nodiscard]] Question frame_question(const ApiRequest& api, const HttpRequest& request,
                                      const TenantSpace& space, const Backend& backend,
                                      WallTime now);

/// How far its answer may come from the cache.
struct ServingTerms {
  LookupRules rules = {};
  bool similarity = false;  // also answers to similar questions
  /// It is sampled: draws of this very request serve it, and its answer is one (gateway/draws).
  bool draws = false;
  /// Why looser matches, which the settings allow, may not serve it; empty: they may, or the
  /// settings do not allow them.
  std::string_view only_exact = {};
  /// Looser matches may serve it unless its question speaks of time: see heed_time().
  bool ignores_time = false;
};
/// The request is neither looked up nor stored.
struct Bypass {
  Reason reason;
  std::string why;
};
/// `samples`: whether the backend samples where no temperature is named; nullopt: unknown. Requires that
/// the subject was read.
[[nodiscard]] std::expected<ServingTerms, Bypass> serving_terms(const RequestSubject& asked,
                                                                const Settings& settings,
                                                                std::optional<bool> samples);
/// Leaves only exact matches to a question that speaks of time. Most requests are served before anybody asks
/// that: it takes longer than to look them up.
void heed_time(ServingTerms& terms, const RequestSubject& asked);
/// "per-requester", "replay" or "off": what serves the request if it is sampled.
[[nodiscard]] std::string_view sampled_rule(const RequestSubject& asked,
                                            const AnswerSettings& settings);
/// Which draws of it may serve a sampled request.
[[nodiscard]] DrawRules draw_rules(const RequestSubject& asked, const Settings& settings);
/// Within the key the user that the request names, or its agent, workflow or conversation; else the
/// client's address.
[[nodiscard]] RequesterId requester_of(const RequestSubject& asked, const HttpRequest& request);
/// The sampled request, for those whom its draws may serve.
[[nodiscard]] SampledRequestId sampled_id(const RequestSubject& asked,
                                          const AnswerSettings& settings);

/// Whether an answer that was found on this match level has all fields that the request asks for.
[[nodiscard]] bool fits(const ApiRequest& api, const ApiRecord& record, MatchLevel level);

/// Whether neither time nor headers may tell this client what others asked.
[[nodiscard]] bool hides_hits(const RequestSubject& asked, const AnswerSettings& settings);

/// What one response serves: "whole", "stream" or "stream-usage".
[[nodiscard]] std::string_view form_of(const ApiRequest& api);

/// Requests with the same key may share one response.
[[nodiscard]] JoiningKey coalescing_key(const RequestSubject& asked,
                                        const AnswerSettings& settings);

/// Of the bytes that it carries besides its media, and of files that became text.
[[nodiscard]] std::vector<std::string> attached_tags(const RequestSubject& asked);
/// Of what the backend makes of it: at most EntryLabels::kMaxTags.
[[nodiscard]] std::vector<std::string> backend_tags(const RequestSubject& asked);

/// How long its answer is stored; nullopt: until it is evicted.
[[nodiscard]] std::optional<Duration> ttl_of(const CacheDirectives& directives,
                                             const Settings& settings);
[[nodiscard]] AnswerQuota quota_of(const Tenant& tenant);

}  // namespace afterimage
