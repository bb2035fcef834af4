// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/prompt_comparing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using testing::json;
using testing::Model;
using ::testing::Not;
using testing::Running;
using testing::Said;

const std::string kHeader = "X-Afterimage-Prefix";
const std::string kRules(4000, 'r');

std::string agent(const std::string& stamp, const std::string& question,
                  const std::string& more = "") {
  return R"({"model":"m","temperature":0,"messages":[{"role":"system","content":"Request )" +
         stamp + ". " + kRules + R"("},{"role":"user","content":")" + question + "\"}]" + more +
         "}";
}

/// A server that says how many tokens it reused.
Model::Answer reuses(unsigned cached) {
  return [cached](const HttpRequest&, const Responder& responder) {
    json body = json::parse(Model::said("answer"));
    body["usage"] = {{"prompt_tokens", 1000},
                     {"completion_tokens", 3},
                     {"prompt_tokens_details", {{"cached_tokens", cached}}}};
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = body.dump()});
  };
}

json last_prefix(Running& running) {
  return running.admin("GET", "/admin/api/decisions")["decisions"].back()["prefix"];
}

TEST(PromptComparing, ARequestThatChangedItsBeginningIsToldWhere) {
  Running running;
  running.model.answers(reuses(0));
  EXPECT_EQ(running.chat(agent("17", "One?")).header(kHeader),
            "shared=0/4016 bytes; reused=0/1000 tokens; reason=never-seen");
  EXPECT_EQ(running.chat(agent("18", "Two?")).header(kHeader),
            "shared=8/4016 bytes; reused=0/1000 tokens; diverges=system@8; looks=counter");
  const json prefix = last_prefix(running);
  EXPECT_EQ(prefix["part"], "system") << prefix;
  EXPECT_EQ(prefix["looks"], "counter");
  EXPECT_EQ(prefix["blame"], "prompt");
  EXPECT_EQ(prefix["lost_by_prompt"], 996);
  EXPECT_EQ(prefix["reused_tokens"], 0);
  const std::string metrics =
      testing::ask(running.service->admin_port(), "GET", "/metrics", "").body;
  EXPECT_THAT(metrics, HasSubstr("afterimage_prefix_divergence_total{looks=\"counter\","
                                 "part=\"system\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("afterimage_prompt_tokens_total{kind=\"lost_by_prompt\"} 996"));
}

TEST(PromptComparing, AServerThatDroppedWhatIsSharedIsToBlame) {
  Running running;
  running.model.answers(reuses(0));
  running.chat(agent("17", "One?"));
  running.model.answers(reuses(990));
  EXPECT_THAT(running.chat(agent("17", "Two?")).header(kHeader), Not(HasSubstr("reason")));
  EXPECT_EQ(last_prefix(running)["reason"], "kept");
  running.model.answers(reuses(16));
  EXPECT_THAT(running.chat(agent("17", "Three?")).header(kHeader), HasSubstr("; reason=evicted"));
  EXPECT_EQ(last_prefix(running)["lost_by_server"], 983);
  EXPECT_EQ(last_prefix(running)["blame"], "server");
}

// findings/llama_server_s_prompts_overwrite_each_other.sh
TEST(PromptComparing, APromptWhosePlaceALaterOneTookIsOverwritten) {
  const auto turn = [](const std::string& agent, const std::string& more = "") {
    return R"({"model":"m","temperature":0,"messages":[{"role":"system","content":")" + kRules +
           R"("},{"role":"user","content":")" + agent + kRules + "\"}" + more + "]}";
  };
  const std::string next = R"(,{"role":"assistant","content":"1"},{"role":"user","content":"?"})";
  const auto reason_of = [&](const std::string& second_agent, unsigned reused) {
    Running running;
    running.model.answers(reuses(0));
    running.chat(turn("one"));
    running.chat(second_agent);
    running.model.answers(reuses(reused));
    running.chat(turn("one", next));
    return last_prefix(running);
  };
  const json overwritten = reason_of(turn("two"), 480);
  EXPECT_EQ(overwritten["reason"], "overwritten") << overwritten;
  EXPECT_EQ(overwritten["blame"], "server");
  EXPECT_EQ(overwritten["later_tokens"], 500);
  EXPECT_EQ(reason_of(turn("two"), 16)["reason"], "evicted");
  EXPECT_EQ(reason_of(agent("17", "Something else?"), 480)["reason"], "evicted");
  EXPECT_EQ(reason_of(turn("two"), 990)["reason"], "kept");
}

