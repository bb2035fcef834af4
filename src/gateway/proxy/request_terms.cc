// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_terms.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <map>
#include <utility>

#include "caches/answers/eligibility.h"
#include "caches/answers/scope_view.h"
#include "caches/identity/fields.h"
#include "foundation/text/ascii.h"
#include "gateway/openai/identity_rules.h"
#include "runtime/reuse/document_pages.h"
#include "storage/memory/checksum.h"

namespace afterimage {
namespace {

bool is_of_the_api(std::string_view header) {
  static constexpr std::string_view kHeaderPrefix = "openai-";
  return same_header(header.substr(0, kHeaderPrefix.size()), kHeaderPrefix);
}

/// nullopt: no limit.
std::optional<Duration> shorter(std::optional<Duration> one, std::optional<Duration> other) {
  if (!one.has_value() || !other.has_value()) return one.has_value() ? one : other;
  return std::min(*one, *other);
}

/// How long an answer is true of a server that looks things up.
std::optional<Duration> live_of(const Settings& settings) {
  return settings.upstream.is_set() ? settings.upstream.live : std::nullopt;
}

/// The loosest match level that the settings, the tenant and the request allow.
MatchLevel loosest_of(const RequestSubject& asked, const AnswerSettings& settings) {
  const MatchLevel allowed = asked.tenant.match_level.value_or(settings.match_level);
  return std::min(allowed, asked.directives.ceiling.value_or(allowed));
}

/// In which agents name their session: OpenCode, Codex and earlier versions of it.
constexpr auto kSessionHeaders =
    std::to_array<std::string_view>({"x-session-id", "session-id", "session_id"});

/// Images and speech: who asks twice wants to choose, and one of them is large.
bool is_made_anew(ApiOperation operation) {
  return operation == ApiOperation::kImage || operation == ApiOperation::kImageEdit ||
         operation == ApiOperation::kSpeech;
}

/// Of a request that expects another answer each time. `unset`: it does not say so.
std::expected<ServingTerms, Bypass> sampled_terms(const RequestSubject& asked,
                                                  const Settings& settings, bool unset) {
  const std::string_view rule = sampled_rule(asked, settings.answers);
  if (rule != kReplay && is_made_anew(asked.api->operation)) {
    return std::unexpected(Bypass{Reason::kNoSeed, std::string(explain(Reason::kNoSeed))});
  }
  if (rule == kSampledOff) {
    const Reason reason = unset ? Reason::kNoTemperature : Reason::kNotDeterministic;
    return std::unexpected(Bypass{reason, std::string(explain(reason))});
  }
  ServingTerms terms{.rules = {.serve = MatchLevel::kExact, .watch = MatchLevel::kExact}};
  if (rule == kReplay) {
    terms.rules.max_age = shorter(asked.directives.max_age, live_of(settings));
    terms.rules.min_fresh = asked.directives.min_fresh;
    return terms;
  }
  // What others were served would be the model's answers without those that call tools.
  if (asked.api->sampling.offers_tools && !settings.answers.tool_calls) {
    return std::unexpected(Bypass{Reason::kNotDeterministic,
                                  "answers vary, some may call tools, and answers.tool_calls is "
                                  "off: what is stored would not be distributed as the model's"});
  }
  terms.draws = true;
  return terms;
}

/// Empty: it has none.
std::vector<ScopeMessage> messages_with_media(const ApiRequest& api) {
  if (api.media.empty()) return {};
  std::vector<ContentDigest> contents;
  for (const ApiMedia& media : api.media) contents.push_back(*media.digest);
  return scope_of(api, contents, {}).messages;
}

/// A field of sampling that says what the backend does without it.
bool is_default(const std::pair<const std::string, std::string>& field, const Backend& backend) {
  const auto value = number_in(field.second);
  return value.has_value() && backend.is_default(field.first, *value);
}

/// Without copying what they say. Requires that no two have the same name.
std::vector<TextField> in_order_of_name(const std::map<std::string, std::string>& one,
                                        const std::map<std::string, std::string>& other,
                                        std::initializer_list<TextField> more) {
  std::vector<TextField> fields;
  fields.reserve(one.size() + other.size() + more.size());
  const auto add = [&](const TextField& field) {
    fields.insert(std::ranges::upper_bound(fields, field.first, {}, &TextField::first), field);
  };
  for (const auto& [name, value] : one) add({name, value});
  for (const auto& [name, value] : other) add({name, value});
  for (const TextField& field : more) add(field);
  return fields;
}

}  // namespace

Question question_of(const ApiRequest& api, const HttpRequest& request, const TenantSpace& space,
                     const Backend& backend, WallTime now) {
  std::map<std::string, std::string> made;
  // The limit that may truncate the answer is part of the request's identity.
  const auto default_limit = backend.default_max_tokens();
  if (!api.max_tokens.has_value() && default_limit.has_value()) {
    made["afterimage.max_tokens"] = std::to_string(*default_limit);
  }
  if (api.operation == ApiOperation::kChat) {
    std::string clock = backend.clock_in_prompts(now);
    if (!clock.empty()) made["afterimage.clock"] = std::move(clock);
  }
  // Servers answer /rerank and /v1/rerank in different forms.
  if (is_verbatim(api.operation)) {
    made["afterimage.path"] = request.target.substr(0, request.target.find('?'));
  }
  // Parameters of the query change the answer: Azure's api-version, for one.
  const std::size_t query = request.target.find('?');
  if (query != std::string::npos) made["afterimage.query"] = request.target.substr(query);
  // So do headers such as OpenAI-Beta and OpenAI-Organization.
  for (const auto& [name, value] : request.headers) {
    if (is_of_the_api(name)) {
      made["afterimage.header." + ascii::lowered(name)] += value + "\n";
    }
  }
  const std::vector<TextField> other = in_order_of_name(
      api.scope.other, made,
      {{"afterimage.operation", to_string(api.operation)}, {"afterimage.model", api.model}});
  const auto says_nothing = [&](const auto& field) { return is_default(field, backend); };
  std::map<std::string, std::string> sampling;
  const bool has_defaults = std::ranges::any_of(api.scope.sampling, says_nothing);
  if (has_defaults) sampling = api.scope.sampling;
  std::erase_if(sampling, says_nothing);
  const std::vector<ScopeMessage> shown = messages_with_media(api);
  const ScopeView scope{.inputs = space.inputs,
                        .messages = shown.empty() ? api.scope.messages : shown,
                        .tools = api.scope.tools,
                        .response_format = api.scope.response_format,
                        .sampling = has_defaults ? sampling : api.scope.sampling,
                        .other = other};
  return {identify(scope, space.name_space, space.answers), api.question};
}

std::vector<Question> input_questions(const ApiRequest& api, const HttpRequest& request,
                                      const TenantSpace& space, const Backend& backend,
                                      WallTime now) {
  ApiRequest one;
  one.operation = api.operation;
  one.model = api.model;
  one.max_tokens = api.max_tokens;
  one.scope = api.scope;
  one.scope.other.erase("/input");
  ApiRequest text = one;
  text.scope.messages.emplace_back(Role::kUser).parts.emplace_back(QuestionSlot{});
  const ScopeId scope = question_of(text, request, space, backend, now).scope();
  std::vector<Question> questions;
  questions.reserve(api.batch.inputs.size());
  for (const ApiInput& input : api.batch.inputs) {
    if (input.tokens.empty()) {
      questions.emplace_back(scope, input.text);
      continue;
    }
    one.scope.other["/input"] = input.tokens;
    questions.push_back(question_of(one, request, space, backend, now));
  }
  return questions;
}

Question frame_question(const ApiRequest& api, const HttpRequest& request, const TenantSpace& space,
                        const Backend& backend, WallTime now) {
  ApiRequest frame;
  frame.operation = api.operation;
  frame.model = api.model;
  frame.max_tokens = api.max_tokens;
  frame.scope = api.scope;
  frame.scope.other["afterimage.frame"] = "1";
  return question_of(frame, request, space, backend, now);
}

std::string_view sampled_rule(const RequestSubject& asked, const AnswerSettings& settings) {
  const std::string& tenants = asked.tenant.sampled;
  const std::string_view allowed = tenants.empty() ? std::string_view(settings.sampled) : tenants;
  const std::string& chosen = asked.directives.sampled;
  return chosen.empty() || allowed == kSampledOff ? allowed : chosen;
}

std::expected<ServingTerms, Bypass> serving_terms(const RequestSubject& asked,
                                                  const Settings& settings,
                                                  std::optional<bool> samples) {
  const auto none = [](Reason reason, std::string_view why = {}) {
    return std::unexpected(Bypass{reason, std::string(why.empty() ? explain(reason) : why)});
  };
  const ApiRequest& api = *asked.api;
  if (!settings.answers.enabled) return none(Reason::kDisabled);
  if (asked.directives.off) return none(Reason::kOff);
  if (api.engine != nullptr && settings.engine.verbose) {
    return none(Reason::kDetails, "engine.verbose is true");
  }
  if (api.engine != nullptr && api.engine->details.any()) return none(Reason::kDetails);
  const bool is_computed = is_function(api.operation);
  const bool unset = !api.sampling.temperature.has_value() && !api.sampling.seeded && !is_computed;
  SamplingFacts facts = api.sampling;
  if ((unset && samples == false) || is_computed) facts.temperature = 0;
  const Eligibility eligible = eligibility(facts);
  if (eligible.limit == ReuseLimit::kNothing) {
    return sampled_terms(asked, settings, unset);
  }
  MatchLevel loosest = loosest_of(asked, settings.answers);
  // Canonical forms fold how people word questions; they say nothing of a prompt to complete.
  const bool is_exact = eligible.limit == ReuseLimit::kExact || unset ||
                        api.operation != ApiOperation::kChat || api.question.empty();
  std::string_view only_exact;
  if (eligible.limit == ReuseLimit::kExact && loosest > MatchLevel::kExact)
    only_exact = eligible.why;
  if (is_exact) loosest = MatchLevel::kExact;
  // Who allows exact matches only wants no looser ones.
  const bool similarity = loosest > MatchLevel::kExact && asked.tenant.similarity &&
                          !asked.directives.ceiling.has_value();
  return ServingTerms{.rules = {.serve = loosest,
                                .watch = loosest,
                                .max_age = shorter(asked.directives.max_age, live_of(settings)),
                                .min_fresh = asked.directives.min_fresh},
                      .similarity = similarity,
                      .only_exact = only_exact,
                      .ignores_time = loosest > MatchLevel::kExact};
}

void heed_time(ServingTerms& terms, const RequestSubject& asked) {
  if (!std::exchange(terms.ignores_time, false) || !depends_on_time(asked.api->question)) return;
  terms.rules.serve = terms.rules.watch = MatchLevel::kExact;
  terms.similarity = false;
  terms.only_exact = kSpeaksOfTime.why;
}

DrawRules draw_rules(const RequestSubject& asked, const Settings& settings) {
  const CacheDirectives& directives = asked.directives;
  return {.most = settings.answers.draws,
          .ttl = ttl_of(directives, settings),
          .max_age = shorter(directives.max_age, live_of(settings)),
          .min_fresh = directives.min_fresh,
          .fresh = directives.no_cache,
          .may_start = !directives.no_store,
          .may_wait = !directives.only_if_cached};
}

RequesterId requester_of(const RequestSubject& asked, const HttpRequest& request) {
  const RequestHints& hints = asked.directives.hints;
  std::string_view conversation = asked.api->conversation;
  for (const std::string_view header : kSessionHeaders) {
    if (conversation.empty()) conversation = request.headers.find(header).value_or("");
  }
  // A proxy in between says for whom it asks.
  const std::string forwarded(request.headers.find("x-forwarded-for").value_or(request.peer));
  const std::array<std::pair<std::string_view, std::string_view>, 5> names{
      {{"user", asked.api->user},
       {"agent", hints.agent},
       {"workflow", hints.workflow.workflow},
       {"conversation", conversation},
       {"address", std::string_view(forwarded).substr(0, forwarded.find(','))}}};
  const auto* const named =
      std::ranges::find_if(names, [](const auto& name) { return !name.second.empty(); });
  FieldWriter fields("afterimage/requester/1");
  fields.text("key", asked.tenant.id);
  if (named != names.end()) fields.text(named->first, named->second);
  const Checksum sum = Checksum::of(fields.message());
  return {.low = sum.low, .high = sum.high};
}

SampledRequestId sampled_id(const RequestSubject& asked, const AnswerSettings& settings) {
  // Who gets another's draw gets it sooner than the model's, which would tell of the other.
  const std::string_view sharers =
      hides_hits(asked, settings) ? std::string_view(asked.tenant.id) : std::string_view();
  // Who joins a draw on its way gets what it says, and it may name the ids of calls as they are here.
  std::string form(form_of(*asked.api));
  for (const std::string& id : asked.api->call_ids) form.append(" ").append(id);
  return sampled_request_id(*asked.question, form, sharers);
}

/// What is partial serves the very same words only, whatever wrote it down.
bool fits(const ApiRequest& api, const ApiRecord& record, MatchLevel level) {
  const bool is_whole = record.finish_reason() == "stop" && !record.calls_tools();
  if (!is_whole && level != MatchLevel::kExact) return false;
  // The answer of such an endpoint is kept as it came, so the same request can have it, streamed or whole.
  if (!api.stream || is_verbatim(api.operation)) return record.has_body();
  return record.can_be_streamed(api.include_usage);
}

bool hides_hits(const RequestSubject& asked, const AnswerSettings& settings) {
  const std::string& protected_from = settings.timing_protection;
  return asked.operation.has_value() &&
         (protected_from == "all" || (protected_from == "shared" && asked.tenant.shares));
}

std::string_view form_of(const ApiRequest& api) {
  if (!api.stream) return "whole";
  return api.include_usage ? "stream-usage" : "stream";
}

JoiningKey coalescing_key(const RequestSubject& asked, const AnswerSettings& settings) {
  const ScopeId& scope = asked.question->scope();
  std::string key;
  key.reserve(asked.question->text().size() + 68);
  const auto add = [&](const auto& bytes) {
    key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  add(scope.space.bytes);
  add(scope.key.bytes);
  key += asked.api->stream ? 's' : 'w';
  key += asked.api->include_usage ? 'u' : '-';
  key += asked.directives.no_cache ? 'n' : '-';
  // The answer may name them, which is only known at its end.
  for (const std::string& id : asked.api->call_ids) key.append(id).push_back(' ');
  // Joining takes less time than asking, which would tell that somebody else asks the same.
  const std::string& tenant = asked.tenant.name;
  if (hides_hits(asked, settings)) {
    key.append(std::to_string(tenant.size())).append(":" + tenant);
  }
  return JoiningKey(std::move(key += asked.question->text()));
}

std::vector<std::string> attached_tags(const RequestSubject& asked) {
  std::vector<std::string> tags;
  for (const auto* digests : {&asked.api->attached, &asked.texts}) {
    for (const ContentDigest& digest : *digests) tags.push_back("media:" + digest.hex());
  }
  return tags;
}

std::vector<std::string> backend_tags(const RequestSubject& asked) {
  std::vector<std::string> tags = asked.directives.tags;
  // An entry has so many labels: erasing any media item erases it then.
  if (tags.size() + asked.attached.size() > EntryLabels::kMaxTags) {
    tags.emplace_back(kAnyMediaTag);
  } else {
    std::ranges::copy(asked.attached, std::back_inserter(tags));
  }
  return tags;
}

std::optional<Duration> ttl_of(const CacheDirectives& directives, const Settings& settings) {
  const std::optional<Duration> ttl =
      directives.ttl.has_value() ? directives.ttl : settings.answers.ttl;
  return shorter(shorter(ttl, settings.answers.max_ttl), live_of(settings));
}

AnswerQuota quota_of(const Tenant& tenant) {
  AnswerQuota quota{.bytes = tenant.max_bytes, .entries = {}};
  if (tenant.max_entries.has_value()) quota.entries = EntryCount(*tenant.max_entries);
  return quota;
}

}  // namespace afterimage
