// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/cache_control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

constexpr Duration kEver = std::chrono::seconds(1LL << 31U);

CacheDirectives directives_of(const HttpHeaders& headers,
                              const std::optional<ApiCacheDirectives>& body = {}) {
  const auto directives = cache_directives(headers, body);
  EXPECT_TRUE(directives.has_value()) << directives.error().message;
  return directives.value_or(CacheDirectives());
}

CacheDirectives of_cache_control(const std::string& value) {
  return directives_of({{"Cache-Control", value}});
}

TEST(CacheDirectives, DefaultsWithoutHeaders) {
  EXPECT_EQ(directives_of({}), CacheDirectives());
  EXPECT_EQ(directives_of({{"Content-Type", "application/json"}, {"X-Request-Id", "7"}}),
            CacheDirectives());
  EXPECT_EQ(directives_of({}, ApiCacheDirectives()), CacheDirectives());
}

TEST(CacheDirectives, ReadsCacheControl) {
  const struct {
    const char* value;
    CacheDirectives expected;
  } kCases[] = {
      {"no-store", {.no_store = true}},
      {"no-cache", {.no_cache = true}},
      {"only-if-cached", {.only_if_cached = true}},
      {"max-age=60", {.max_age = 60s}},
      {"max-age=0", {.max_age = 0s}},
      {"s-maxage=60", {.max_age = 60s}},
      {"min-fresh=5", {.min_fresh = 5s}},
      {"NO-STORE, Max-Age=60", {.no_store = true, .max_age = 60s}},
      {"no-store,no-cache,only-if-cached",
       {.no_store = true, .no_cache = true, .only_if_cached = true}},
      {" ,, no-store\t,\t,max-age=60 , ", {.no_store = true, .max_age = 60s}},
      {"max-age=60, max-age=30, max-age=90", {.max_age = 30s}},
      {"min-fresh=60, min-fresh=90, min-fresh=30", {.min_fresh = 90s}},
      {"max-age=\"60\"", {.max_age = 60s}},
      {"max-age=\"6\\0\"", {.max_age = 60s}},
      {"no-cache=\"Set-Cookie, X\"", {.no_cache = true}},
      {"no-store=x", {.no_store = true}},
      {"max-age=2147483648", {.max_age = kEver}},
      {"max-age=99999999999999999999999", {.max_age = kEver}},
      {"", {}},
      // Known but without effect: nothing stale is ever served, nothing is transformed.
      {"max-stale, max-stale=60, no-transform, stale-while-revalidate=9, stale-if-error=9", {}},
      // Unknown.
      {"private, community=\"UCI\", x=\"a\\\"b, no-store\", y", {}},
      {"nostore, no_cache, max-ages=1", {}},
  };
  for (const auto& c : kCases) EXPECT_EQ(of_cache_control(c.value), c.expected) << c.value;
}

TEST(CacheDirectives, MalformedDirectivesCountAsTheStrictest) {
  for (const char* value : {"max-age", "max-age=", "max-age=\"\"", "max-age=-1", "max-age=1.5",
                            "max-age=abc", "max-age=60s", "max-age=+60", "max-age=0x10"}) {
    EXPECT_EQ(of_cache_control(value).max_age, 0s) << value;
    EXPECT_FALSE(of_cache_control(value).no_store) << value;
  }
  for (const char* value : {"min-fresh", "min-fresh=x", "min-fresh=-1"}) {
    EXPECT_TRUE(of_cache_control(value).no_cache) << value;
  }
  const CacheDirectives nothing{.no_store = true, .no_cache = true};
  for (const char* value :
       {"max-age=60 61", "max-age =60", "no-store;", "max-age=60; no-store", "=60", "\"no-store\"",
        "x=\"no-store", "x=\"a\\", "x=\"a\"b", "no store", "\xff", "no-store\x01", "[]", "x y"}) {
    const CacheDirectives directives = of_cache_control(value);
    EXPECT_TRUE(directives.no_store) << value;
    EXPECT_TRUE(directives.no_cache) << value;
  }
  EXPECT_EQ(of_cache_control("a b"), nothing);
  EXPECT_EQ(of_cache_control("a b, only-if-cached").only_if_cached, true) << "the rest is read";
}