// findings/vllm_reads_no_cache_for_a_prompt_s_probabilities.sh
TEST(PromptComparing, AServerThatMustComputeThePromptsProbabilitiesIsNotToBlame) {
  Running running;
  running.model.answers(reuses(0));
  running.chat(agent("17", "One?"));
  const Said said = running.chat(agent("17", "Two?", R"(,"prompt_logprobs":0)"));
  EXPECT_THAT(said.header(kHeader), Not(HasSubstr("reason")));
  EXPECT_EQ(last_prefix(running)["blame"], "nobody");
}

// A page of numbers has twice as many tokens for its bytes as the rules before it.
TEST(PromptComparing, AQuestionWithManyTokensForItsBytesIsNoEviction) {
  Running running;
  const auto counts = [](unsigned tokens, unsigned cached) {
    return [tokens, cached](const HttpRequest&, const Responder& responder) {
      json body = json::parse(Model::said("answer"));
      body["usage"] = {{"prompt_tokens", tokens},
                       {"completion_tokens", 3},
                       {"prompt_tokens_details", {{"cached_tokens", cached}}}};
      responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = body.dump()});
    };
  };
  running.model.answers(counts(1000, 0));
  running.chat(agent("17", "One?"));
  running.model.answers(counts(3000, 992));
  running.chat(agent("17", std::string(4000, '7')));
  EXPECT_EQ(last_prefix(running)["reason"], "kept") << last_prefix(running);
}

TEST(PromptComparing, AStreamIsToldBeforeTheServerHasCounted) {
  Running running;
  running.chat(agent("17", "One?", R"(,"stream":true)"));
  EXPECT_EQ(running.chat(agent("18", "Two?", R"(,"stream":true)")).header(kHeader),
            "shared=8/4016 bytes; diverges=system@8; looks=counter");
}

TEST(PromptComparing, ABypassIsComparedAsWell) {
  Running running;
  const std::string off = "X-Afterimage-Cache: off\r\n";
  running.chat(agent("17", "One?"), off);
  const Said second = running.chat(agent("18", "One?"), off);
  EXPECT_EQ(second.header("X-Cache"), "BYPASS");
  EXPECT_THAT(second.header(kHeader), HasSubstr("diverges=system@8; looks=counter"));
}

TEST(PromptComparing, AHitSaysNothing) {
  Running running;
  running.chat(agent("17", "One?"));
  const Said hit = running.chat(agent("17", "One?"));
  EXPECT_EQ(hit.header("X-Cache"), "HIT");
  EXPECT_EQ(hit.header(kHeader), "");
  EXPECT_TRUE(last_prefix(running).is_null());
}

TEST(PromptComparing, AnotherTenantsPromptIsNeverComparedWith) {
  Running running;
  running.chat(agent("17", "One?"), "Authorization: Bearer one\r\n");
  EXPECT_THAT(running.chat(agent("17", "Two?"), "Authorization: Bearer two\r\n").header(kHeader),
              HasSubstr("reason=never-seen"));
  EXPECT_THAT(running.chat(agent("17", "Two?"), "Authorization: Bearer one\r\n").header(kHeader),
              HasSubstr("shared=4012/4016"));
}

TEST(PromptComparing, WhereHitsAreHiddenOnlyTheOperatorLearnsIt) {
  Running running("[answers]\ntiming_protection = \"all\"\n");
  running.chat(agent("17", "One?"));
  EXPECT_EQ(running.chat(agent("18", "Two?")).header(kHeader), "");
  EXPECT_EQ(last_prefix(running)["looks"], "counter");
}

/// Examples that decisions and causes have.
std::size_t examples_of(Running& running) {
  std::size_t found = 0;
  const json decisions = running.admin("GET", "/admin/api/decisions");
  const json stats = running.admin("GET", "/admin/api/stats");
  for (const json& decision : decisions["decisions"]) {
    found += decision.contains("prefix") && decision["prefix"].contains("example") ? 1 : 0;
  }
  for (const json& cause : stats["requests"]["prefix_causes"]) {
    found += cause.contains("example") ? 1 : 0;
  }
  return found;
}

const std::string kKeeps = "[explain]\nkeep_text = true\n";

TEST(PromptComparing, WithoutKeepTextThereIsNoExample) {
  Running running;
  running.chat(agent("17", "One?"));
  running.chat(agent("18", "Two?"));
  EXPECT_EQ(examples_of(running), 0U);
  const json said =
      running.admin("POST", "/admin/api/explain", R"({"body":)" + agent("19", "Two?") + "}");
  EXPECT_FALSE(said["prefix"].contains("example")) << said;
}

