// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_terms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace afterimage {
namespace {

RequestSubject asked(const std::string& question, const std::string& more) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":")" + question + "\"}]" + more + "}";
  RequestSubject subject;
  subject.operation = ApiOperation::kChat;
  subject.api = std::make_shared<const ApiRequest>(
      read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value());
  return subject;
}

const std::string kGreedy = R"(,"temperature":0)";
const std::string kSampled = R"(,"temperature":0.5)";

TEST(ServingTerms, SayWhyARequestIsNotReused) {
  using Change = void (*)(RequestSubject&, Settings&);
  const struct {
    RequestSubject subject;
    Change change;
    Reason expected;
  } kCases[] = {
      {asked("x", kGreedy), [](RequestSubject&, Settings& s) { s.answers.enabled = false; },
       Reason::kDisabled},
      {asked("x", kGreedy), [](RequestSubject& r, Settings&) { r.directives.off = true; },
       Reason::kOff},
      {asked("x", ""), [](RequestSubject&, Settings& s) { s.answers.sampled = "off"; },
       Reason::kNoTemperature},
      {asked("x", kSampled), [](RequestSubject&, Settings& s) { s.answers.sampled = "off"; },
       Reason::kNotDeterministic},
      {asked("x", kSampled), [](RequestSubject& r, Settings&) { r.tenant.sampled = "off"; },
       Reason::kNotDeterministic},
      {asked("x", kSampled), [](RequestSubject& r, Settings&) { r.directives.sampled = "off"; },
       Reason::kNotDeterministic},
      {asked("x", kSampled + R"(,"tools":[{"type":"function","function":{"name":"f"}}])"),
       [](RequestSubject&, Settings& s) { s.answers.tool_calls = false; },
       Reason::kNotDeterministic}};
  for (const auto& c : kCases) {
    RequestSubject subject = c.subject;
    Settings settings;
    c.change(subject, settings);
    const auto terms = serving_terms(subject, settings, /*samples=*/std::nullopt);
    ASSERT_FALSE(terms.has_value()) << to_string(c.expected);
    EXPECT_EQ(to_string(terms.error().reason), to_string(c.expected));
    EXPECT_FALSE(terms.error().why.empty());
  }
}

TEST(ServingTerms, AreTheStrictestOfSettingsTenantAndRequest) {
  Settings settings;
  settings.answers.match_level = MatchLevel::kNear;
  RequestSubject subject = asked("x", kGreedy);
  const auto terms = [&] { return serving_terms(subject, settings, false).value(); };
  EXPECT_EQ(terms().rules.serve, MatchLevel::kNear);
  EXPECT_TRUE(terms().similarity);
  subject.directives.ceiling = MatchLevel::kCanonical;
  EXPECT_EQ(terms().rules.serve, MatchLevel::kCanonical);
  EXPECT_FALSE(terms().similarity) << "who names the match levels wants no similar questions";
  subject.tenant.match_level = MatchLevel::kExact;
  EXPECT_EQ(terms().rules.serve, MatchLevel::kExact);
  subject = asked("x", R"(,"seed":1)");
  EXPECT_EQ(terms().rules.serve, MatchLevel::kExact) << "a seed repeats the same words only";
}

TEST(ServingTerms, LeaveAQuestionThatSpeaksOfTimeExactMatchesOnly) {
  Settings settings;
  settings.answers.match_level = MatchLevel::kNear;
  const auto heeded = [&](const char* question) {
    const RequestSubject subject = asked(question, kGreedy);
    ServingTerms terms = serving_terms(subject, settings, false).value();
    EXPECT_TRUE(terms.ignores_time);
    heed_time(terms, subject);
    EXPECT_FALSE(terms.ignores_time);
    return terms;
  };
  const ServingTerms today = heeded("What is the weather today?");
  EXPECT_EQ(today.rules.serve, MatchLevel::kExact) << "similar words may be about another day";
  EXPECT_EQ(today.rules.watch, MatchLevel::kExact);
  EXPECT_FALSE(today.similarity);
  EXPECT_EQ(today.only_exact, "the question speaks of time");
  const ServingTerms always = heeded("Who painted the Mona Lisa?");
  EXPECT_EQ(always.rules.serve, MatchLevel::kNear);
  EXPECT_TRUE(always.similarity);
  EXPECT_EQ(always.only_exact, "");
}