TEST(CacheDirectives, MergesRepeatedHeaders) {
  EXPECT_EQ(
      directives_of({{"Cache-Control", "max-age=60"}, {"cache-control", "no-store, max-age=30"}}),
      (CacheDirectives{.no_store = true, .max_age = 30s}));
  // An unterminated quote in one header does not hide the next header.
  const CacheDirectives directives =
      directives_of({{"Cache-Control", "x=\"a"}, {"Cache-Control", "only-if-cached, y=\"b\""}});
  EXPECT_TRUE(directives.only_if_cached);
  EXPECT_TRUE(directives.no_store);
}

TEST(CacheDirectives, CacheControlOverridesPragma) {
  EXPECT_TRUE(directives_of({{"Pragma", "no-cache"}}).no_cache);
  EXPECT_TRUE(directives_of({{"pragma", "x, No-Cache"}}).no_cache);
  EXPECT_TRUE(directives_of({{"Pragma", "no-cache, no-cache"}}).no_cache) << "the loop ends";
  EXPECT_TRUE(directives_of({{"Pragma", "no-cache"}, {"Pragma", "a, b"}}).no_cache);
  EXPECT_FALSE(directives_of({{"Pragma", "nothing"}}).no_cache);
  EXPECT_FALSE(directives_of({{"Pragma", "no-cache"}, {"Cache-Control", "max-age=60"}}).no_cache);
  EXPECT_FALSE(directives_of({{"Cache-Control", ""}, {"Pragma", "no-cache"}}).no_cache);
}

// X-Afterimage-* headers.

TEST(CacheDirectives, ReadsTheLoosestMatchAllowed) {
  const struct {
    const char* value;
    CacheDirectives expected;
  } kCases[] = {
      {"off", {.off = true}},
      {"exact", {.ceiling = MatchLevel::kExact}},
      {"text:exact", {.ceiling = MatchLevel::kExact}},
      {"canonical", {.ceiling = MatchLevel::kCanonical}},
      {"near", {.ceiling = MatchLevel::kNear}},
      {"near, exact, canonical", {.ceiling = MatchLevel::kExact}},
      {" ,exact,, ", {.ceiling = MatchLevel::kExact}},
      {"near,off", {.off = true, .ceiling = MatchLevel::kNear}},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(directives_of({{"X-Afterimage-Cache", c.value}}), c.expected) << c.value;
  }
  EXPECT_EQ(
      directives_of({{"X-Afterimage-Cache", "near"}, {"x-afterimage-cache", "exact"}}).ceiling,
      MatchLevel::kExact);
}

TEST(CacheDirectives, ReadsTtlNamespaceAndTags) {
  const CacheDirectives directives =
      directives_of({{"X-Afterimage-TTL", "3600"},
                     {"X-Afterimage-Namespace", "team/a:prod_1.0-x@y+z="},
                     {"X-Afterimage-Tags", "doc:42@v7, b"},
                     {"X-Afterimage-Tags", ",b,,c"}});
  EXPECT_EQ(directives.ttl, 3600s);
  EXPECT_EQ(directives.name_space, "team/a:prod_1.0-x@y+z=");
  EXPECT_EQ(directives.tags, (std::vector<std::string>{"doc:42@v7", "b", "c"}));
  EXPECT_EQ(directives_of({{"X-Afterimage-TTL", "60"}, {"X-Afterimage-TTL", "30"}}).ttl, 30s);
  EXPECT_TRUE(directives_of({{"X-Afterimage-TTL", "0"}}).no_store);
  EXPECT_FALSE(directives_of({{"X-Afterimage-TTL", "1"}}).no_store);
}