TEST(PromptComparing, AnExampleIsTheTextAtThePlaceThatChanged) {
  Running running(kKeeps);
  running.chat(agent("17", "One?"));
  running.chat(agent("18", "Two?"));
  const json example = last_prefix(running)["example"];
  EXPECT_EQ(example["before"], "Request ");
  EXPECT_EQ(example["after"], "18. " + kRules.substr(0, 116));
  EXPECT_EQ(example["tenant"], "anonymous");
  const json stats = running.admin("GET", "/admin/api/stats");
  EXPECT_EQ(stats["requests"]["prefix_causes"][0]["example"], example);
  EXPECT_EQ(stats["requests"]["prefix_causes"][0]["decision"], 2);
  EXPECT_EQ(running.admin("POST", "/admin/api/explain",
                          R"({"body":)" + agent("19", "Two?") + "}")["prefix"]["example"]["before"],
            "Request ");
}

TEST(PromptComparing, NoTextIsKeptOfATenantWhoseHitsAreHidden) {
  Running running(kKeeps + "[answers]\ntiming_protection = \"all\"\n");
  running.chat(agent("17", "One?"));
  running.chat(agent("18", "Two?"));
  EXPECT_EQ(last_prefix(running)["looks"], "counter");
  EXPECT_EQ(examples_of(running), 0U);
}

TEST(PromptComparing, ErasingATenantErasesItsExamplesOnly) {
  Running running(kKeeps +
                  "[[tenancy.tenants]]\nname = \"acme\"\nkey_sha256 = "
                  "[\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"]\n"
                  "[[tenancy.tenants]]\nname = \"zeta\"\nkey_sha256 = "
                  "[\"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\"]\n");
  for (const std::string key : {"a", "b"}) {
    running.chat(agent("17", "One?"), "Authorization: Bearer " + key + "\r\n");
    running.chat(agent("18", "Two?"), "Authorization: Bearer " + key + "\r\n");
  }
  EXPECT_EQ(examples_of(running), 3U) << "two decisions and one cause";
  running.admin("POST", "/admin/api/erase", R"({"tenant":"zeta"})");
  EXPECT_EQ(examples_of(running), 1U);
  running.admin("POST", "/admin/api/erase", R"({"tag":"anything"})");
  EXPECT_EQ(examples_of(running), 0U) << "nothing says which tags an example has";
}

/// The questions that the last decisions show.
std::string questions_of(Running& running) {
  const json decisions = running.admin("GET", "/admin/api/decisions");
  std::string questions;
  for (const json& decision : decisions["decisions"]) {
    questions += decision["question"].get<std::string>() + ";";
  }
  return questions;
}

// The last thousand questions were left in memory, and on the page.
TEST(PromptComparing, AnErasureErasesTheQuestionsOfDecisions) {
  Running running(
      "[[tenancy.tenants]]\nname = \"acme\"\ngroup = \"g\"\nkey_sha256 = "
      "[\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"]\n"
      "[[tenancy.tenants]]\nname = \"zeta\"\nkey_sha256 = "
      "[\"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\"]\n");
  const auto ask = [&](const std::string& key, const std::string& question) {
    return running.chat(agent("17", question), "Authorization: Bearer " + key + "\r\n")
        .header("X-Request-Id");
  };
  const std::string first = ask("a", "One?");
  ask("a", "one");  // it is served One?'s answer, if words may differ so much
  const std::string second = ask("b", "Two?");
  running.admin("POST", "/admin/api/erase", R"({"tenant":"g"})");
  EXPECT_EQ(questions_of(running), ";;Two?;");
  const json details = running.admin("GET", "/admin/api/decisions/2");
  EXPECT_THAT(details.dump(), Not(HasSubstr("One"))) << details;
  const auto wrong = [&](const std::string& id) {
    return running.admin("POST", "/admin/api/wrong", R"({"request_id":")" + id + "\"}");
  };
  EXPECT_TRUE(wrong(first).contains("error")) << "its answer is erased";
  EXPECT_TRUE(wrong(second).contains("erased"));
  running.admin("POST", "/admin/api/erase", R"({"model":"another"})");
  EXPECT_EQ(questions_of(running), ";;Two?;");
  running.admin("POST", "/admin/api/erase", R"({"model":"m"})");
  EXPECT_EQ(questions_of(running), ";;;");
}