TEST(ServingTerms, SampledRequestsAreServedDrawsOrReplays) {
  Settings settings;
  settings.answers.match_level = MatchLevel::kNear;
  for (const std::string& body : {std::string(), kSampled, std::string(R"(,"temperature":null)")}) {
    RequestSubject subject = asked("x", body);
    const auto draws = serving_terms(subject, settings, std::nullopt).value();
    EXPECT_TRUE(draws.draws) << body;
    EXPECT_FALSE(draws.similarity) << body;
    EXPECT_EQ(draws.rules.serve, MatchLevel::kExact) << body;
    subject.directives.sampled = "replay";
    subject.directives.max_age = std::chrono::seconds(1);
    const auto replay = serving_terms(subject, settings, std::nullopt).value();
    EXPECT_FALSE(replay.draws || replay.similarity) << body;
    EXPECT_EQ(replay.rules.serve, MatchLevel::kExact) << body;
    EXPECT_EQ(replay.rules.max_age, std::chrono::seconds(1)) << body;
  }
  for (const std::string& body : {kGreedy, std::string(R"(,"seed":1)")}) {
    EXPECT_FALSE(serving_terms(asked("x", body), settings, std::nullopt).value().draws) << body;
  }
}

TEST(ServingTerms, WithoutATemperatureAnEngineThatDoesNotSampleHasOneAnswer) {
  Settings settings;
  settings.answers.sampled = "off";
  const RequestSubject subject = asked("x", "");
  const auto terms = serving_terms(subject, settings, /*samples=*/false);
  ASSERT_TRUE(terms.has_value());
  EXPECT_FALSE(terms->draws);
  EXPECT_EQ(terms->rules.serve, MatchLevel::kExact);
  EXPECT_EQ(serving_terms(subject, settings, /*samples=*/true).error().reason,
            Reason::kNoTemperature);
}

TEST(SampledRule, IsTheRequestsUnlessTheOperatorSwitchedItOff) {
  const struct {
    const char* settings;
    const char* tenant;
    const char* request;
    const char* expected;
  } kCases[] = {{"per-requester", "", "", "per-requester"},
                {"per-requester", "", "replay", "replay"},
                {"per-requester", "", "off", "off"},
                {"replay", "", "per-requester", "per-requester"},
                {"replay", "", "off", "off"},
                {"off", "", "replay", "off"},
                {"off", "", "per-requester", "off"},
                {"off", "replay", "", "replay"},
                {"off", "replay", "per-requester", "per-requester"},
                {"replay", "off", "replay", "off"},
                {"replay", "per-requester", "", "per-requester"}};
  for (const auto& c : kCases) {
    RequestSubject subject = asked("x", kSampled);
    AnswerSettings settings;
    settings.sampled = c.settings;
    subject.tenant.sampled = c.tenant;
    subject.directives.sampled = c.request;
    EXPECT_EQ(sampled_rule(subject, settings), c.expected)
        << c.settings << ", " << c.tenant << ", " << c.request;
  }
}

TEST(Requester, IsTheFirstNameWithinTheKey) {
  const auto requester = [](const std::string& body, const RequestHints& hints = {},
                            const std::string& key = "k", const std::string& forwarded = "",
                            const std::string& session = "") {
    RequestSubject subject = asked("x", body);
    subject.directives.hints = hints;
    subject.tenant.id = key;
    HttpRequest request{.peer = "10.0.0.1"};
    if (!forwarded.empty()) request.headers.add("X-Forwarded-For", forwarded);
    if (!session.empty()) request.headers.add("X-Session-Id", session);
    const RequesterId id = requester_of(subject, request);
    return std::pair(id.low, id.high);
  };
  const RequestHints agent{.agent = "a", .workflow = {.workflow = "w"}};
  const RequestHints workflow{.workflow = {.workflow = "w"}};
  const std::string conversation = R"(,"prompt_cache_key":"c")";
  const std::string metadata = R"(,"metadata":{"user_id":"m"})" + conversation;
  const std::string safety = R"(,"safety_identifier":"s")" + metadata;
  const std::string user = R"(,"user":"u")" + safety;
  const std::vector all{requester(user, agent),
                        requester(safety, agent),
                        requester(metadata, agent),
                        requester(conversation, agent),
                        requester(conversation, workflow),
                        requester(conversation),
                        requester(""),
                        requester("", {}, "k", "10.0.0.2, 10.0.0.3"),
                        requester("", {}, "k", "10.0.0.2", "session"),
                        requester(user, agent, "other key")};
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(all[0], requester(R"(,"user":"u")")) << "what comes later does not matter";
  EXPECT_EQ(all[7], requester("", {}, "k", "10.0.0.2")) << "the client, not the proxies";
  EXPECT_EQ(all[5], requester("", {}, "k", "", "c")) << "agents name their session in a header";
  EXPECT_NE(requester(R"(,"user":"x")"), requester(R"(,"safety_identifier":"x")"));
  EXPECT_EQ(requester(R"(,"user":7)"), all[6]) << "not a name";
}