TEST(CacheDirectives, ReadsWhoAsksAndWhetherAnotherTurnFollows) {
  EXPECT_EQ(directives_of({}).hints.conversation, ContinuationHint::kNone);
  const CacheDirectives directives = directives_of(
      {{"X-Afterimage-Agent", "planner/1"}, {"X-Afterimage-Conversation", "goes_on"}});
  EXPECT_EQ(directives.hints.workflow.workflow, "");
  EXPECT_EQ(directives.hints.agent, "planner/1");
  EXPECT_EQ(directives.hints.conversation, ContinuationHint::kGoesOn);
  const CacheDirectives of_a_step =
      directives_of({{"X-Afterimage-Workflow", "triage"},
                     {"X-Afterimage-Step", "read"},
                     {"X-Afterimage-Next-Steps", "judge, write,judge"}});
  EXPECT_EQ(of_a_step.hints.workflow.workflow, "triage");
  EXPECT_EQ(of_a_step.hints.workflow.step, "read");
  EXPECT_EQ(of_a_step.hints.workflow.next_steps, (std::vector<std::string>{"judge", "write"}));
  EXPECT_EQ(directives_of({{"x-afterimage-conversation", "ends"}}).hints.conversation,
            ContinuationHint::kEnds);
}

TEST(CacheDirectives, ReadsWhatServesASampledRequest) {
  EXPECT_EQ(directives_of({}).sampled, "");
  for (const char* rule : {"per-requester", "replay", "off"}) {
    EXPECT_EQ(directives_of({{"X-Afterimage-Sampled", rule}}).sampled, rule);
  }
  const HttpHeaders two{{"X-Afterimage-Sampled", "replay"}, {"X-Afterimage-Sampled", "off"}};
  EXPECT_FALSE(cache_directives(two, std::nullopt).has_value());
}