TEST(PromptComparing, WhenKeepTextIsTurnedOffExamplesAreForgotten) {
  Running running(kKeeps);
  running.chat(agent("17", "One?"));
  running.chat(agent("18", "Two?"));
  EXPECT_EQ(examples_of(running), 2U);
  running.text.replace(running.text.find("keep_text = true"), 16, "keep_text = false");
  running.admin("POST", "/admin/api/reload");
  EXPECT_EQ(examples_of(running), 0U);
}

TEST(PromptComparing, WithoutMemoryNothingIsSaid) {
  Running running("[explain]\nmemory = \"0 B\"\n");
  EXPECT_EQ(running.chat(agent("17", "One?")).header(kHeader), "");
}

TEST(PromptComparing, ExplainSaysItBeforeARequestIsSent) {
  Running running;
  running.chat(agent("17", "One?"));
  for (int i = 0; i < 2; ++i) {  // it is not recorded
    const json said =
        running.admin("POST", "/admin/api/explain", R"({"body":)" + agent("18", "Two?") + "}");
    EXPECT_EQ(said["prefix"]["part"], "system") << said;
    EXPECT_EQ(said["prefix"]["offset"], 8);
  }
  EXPECT_EQ(running.model.asked(), 1);
}

// The most frequent reason of a miss, and "compare two requests" was the advice.
TEST(PromptComparing, AQuestionThatWasNeverSeenSaysHowItsPromptDiffers) {
  Running running;
  const auto why = [&](const std::string& body) -> std::string {
    return running.admin("POST", "/admin/api/explain", R"({"body":)" + body + "}")["why"];
  };
  EXPECT_THAT(why(agent("17", "One?")), HasSubstr("; this client has asked nothing like it"));
  running.chat(agent("17", "One?"));
  EXPECT_THAT(why(agent("18", "One?")), HasSubstr("at system@8 (changed: counter)"));
  EXPECT_THAT(why(agent("17", "Two?")), HasSubstr("at messages[1]@0 (changed: text)"));
  EXPECT_THAT(why(agent("17", "One?", R"(,"max_tokens":9)")),
              HasSubstr("its prompt is an earlier one of this client: another field"));
  running.chat(agent("18", "Two?"));
  const json last = running.admin("GET", "/admin/api/decisions/2");
  EXPECT_THAT(last["why"], HasSubstr("not seen this question before; its prompt differs"));
}

// Of a stream the header leaves before the server counts.
TEST(PromptComparing, AStreamSaysThatToolsAreLostOnceAServerHasShownIt) {
  Running running;
  const auto with_tools = [](const std::string& stamp, const std::string& more = "") {
    return agent(stamp, "One?",
                 R"(,"tools":[{"type":"function","function":{"name":"a","description":")" +
                     std::string(8000, 't') + "\"}}]" + more);
  };
  running.model.answers(reuses(0));
  running.chat(with_tools("17"));
  EXPECT_THAT(running.chat(with_tools("18")).header(kHeader), HasSubstr("shared=8/12"));
  running.model.answers(Model::chat);
  EXPECT_THAT(running.chat(with_tools("19", R"(,"stream":true)")).header(kHeader),
              HasSubstr("shared=8/12"));
}

TEST(PromptComparing, AFailedRequestIsNotComparedWith) {
  Running running;
  running.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.status = 500, .headers = {}, .body = "{}"});
  });
  EXPECT_EQ(running.chat(agent("17", "One?")).header(kHeader), "");
  running.model.answers(Model::chat);
  EXPECT_THAT(running.chat(agent("18", "Two?")).header(kHeader), HasSubstr("reason=never-seen"));
}

TEST(PromptComparing, AHeaderOfAServerIsNotPassedOn) {
  Running running;
  running.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.headers = {{"Content-Type", "application/json"},
                                 {"X-Afterimage-Prefix", "diverges=model"}},
                     .body = Model::said("answer")});
  });
  EXPECT_EQ(running.chat(agent("17", "One?")).header(kHeader),
            "shared=0/4016 bytes; reason=never-seen");
}

TEST(PromptComparing, ALongPromptIsComparedOnAnotherThread) {
  Running running;
  const std::string text(100'000, 'l');
  const auto body = [&](const std::string& stamp) { return agent(stamp, text); };
  running.chat(body("17"));
  EXPECT_THAT(running.chat(body("18")).header(kHeader),
              HasSubstr("diverges=system@8; looks=counter"));
}

}  // namespace
}  // namespace afterimage