// A search or an agent behind the API answers the same question otherwise tomorrow.
TEST(TtlOf, AnUpstreamThatLooksThingsUpIsTheShortestOfAll) {
  using namespace std::chrono_literals;
  Settings settings;
  CacheDirectives directives;
  EXPECT_EQ(ttl_of(directives, settings), std::nullopt);
  settings.answers.ttl = 5h;
  settings.upstream.live = 1h;
  EXPECT_EQ(ttl_of(directives, settings), 5h) << "an engine of this process looks nothing up";
  settings.upstream.url = "http://u";
  EXPECT_EQ(ttl_of(directives, settings), 1h);
  directives.ttl = 3h;
  EXPECT_EQ(ttl_of(directives, settings), 1h);
  directives.ttl = 1min;
  EXPECT_EQ(ttl_of(directives, settings), 1min);
  settings.answers.max_ttl = 1s;
  EXPECT_EQ(ttl_of(directives, settings), 1s);
  // Answers that were stored before the setting was made are too old as well.
  RequestSubject subject = asked("x", kGreedy);
  EXPECT_EQ(serving_terms(subject, settings, false)->rules.max_age, 1h);
  subject.directives.max_age = 1min;
  EXPECT_EQ(serving_terms(subject, settings, false)->rules.max_age, 1min);
  settings.answers.sampled = "replay";
  RequestSubject replayed = asked("x", kSampled);
  EXPECT_EQ(serving_terms(replayed, settings, false)->rules.max_age, 1h);
  replayed.directives.max_age = 1min;
  EXPECT_EQ(serving_terms(replayed, settings, false)->rules.max_age, 1min);
}

TEST(CoalescingKey, OfTenantsWhoMustNotLearnOfEachOtherDiffers) {
  RequestSubject one = asked("x", kGreedy);
  one.question.emplace(ScopeId(), "x");
  RequestSubject other = one;
  one.tenant.name = "one";
  other.tenant.name = "other";
  AnswerSettings settings;
  EXPECT_EQ(coalescing_key(one, settings), coalescing_key(other, settings));
  settings.timing_protection = "all";
  EXPECT_NE(coalescing_key(one, settings), coalescing_key(other, settings));
}

// Who joins a draw on its way would be sent the ids of another conversation.
TEST(SampledId, OfConversationsWithOtherIdsOfCallsDiffers) {
  RequestSubject one = asked("x", kSampled);
  one.question.emplace(ScopeId(), "x");
  RequestSubject other = one;
  const AnswerSettings settings;
  EXPECT_EQ(sampled_id(one, settings), sampled_id(other, settings));
  ApiRequest with_call = *one.api;
  with_call.call_ids = {"call_1"};
  other.api = std::make_shared<const ApiRequest>(std::move(with_call));
  EXPECT_NE(sampled_id(one, settings), sampled_id(other, settings));
}

// It is told of as long as it is true, like any other answer.
TEST(DrawRules, OfAnUpstreamThatLooksThingsUpEndSoon) {
  using namespace std::chrono_literals;
  const RequestSubject subject = asked("x", kSampled);
  Settings settings;
  settings.upstream.url = "http://u";
  settings.upstream.live = 1h;
  EXPECT_EQ(draw_rules(subject, settings).max_age, 1h);
  EXPECT_EQ(draw_rules(subject, settings).ttl, 1h);
}

}  // namespace
}  // namespace afterimage