TEST(CacheDirectives, RefusesInvalidAfterimageHeaders) {
  std::string tags = "t0";
  for (int i = 1; i < 33; ++i) tags += ",t" + std::to_string(i);
  const struct {
    std::string name;
    std::string value;
    std::string expected;
  } kCases[] = {
      {"X-Afterimage-Cache", "", "X-Afterimage-Cache: '' is not off, exact, canonical or near"},
      {"X-Afterimage-Cache", "on", "'on' is not off, exact, canonical or near"},
      {"X-Afterimage-Cache", "Exact", "'Exact' is not off"},
      {"X-Afterimage-Cache", "near exact", "'near exact' is not off"},
      {"X-Afterimage-TTL", "", "X-Afterimage-TTL: '' is not a whole number of seconds"},
      {"X-Afterimage-TTL", "-1", "'-1' is not a whole number of seconds"},
      {"X-Afterimage-TTL", "1.5", "'1.5' is not a whole number of seconds"},
      {"X-Afterimage-TTL", "1 h", "'1 h' is not a whole number of seconds"},
      {"X-Afterimage-Namespace", "", "X-Afterimage-Namespace: '' is not 1 to 128 letters"},
      {"X-Afterimage-Namespace", "a b", "'a b' is not 1 to 128 letters"},
      {"X-Afterimage-Namespace", "a\tb", "is not 1 to 128 letters"},
      {"X-Afterimage-Namespace", "\xC3\xA9", "is not 1 to 128 letters"},
      {"X-Afterimage-Namespace", std::string(129, 'a'), "is not 1 to 128 letters"},
      {"X-Afterimage-Tags", "a b", "X-Afterimage-Tags: 'a b' is not one of at most 32 names"},
      {"X-Afterimage-Tags", std::string(129, 'a'), "is not one of at most 32 names"},
      {"X-Afterimage-Agent", "a b", "X-Afterimage-Agent: 'a b' is not 1 to 128 letters"},
      {"X-Afterimage-Conversation", "maybe", "'maybe' is not goes_on or ends"},
      {"X-Afterimage-Sampled", "Replay",
       "X-Afterimage-Sampled: 'Replay' is not per-requester, replay or off"},
      {"X-Afterimage-Step", "", "X-Afterimage-Step: '' is not 1 to 128 letters"},
      {"X-Afterimage-Next-Steps", "a, b, c, d, e", "'e' is not one of at most 4 names"},
      {"X-Afterimage-Tags", tags, "'t32' is not one of at most 32 names"},
  };
  for (const auto& c : kCases) {
    const auto directives = cache_directives({{c.name, c.value}}, std::nullopt);
    ASSERT_FALSE(directives.has_value()) << c.name << ": " << c.value;
    EXPECT_EQ(directives.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(directives.error().message.contains(c.expected)) << directives.error().message;
  }
  EXPECT_TRUE(
      cache_directives({{"X-Afterimage-Namespace", std::string(128, 'a')}}, {}).has_value());
}

TEST(CacheDirectives, RefusesTwoNamespaces) {
  EXPECT_FALSE(
      cache_directives({{"X-Afterimage-Namespace", "a"}, {"X-Afterimage-Namespace", "b"}}, {})
          .has_value());
  EXPECT_EQ(
      directives_of({{"X-Afterimage-Namespace", "a"}, {"X-Afterimage-Namespace", "a"}}).name_space,
      "a");
}

// Headers of other gateways.

TEST(CacheDirectives, ReadsHeadersOfOtherGateways) {
  const struct {
    const char* name;
    const char* value;
    CacheDirectives expected;
  } kCases[] = {
      {"X-OpenRouter-Cache", "true", {}},
      {"X-OpenRouter-Cache", "True", {}},
      {"X-OpenRouter-Cache", "false", {.off = true}},
      {"X-OpenRouter-Cache", "1", {.off = true}},
      {"X-OpenRouter-Cache-TTL", "300", {.ttl = 300s}},
      {"X-OpenRouter-Cache-TTL", "soon", {.no_store = true, .ttl = 0s}},
      {"X-OpenRouter-Cache-Clear", "true", {.no_cache = true}},
      {"X-OpenRouter-Cache-Clear", "false", {}},
      {"Helicone-Cache-Enabled", "true", {}},
      {"Helicone-Cache-Enabled", "false", {.off = true}},
      {"Helicone-Cache-Seed", "user-123", {.name_space = "user-123"}},
      {"Helicone-Cache-Bucket-Max-Size", "1", {}},
      {"Helicone-Cache-Bucket-Max-Size", "3", {.off = true}},
      {"x-portkey-cache-force-refresh", "True", {.no_cache = true}},
      {"x-portkey-cache-force-refresh", "", {.no_cache = true}},
      {"x-portkey-cache-force-refresh", "False", {}},
      {"x-portkey-cache-namespace", "ns", {.name_space = "ns"}},
      {"x-portkey-cache-namespace", "", {}},
      {"x-bf-cache-key", "session-1", {.name_space = "session-1"}},
      {"x-bf-cache-ttl", "300", {.ttl = 300s}},
      {"x-bf-cache-ttl", "30s", {.ttl = 30s}},
      {"x-bf-cache-ttl", "2h30m", {.ttl = 150min}},
      {"x-bf-cache-ttl", "1.5h", {.ttl = 90min}},
      {"x-bf-cache-ttl", "300ms", {.ttl = 300ms}},
      {"x-bf-cache-ttl", "-5m", {.no_store = true, .ttl = 0s}},
      {"x-bf-cache-ttl", "5 m", {.no_store = true, .ttl = 0s}},
      {"x-bf-cache-ttl", "5d", {.no_store = true, .ttl = 0s}},
      {"x-bf-cache-ttl", "m", {.no_store = true, .ttl = 0s}},
      {"x-bf-cache-ttl", "1..5h", {.no_store = true, .ttl = 0s}},
      {"x-bf-cache-ttl", "", {.no_store = true, .ttl = 0s}},
      {"x-bf-cache-ttl", "99999999999999h", {.ttl = kEver}},
      {"x-bf-cache-type", "direct", {.ceiling = MatchLevel::kExact}},
      {"x-bf-cache-type", "semantic", {}},
      {"x-bf-cache-type", "other", {.ceiling = MatchLevel::kExact}},
      {"x-bf-cache-no-store", "true", {.no_store = true}},
      {"x-bf-cache-no-store", "false", {}},
      {"cf-aig-skip-cache", "true", {.off = true}},
      {"cf-skip-cache", "true", {.off = true}},
      {"cf-aig-cache-ttl", "3600", {.ttl = 3600s}},
      {"cf-cache-ttl", "60", {.ttl = 60s}},
      // Ignored: these would serve more, or have no equivalent here.
      {"Helicone-Cache-Ignore-Keys", "request_id", {}},
      {"cf-aig-cache-key", "k", {}},
      {"x-bf-cache-threshold", "0.1", {}},
      {"x-portkey-cache", "semantic", {}},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(directives_of({{c.name, c.value}}), c.expected) << c.name << ": " << c.value;
  }
}

TEST(CacheDirectives, DigestsNamespacesThatAreNotValidNames) {
  const auto of = [](const std::string& seed) {
    return directives_of({{"Helicone-Cache-Seed", seed}}).name_space;
  };
  EXPECT_TRUE(of("a b").starts_with("sha256:"));
  EXPECT_EQ(of("a b").size(), 7U + 64U);
  EXPECT_EQ(of("a b"), of("a b"));
  EXPECT_NE(of("a b"), of("a  b"));
  EXPECT_NE(of(std::string(200, 'x')), of(std::string(201, 'x')));
}

TEST(CacheDirectives, CombinesTwoNamespacesOfOtherGateways) {
  const auto of = [](const std::string& seed, const std::string& key) {
    return directives_of({{"Helicone-Cache-Seed", seed}, {"x-bf-cache-key", key}}).name_space;
  };
  EXPECT_EQ(of("a", "a"), "a");
  EXPECT_NE(of("a", "b"), "a");
  EXPECT_NE(of("a", "b"), "b");
  EXPECT_NE(of("a", "bc"), of("ab", "c"));
}

TEST(CacheDirectives, ReadsTheCacheObjectOfTheBody) {
  EXPECT_EQ(
      directives_of({}, ApiCacheDirectives{.ttl_s = 60.0, .max_age_s = 0.5, .name_space = "n"}),
      (CacheDirectives{.max_age = 500ms, .ttl = 60s, .name_space = "n"}));
  EXPECT_EQ(directives_of({}, ApiCacheDirectives{.no_cache = true, .no_store = true}),
            (CacheDirectives{.no_store = true, .no_cache = true}));
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  const double kInfinite = std::numeric_limits<double>::infinity();
  for (const double broken : {-1.0, kNan, -kInfinite, 0.0}) {
    const CacheDirectives directives =
        directives_of({}, ApiCacheDirectives{.ttl_s = broken, .max_age_s = broken});
    EXPECT_TRUE(directives.no_store) << broken;
    EXPECT_EQ(directives.max_age, 0s) << broken;
  }
  EXPECT_EQ(directives_of({}, ApiCacheDirectives{.ttl_s = kInfinite, .max_age_s = 1e300}),
            (CacheDirectives{.max_age = kEver, .ttl = kEver}));
}

TEST(CacheDirectives, AfterimageHeadersOverrideOtherGatewaysAndTheBody) {
  const ApiCacheDirectives body{.ttl_s = 1.0, .name_space = "body"};
  HttpHeaders headers;
  EXPECT_EQ(directives_of(headers, body), (CacheDirectives{.ttl = 1s, .name_space = "body"}));
  headers.add("X-OpenRouter-Cache-TTL", "20");
  headers.add("x-portkey-cache-namespace", "other");
  EXPECT_EQ(directives_of(headers, body), (CacheDirectives{.ttl = 20s, .name_space = "other"}));
  headers.add("x-bf-cache-ttl", "10s");
  EXPECT_EQ(directives_of(headers, body).ttl, 10s) << "the shorter of two with the same rank";
  headers.add("X-Afterimage-TTL", "300");
  headers.add("X-Afterimage-Namespace", "ours");
  EXPECT_EQ(directives_of(headers, body), (CacheDirectives{.ttl = 300s, .name_space = "ours"}));
}

TEST(CacheDirectives, RestrictionsAddUp) {
  const ApiCacheDirectives body{.max_age_s = 30.0, .no_cache = true};
  const CacheDirectives directives = directives_of({{"Cache-Control", "max-age=60, no-store"},
                                                    {"X-Afterimage-Cache", "near"},
                                                    {"x-bf-cache-type", "direct"}},
                                                   body);
  EXPECT_EQ(
      directives,
      (CacheDirectives{
          .no_store = true, .no_cache = true, .max_age = 30s, .ceiling = MatchLevel::kExact}));
  EXPECT_TRUE(directives_of({{"X-OpenRouter-Cache", "true"}, {"X-Afterimage-Cache", "off"}}).off);
  EXPECT_TRUE(directives_of({{"X-OpenRouter-Cache", "false"}, {"X-Afterimage-Cache", "near"}}).off);
}

/// True if `loose` allows everything that `strict` allows to be served and stored.
bool allows_all_of(const CacheDirectives& loose, const CacheDirectives& strict) {
  const auto implies = [](bool loose_flag, bool strict_flag) { return !loose_flag || strict_flag; };
  return implies(loose.off, strict.off) && implies(loose.no_store, strict.no_store) &&
         implies(loose.no_cache, strict.no_cache) &&
         implies(loose.only_if_cached, strict.only_if_cached) &&
         strict.max_age.value_or(kEver) <= loose.max_age.value_or(kEver) &&
         strict.min_fresh.value_or(0s) >= loose.min_fresh.value_or(0s) &&
         strict.ceiling.value_or(MatchLevel::kNear) <= loose.ceiling.value_or(MatchLevel::kNear);
}

TEST(CacheDirectivesProperty, HeadersOnlyRestrict) {
  const std::vector<std::string> kNames{"Cache-Control",
                                        "X-OpenRouter-Cache",
                                        "X-OpenRouter-Cache-TTL",
                                        "Helicone-Cache-Enabled",
                                        "Helicone-Cache-Seed",
                                        "Helicone-Cache-Bucket-Max-Size",
                                        "x-portkey-cache-force-refresh",
                                        "x-bf-cache-type",
                                        "x-bf-cache-ttl",
                                        "x-bf-cache-no-store",
                                        "cf-aig-skip-cache",
                                        "X-OpenRouter-Cache-Clear"};
  const std::vector<std::string> kValues{
      "true",        "false",     "",         "0",        "1",  "60",   "no-store",
      "no-cache",    "max-age=5", "direct",   "semantic", "5m", "x=\"", "max-age=9, min-fresh=3",
      "min-fresh=x", "\xff",      "max-stale"};
  for_each_seed(500, [&](Rng& rng) {
    HttpHeaders headers;
    CacheDirectives before;
    for (std::uint64_t i = 1 + rng.below(6); i > 0; --i) {
      headers.add(kNames[rng.below(kNames.size())], kValues[rng.below(kValues.size())]);
      const CacheDirectives after = directives_of(headers);
      ASSERT_TRUE(allows_all_of(before, after)) << "header " << headers.size();
      before = after;
    }
  });
}

// Response headers.

std::string report_of(const CacheReport& report) {
  HttpHeaders headers;
  add_cache_headers(headers, report);
  std::string all;
  for (const auto& [name, value] : headers) all += name + ": " + value + "\n";
  return all;
}

TEST(CacheHeaders, ReportTheOutcome) {
  EXPECT_EQ(
      report_of(
          {.outcome = CacheOutcome::kHit, .detail = "text:exact", .age = 61'999ms, .ttl = 3540s}),
      "Cache-Status: afterimage; hit; ttl=3540; detail=text:exact\n"
      "X-Cache: HIT\nX-Cache-Source: text:exact\nAge: 61\n");
  EXPECT_EQ(report_of({.outcome = CacheOutcome::kHit, .age = 0s}),
            "Cache-Status: afterimage; hit\nX-Cache: HIT\nAge: 0\n");
  EXPECT_EQ(report_of({.outcome = CacheOutcome::kJoined, .detail = "text:exact"}),
            "Cache-Status: afterimage; fwd=miss; collapsed; detail=text:exact\n"
            "X-Cache: HIT\nX-Cache-Source: text:exact\n");
  EXPECT_EQ(report_of({.outcome = CacheOutcome::kMiss, .stored = true, .ttl = 60s}),
            "Cache-Status: afterimage; fwd=miss; stored; ttl=60\nX-Cache: MISS\n");
  EXPECT_EQ(report_of({.outcome = CacheOutcome::kMiss, .detail = "no-match"}),
            "Cache-Status: afterimage; fwd=miss; detail=no-match\nX-Cache: MISS\n");
  EXPECT_EQ(report_of({.outcome = CacheOutcome::kBypass, .detail = "off"}),
            "Cache-Status: afterimage; fwd=bypass; detail=off\nX-Cache: BYPASS\n");
  EXPECT_EQ(report_of({.outcome = CacheOutcome::kRefresh, .stored = true}),
            "Cache-Status: afterimage; fwd=request; stored\nX-Cache: REFRESH\n");
}

TEST(CacheHeaders, QuoteDetailsThatAreNotTokens) {
  const auto status = [](const std::string& detail) {
    HttpHeaders headers;
    add_cache_headers(headers, {.outcome = CacheOutcome::kMiss, .detail = detail});
    return std::string(headers.find("Cache-Status").value());
  };
  EXPECT_TRUE(status("a/b:c.d-e").ends_with("; detail=a/b:c.d-e"));
  EXPECT_TRUE(status("*").ends_with("; detail=*"));
  EXPECT_TRUE(status("a b").ends_with("; detail=\"a b\""));
  EXPECT_TRUE(status("1st").ends_with("; detail=\"1st\"")) << "a token begins with a letter";
  EXPECT_TRUE(status("a;b").ends_with("; detail=\"a;b\""));
  EXPECT_TRUE(status("say \"no\" \\").ends_with("; detail=\"say \\\"no\\\" \\\\\""));
  EXPECT_TRUE(status("a\r\nX: y").ends_with("; detail=\"a??X: y\"")) << "no header injection";
}

TEST(CacheHeaders, ReplaceUpstreamHeadersExceptCacheStatus) {
  HttpHeaders headers{{"cache-status", "origin; hit"},
                      {"x-cache", "HIT"},
                      {"X-Cache-Source", "elsewhere"},
                      {"age", "7"}};
  add_cache_headers(headers, {.outcome = CacheOutcome::kMiss});
  EXPECT_EQ(headers.joined("Cache-Status"), "origin; hit, afterimage; fwd=miss");
  EXPECT_EQ(headers.joined("X-Cache"), "MISS");
  EXPECT_FALSE(headers.find("X-Cache-Source").has_value());
  EXPECT_FALSE(headers.find("Age").has_value());
}

TEST(CacheHeaders, AgeIsNeverNegative) {
  EXPECT_TRUE(report_of({.outcome = CacheOutcome::kHit, .age = -5s}).ends_with("Age: 0\n"));
  EXPECT_TRUE(report_of({.outcome = CacheOutcome::kHit, .ttl = -1ms}).contains("; ttl=-1\n"))
      << "RFC 9211 2.4: stale";
}

}  // namespace
}  // namespace afterimage
