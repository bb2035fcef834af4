// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_terms.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

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

TEST(ServingTerms, SayWhyARequestIsNotReused) {
  using Change = void (*)(RequestSubject&, Settings&);
  const Change none = [](RequestSubject&, Settings&) {};
  const struct {
    RequestSubject subject;
    Change change;
    Reason expected;
  } kCases[] = {
      {asked("x", kGreedy), [](RequestSubject&, Settings& s) { s.answers.enabled = false; },
       Reason::kDisabled},
      {asked("x", kGreedy), [](RequestSubject& r, Settings&) { r.directives.off = true; },
       Reason::kOff},
      {asked("x", ""), none, Reason::kNoTemperature},
      {asked("x", R"(,"temperature":0.5)"), none, Reason::kNotDeterministic}};
  for (const auto& c : kCases) {
    RequestSubject subject = c.subject;
    Settings settings;
    c.change(subject, settings);
    const auto terms = serving_terms(subject, settings, /*samples=*/false);
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
  subject = asked("What is the weather today?", kGreedy);
  EXPECT_EQ(terms().rules.serve, MatchLevel::kExact) << "similar words may be about another day";
}

TEST(ServingTerms, AssumeGreedySamplingOnlyWhereTheServerDoesNotSample) {
  Settings settings;
  settings.answers.assume_greedy_when_unset = true;
  const RequestSubject subject = asked("x", "");
  EXPECT_TRUE(serving_terms(subject, settings, /*samples=*/false).has_value());
  EXPECT_EQ(serving_terms(subject, settings, /*samples=*/true).error().reason,
            Reason::kNoTemperature);
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

}  // namespace
}  // namespace afterimage
