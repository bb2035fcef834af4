// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "foundation/platform/wall_clocks.h"
#include "testing/running_gateway.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using ::testing::AllOf;
using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using testing::Model;
using ::testing::Not;
using testing::question;
using testing::Running;
using testing::Said;
using ::testing::StartsWith;
using testing::TemporaryFolder;

TEST(Gateway, TheSameQuestionIsAnsweredFromTheCache) {
  Running running;
  const Said first = running.chat(question("What is it?"));
  EXPECT_EQ(first.status, 200U) << first.body;
  EXPECT_EQ(first.header("X-Cache"), "MISS");
  EXPECT_EQ(first.header("X-Model"), "yes") << "what the model's server says is passed on";
  const Said second = running.chat(question("What is it?"));
  EXPECT_EQ(second.header("X-Cache"), "HIT");
  EXPECT_EQ(second.header("X-Cache-Source"), "text:exact");
  EXPECT_EQ(running.model.asked(), 1);
  json one = json::parse(first.body);
  json two = json::parse(second.body);
  EXPECT_NE(one["id"], two["id"]);
  for (json* body : {&one, &two}) {
    body->erase("id");
    body->erase("created");
  }
  EXPECT_EQ(one, two);
}

/// An agent's second request: what its first call of a tool returned.
std::string after_call(const std::string& id) {
  return R"({"model":"m","temperature":0,"messages":[{"role":"user","content":"go on"},)"
         R"({"role":"assistant","content":null,"tool_calls":[{"id":")" +
         id + R"(","type":"function","function":{"name":"f","arguments":"{}"}}]},)" +
         R"({"role":"tool","tool_call_id":")" + id + R"(","content":"pending"}]})";
}
Model::Answer calls_a_tool(const std::string& id) {
  return [id](const HttpRequest&, const Responder& responder) {
    responder.reply(
        {.headers = {{"Content-Type", "application/json"}},
         .body =
             R"({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,)"
             R"("message":{"role":"assistant","content":null,"tool_calls":[{"id":")" +
             id + R"(","type":"function","function":{"name":"f","arguments":"{}"}}]},)" +
             R"("finish_reason":"tool_calls"}]})"});
  };
}

// Agents make ids at random: none of their requests was ever the same again.
TEST(Gateway, IdsOfToolCallsAreNoPartOfTheIdentity) {
  Running running;
  EXPECT_EQ(running.chat(after_call("call_aaaaaaaa")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.model.last().body->find("#0"), std::string::npos) << "bytes are the caller's";
  EXPECT_EQ(running.chat(after_call("call_bbbbbbbb")).header("X-Cache"), "HIT");
}

TEST(Gateway, OneConversationNeverHasTwoCallsWithOneId) {
  Running running;
  running.model.answers(calls_a_tool("call_bbbbbbbb"));
  EXPECT_EQ(running.chat(after_call("call_aaaaaaaa")).header("X-Cache"), "MISS");
  // The agent shows the model its last call only, and that is now the one that was answered with.
  const Said again = running.chat(after_call("call_bbbbbbbb"));
  EXPECT_EQ(again.header("X-Cache"), "HIT");
  const std::string id = json::parse(again.body)["choices"][0]["message"]["tool_calls"][0]["id"];
  EXPECT_NE(id, "call_bbbbbbbb");
  EXPECT_THAT(id, StartsWith("call_"));
  EXPECT_EQ(id.size(), std::string("call_bbbbbbbb").size());
}

TEST(Gateway, AnAnswerThatNamesACallIsNotStored) {
  Running running;
  running.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.headers = {{"Content-Type", "application/json"}},
                     .body = Model::said("as call_aaaaaaaa says")});
  });
  for (const char* id : {"call_aaaaaaaa", "call_bbbbbbbb"}) {
    EXPECT_EQ(running.chat(after_call(id)).header("X-Cache"), "MISS") << id;
  }
  const json decisions = running.admin("GET", "/admin/api/decisions")["decisions"];
  EXPECT_EQ(decisions[0]["not_stored"], "names_call") << decisions[0];
}

// One canonical identity whatever API asks, and however it spells its defaults.
TEST(Gateway, ThreeApisAndTheirSpellingsAreOneQuestion) {
  Running running;
  const auto post = [&](const char* path, const std::string& body) {
    return running.post(path, body).header("X-Cache");
  };
  EXPECT_EQ(post("/v1/chat/completions",
                 R"({"model":"m","temperature":0.0,"max_tokens":9,"n":1,"service_tier":"auto",)"
                 R"("metadata":{"a":"b"},"stop":null,"messages":[{"role":"user","content":)"
                 R"([{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]})"),
            "MISS");
  EXPECT_EQ(post("/v1/chat/completions", R"({"model":"m","temperature":0,"max_tokens":9,)"
                                         R"("messages":[{"role":"user","content":"q"}]})"),
            "HIT");
  EXPECT_EQ(post("/v1/messages", R"({"model":"m","temperature":-0.0,"max_tokens":9,"top_p":1,)"
                                 R"("messages":[{"role":"user","content":"q"}]})"),
            "HIT");
  EXPECT_EQ(
      post("/v1/responses", R"({"model":"m","temperature":0,"max_output_tokens":9,)"
                            R"("service_tier":"auto","client_metadata":{"a":"b"},"input":"q"})"),
      "HIT");
}

TEST(Gateway, OneRecordServesWholeAndStreamed) {
  Running running;
  EXPECT_EQ(running.chat(question("Q", R"(,"stream":true)")).header("X-Cache"), "MISS");
  const Said again = running.chat(question("Q", R"(,"stream":true)"));
  EXPECT_EQ(again.header("X-Cache"), "HIT");
  EXPECT_THAT(again.body, HasSubstr(R"("content":"ans")"));
  EXPECT_THAT(again.body, ::testing::EndsWith("data: [DONE]\n\n"));
  // The stream did not say its usage, which a whole answer has.
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(question("Q", R"(,"stream":true)")).header("X-Cache"), "HIT");
  EXPECT_EQ(running.model.asked(), 2);
}

TEST(Gateway, ForwardsTheRequestUnchanged) {
  Running running;
  const std::string odd =
      "{ \"model\":\"m\",\n\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
      "\"unknown\":{\"a\":[1,2.50,\"\\u00e9\"]} }";
  running.chat(odd,
               "Authorization: Bearer k\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"
               "b7ad6b7169203331-01\r\nX-Afterimage-TTL: 9\r\nX-Request-Id: mine\r\n");
  const HttpRequest seen = running.model.last();
  EXPECT_EQ(*seen.body, odd);
  EXPECT_EQ(seen.headers.find("authorization"), "Bearer k");
  EXPECT_THAT(std::string(seen.headers.find("traceparent").value()), StartsWith("00-0af7"));
  EXPECT_EQ(seen.headers.find("x-request-id"), "mine");
  EXPECT_EQ(seen.headers.find("x-afterimage-ttl"), std::nullopt);
}

TEST(Gateway, ADifferentRequestIsAMiss) {
  Running running;
  running.chat(question("What is it?"));
  for (
      const std::string& other :
      {question("What is it?", R"(,"max_tokens":5)"), question("What was it?"),
       question("What is it?", R"(,"unknown":1)"),
       question("What is it?", R"(,"tools":[{"type":"function","function":{"name":"f"}}])"),
       std::string(
           R"({"model":"n","temperature":0,"messages":[{"role":"user","content":"What is it?"}]})"),
       std::string(
           R"({"model":"m","temperature":0,"messages":[{"role":"system","content":"s"},{"role":"user","content":"What is it?"}]})")}) {
    EXPECT_EQ(running.chat(other).header("X-Cache"), "MISS") << other;
  }
  EXPECT_EQ(running.model.asked(), 7);
}

TEST(Gateway, TheCacheObjectOfTheBodyIsObeyed) {
  Running running;
  const auto asked = [&](const std::string& directives) {
    return running.chat(question("Q", R"(,"cache":{"namespace":)" + directives + "}"))
        .header("X-Cache");
  };
  EXPECT_EQ(asked(R"("a","no-store":true)"), "MISS");
  EXPECT_EQ(asked(R"("a")"), "MISS");
  EXPECT_EQ(asked(R"("a")"), "HIT");
  EXPECT_EQ(asked(R"("b")"), "MISS");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
}

TEST(Gateway, HeadersOfTheApiArePartOfWhatIsAsked) {
  Running running;
  const auto asked = [&](const std::string& headers) {
    return running.chat(question("Q"), headers).header("X-Cache");
  };
  EXPECT_EQ(asked("OpenAI-Organization: one\r\n"), "MISS");
  EXPECT_EQ(asked("openai-organization: one\r\n"), "HIT");
  EXPECT_EQ(asked("OpenAI-Organization: two\r\n"), "MISS");
  EXPECT_EQ(asked(""), "MISS");
  EXPECT_EQ(running.chat(question("Q"), "x-api-key: a\r\napi-key: b\r\n").status, 401U);
  EXPECT_EQ(running.chat(question("Q"), "x-api-key: a\r\n").header("X-Cache"), "MISS");
}

TEST(Gateway, TheQueryIsPartOfWhatIsAsked) {
  Running running;
  const auto asked = [&](const std::string& path) {
    return running.post(path, question("Q")).header("X-Cache");
  };
  EXPECT_EQ(asked("/v1/chat/completions?api-version=1"), "MISS");
  EXPECT_EQ(asked("/v1/chat/completions?api-version=1"), "HIT");
  EXPECT_EQ(asked("/v1/chat/completions?api-version=2"), "MISS");
  EXPECT_EQ(asked("/v1/chat/completions"), "MISS");
}

TEST(Gateway, ABypassSaysWhy) {
  Running running;
  const struct {
    std::string body;
    std::string headers;
    std::string why;
  } kCases[] = {
      {R"({"model":"m","temperature":0.7,"messages":[{"role":"user","content":"x"}]})",
       "X-Afterimage-Sampled: off\r\n", "not-deterministic"},
      {question("x"), "X-Afterimage-Cache: off\r\n", "off"},
      {"{not json", "", "unreadable"},
      {R"({"model":"m","temperature":0,"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"http://10.0.0.1/a.png"}}]}]})",
       "", "media-by-address"},
  };
  for (const auto& c : kCases) {
    for (int i = 0; i < 2; ++i) {
      const Said said = running.chat(c.body, c.headers);
      EXPECT_EQ(said.status, 200U) << c.why;
      EXPECT_EQ(said.header("X-Cache"), "BYPASS") << c.why;
      EXPECT_THAT(said.header("Cache-Status"), HasSubstr(c.why));
    }
  }
  EXPECT_EQ(running.model.asked(), 8);
}

// "My cache never hits, and nobody says why."
TEST(Gateway, TheOperatorLearnsWhyRequestsBypassTheCache) {
  Running running("[answers]\nsampled = \"off\"\n");
  const std::string sampled = R"({"model":"m","messages":[{"role":"user","content":"x"}]})";
  for (int i = 0; i < 100; ++i) running.chat(sampled);
  running.chat(question("x"), "X-Afterimage-Cache: off\r\n");
  running.chat(question("x"));
  const std::string stats = ask(running.service->admin_port(), "GET", "/admin/api/stats", "").body;
  const json bypasses = json::parse(stats)["requests"]["bypasses"];
  ASSERT_EQ(bypasses.size(), 2U) << stats;
  EXPECT_EQ(bypasses[0]["reason"], "no-temperature");
  EXPECT_EQ(bypasses[0]["requests"], 100);
  EXPECT_THAT(bypasses[0]["remedy"].get<std::string>(), HasSubstr("answers.sampled"));
  EXPECT_EQ(bypasses[0]["repeats"], 99) << "what the remedy would have made hits";
  EXPECT_EQ(bypasses[1]["reason"], "off");
  EXPECT_EQ(bypasses[1]["repeats"], 0);
  EXPECT_THAT(ask(running.service->admin_port(), "GET", "/metrics", "").body,
              AllOf(HasSubstr("afterimage_bypasses_total{reason=\"no-temperature\"} 100"),
                    HasSubstr("afterimage_bypassed_repeats_total{reason=\"no-temperature\"} 99"),
                    Not(HasSubstr("afterimage_bypassed_repeats_total{reason=\"unreadable\"}"))));
}

TEST(Gateway, RepeatsOfBypassesAreEqualRequestsOfOneTenant) {
  Running running("[answers]\nsampled = \"off\"\n");
  const auto asked = [](const std::string& id) {
    return R"({"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,)"
           R"("tool_calls":[{"id":")" +
           id +
           R"(","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
           R"({"role":"tool","tool_call_id":")" +
           id + R"(","content":"t"}]})";
  };
  const std::string by_address =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":)"
      R"({"url":"http://example.com/a.png"}}]}]})";
  running.chat(asked("call_aaaaaaaa"), "Authorization: Bearer one\r\n");
  running.chat(asked("call_bbbbbbbb"), "Authorization: Bearer two\r\n");
  running.chat(asked("call_cccccccc"), "Authorization: Bearer one\r\n");
  running.chat(by_address, "Authorization: Bearer one\r\n");
  running.chat(by_address, "Authorization: Bearer two\r\n");
  running.chat(by_address, "Authorization: Bearer one\r\n");
  // Of these no setting would make hits.
  for (int i = 0; i < 2; ++i) running.chat("{not json");
  const json decisions = running.admin("GET", "/admin/api/decisions")["decisions"];
  std::vector<bool> repeats;
  for (const json& decision : decisions) repeats.push_back(decision["repeats"]);
  EXPECT_EQ(repeats, (std::vector<bool>{false, false, true, false, false, true, false, false}))
      << decisions;
}

// An agent that is translated to chats by somebody else sends the line there.
TEST(Gateway, ABillingLineIsNoPartOfAChat) {
  Running running;
  const auto chat = [&](const std::string& value) {
    return running.chat(R"({"model":"m","temperature":0,"messages":[{"role":"system","content":)"
                        R"("x-anthropic-billing-header: cch=)" +
                        value + R"(;\nHelp."},{"role":"user","content":"q"}]})");
  };
  const Said first = chat("1");
  EXPECT_EQ(first.header("X-Cache"), "MISS");
  EXPECT_EQ(first.header("X-Afterimage-Ignored"), "messages[0].content");
  EXPECT_EQ(*running.model.last().body,
            R"({"model":"m","temperature":0,"messages":[{"role":"system","content":"Help."},)"
            R"({"role":"user","content":"q"}]})");
  const Said second = chat("2");
  EXPECT_EQ(second.header("X-Cache"), "HIT");
  EXPECT_EQ(second.header("X-Afterimage-Ignored"), "messages[0].content");
  EXPECT_EQ(
      running
          .post(
              "/v1/messages",
              R"({"model":"m","temperature":0,"max_tokens":9,"betas":["x"],"system":)"
              R"("x-anthropic-billing-header: cch=3;","messages":[{"role":"user","content":"q"}]})")
          .header("X-Afterimage-Ignored"),
      "betas, system");
  const json decisions = running.admin("GET", "/admin/api/decisions")["decisions"];
  EXPECT_EQ(decisions[1]["ignored"], json::array({"messages[0].content"}));
  EXPECT_EQ(decisions[2]["ignored"], json::array({"betas", "system"}));
}

// A page in a browser uses the API: hits, misses, errors and streams alike.
TEST(Gateway, PagesOfAllowedOriginsMayUseTheApi) {
  Running running;
  running.text.insert(running.text.find("[admin]"), "cors_origins = [\"https://a.example\"]\n");
  running.service = running.start();
  running.model.answers([](const HttpRequest& request, const Responder& responder) {
    if (!request.body->contains("\"stream\":true")) {
      return responder.reply(
          {.headers = {{"Content-Type", "application/json"}, {"Access-Control-Allow-Origin", "*"}},
           .body = Model::said("x")});
    }
    Model::chat(request, responder);
  });
  const std::string page = "Origin: https://a.example\r\n";
  const Said asked = ask(running.service->port(), "OPTIONS", "/v1/chat/completions", "",
                         page +
                             "Access-Control-Request-Method: POST\r\n"
                             "Access-Control-Request-Headers: authorization\r\n");
  EXPECT_EQ(asked.status, 204U);
  EXPECT_EQ(asked.header("Access-Control-Allow-Headers"), "authorization");
  EXPECT_EQ(running.model.asked(), 0);
  const auto allows = [](const Said& said) {
    EXPECT_EQ(said.header("Vary"), "Origin");
    EXPECT_EQ(said.head.find("Access-Control-Allow-Origin: *"), std::string::npos);
    return said.header("Access-Control-Allow-Origin") == "https://a.example" &&
           said.header("Access-Control-Expose-Headers") == "*";
  };
  const std::string stream = question("Q", R"(,"stream":true)");
  for (const char* expected : {"MISS", "HIT"}) {
    for (const std::string& body : {question("R"), stream}) {
      const Said said = running.chat(body, page);
      EXPECT_EQ(said.header("X-Cache"), expected) << said.head;
      EXPECT_TRUE(allows(said)) << said.head;
    }
  }
  EXPECT_TRUE(allows(running.chat(question("R"), page + "X-Afterimage-Cache: sideways\r\n")));
  EXPECT_TRUE(allows(ask(running.service->port(), "GET", "/health", "", page)));
  EXPECT_TRUE(allows(running.post("/v1/messages", "{", page)));
  EXPECT_FALSE(allows(running.chat(question("R"), "Origin: https://b.example\r\n")));
  EXPECT_EQ(ask(running.service->port(), "OPTIONS", "/v1/chat/completions", "",
                "Origin: https://b.example\r\nAccess-Control-Request-Method: POST\r\n")
                .status,
            405U);
  EXPECT_EQ(ask(running.service->admin_port(), "GET", "/admin/api/stats", "", page)
                .header("Access-Control-Allow-Origin"),
            "");
}

// The model has no clock. Pasted documents and code speak of time more often than not.
TEST(Gateway, WordsOfTimeAreNotInTheWayOfTheSameQuestion) {
  Running running;
  for (const char* asked :
       {"What is the weather today?", "Describe the current flowing through the resistor",
        "def now(): ...", "Wie ist das Wetter heute in Rom?", "今天几号？",
        "Quelle heure est-il maintenant ?"}) {
    EXPECT_EQ(running.chat(question(asked)).header("X-Cache"), "MISS") << asked;
    EXPECT_EQ(running.chat(question(asked)).header("X-Cache"), "HIT") << asked;
  }
}

TEST(Gateway, ClientsControlCachingWithHeaders) {
  Running running;
  running.chat(question("Q"), "Cache-Control: no-store\r\n");
  EXPECT_EQ(running.chat(question("Q"), "Cache-Control: only-if-cached\r\n").status, 504U);
  running.chat(question("Q"));
  EXPECT_EQ(running.chat(question("Q"), "Cache-Control: only-if-cached\r\n").status, 200U);
  const Said fresh = running.chat(question("Q"), "Cache-Control: no-cache\r\n");
  EXPECT_EQ(fresh.header("X-Cache"), "REFRESH");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(question("Q"), "Cache-Control: max-age=0\r\n").header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("q"), "X-Afterimage-Cache: exact\r\n").header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("x"), "X-Afterimage-Cache: sideways\r\n").status, 400U);
}

TEST(Gateway, TenantsShareNothing) {
  Running running;
  EXPECT_EQ(
      running.chat(question("Q"), "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n").status,
      401U);
  running.chat(question("Q"), "Authorization: Bearer one\r\n");
  EXPECT_EQ(running.chat(question("Q"), "Authorization: Bearer two\r\n").header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q"), "Authorization: Bearer one\r\n").header("X-Cache"), "HIT");
  const std::string space = "Authorization: Bearer one\r\nX-Afterimage-Namespace: other\r\n";
  EXPECT_EQ(running.chat(question("Q"), space).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q"), space).header("X-Cache"), "HIT");
}

TEST(Gateway, AnotherImageIsAnotherQuestion) {
  Running running;
  const auto about = [&](const std::string& image) {
    return running.chat(
        R"({"model":"m","temperature":0,"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
        image + R"("}}]}]})");
  };
  EXPECT_EQ(about("AAAA").header("X-Cache"), "MISS");
  EXPECT_EQ(about("AAAB").header("X-Cache"), "MISS");
  EXPECT_EQ(about("AAAA").header("X-Cache"), "HIT");
}

TEST(Gateway, TruncatedFilteredAndFailedAnswersAreNotStored) {
  Running running;
  for (const char* finish : {"length", "content_filter", "tool_calls"}) {
    running.model.answers([&](const HttpRequest& /*request*/, const Responder& responder) {
      responder.reply(
          {.headers = {{"Content-Type", "application/json"}}, .body = Model::said("x", finish)});
    });
    running.chat(question(finish));
    EXPECT_EQ(running.chat(question(finish)).header("X-Cache"), "MISS") << finish;
  }
  for (const unsigned status : {400U, 429U, 500U}) {
    running.model.answers([&](const HttpRequest& /*request*/, const Responder& responder) {
      responder.reply({.status = status,
                       .headers = {{"Content-Type", "application/json"}},
                       .body = std::string(R"({"error":{"message":"no"}})")});
    });
    const std::string words = "status " + std::to_string(status);
    EXPECT_EQ(running.chat(question(words)).status, status);
    EXPECT_EQ(running.chat(question(words)).header("X-Cache"), "MISS");
  }
}

TEST(Gateway, SaysWhetherAndWhyNotAnAnswerWasStored) {
  Running running("[answers]\nmax_answer = \"2 KiB\"\n");
  const auto answers = [&](const std::string& body, unsigned status = 200) {
    running.model.answers([=](const HttpRequest& /*request*/, const Responder& responder) {
      responder.reply(
          {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = body});
    });
  };
  const struct {
    const char* words;
    std::string body;
    unsigned status;
    const char* headers;
    const char* reason;
  } kCases[] = {
      {"a", Model::said("x"), 200, "", ""},
      {"b", Model::said("x", "length"), 200, "", "truncated"},
      {"c", Model::said("x", "content_filter"), 200, "", "finish_reason"},
      {"d", Model::said("x"), 200, "Cache-Control: no-store\r\n", "no_store"},
      {"e", "{}", 500, "", "backend_error"},
      {"f", "{}", 200, "", "not_recorded"},
      {"g", Model::said(std::string(3000, 'x')), 200, "", "too_large"},
  };
  for (const auto& c : kCases) {
    answers(c.body, c.status);
    const Said said = running.chat(question(c.words), c.headers);
    const bool stored = std::string(c.reason).empty();
    EXPECT_EQ(said.header("Cache-Status").contains("; stored"), stored) << c.words;
    const json decision = running.admin("GET", "/admin/api/decisions")["decisions"].back();
    EXPECT_EQ(decision["stored"], stored) << c.words;
    EXPECT_EQ(decision["not_stored"], c.reason) << c.words;
    const json again =
        running.admin("POST", "/admin/api/explain", R"({"body":)" + question(c.words) + "}");
    EXPECT_EQ(again["outcome"], stored ? "hit" : "miss") << c.words;
    EXPECT_EQ(again["miss"], stored ? "" : "not_stored") << c.words;
    if (!stored) {
      const std::string metrics = ask(running.service->admin_port(), "GET", "/metrics", "").body;
      EXPECT_THAT(metrics, HasSubstr("afterimage_answers_not_stored_total{reason=\"" +
                                     std::string(c.reason) + "\"} 1"));
    }
  }
}

// Its headers leave before its end, and only then is it stored.
TEST(Gateway, AStreamDoesNotClaimToBeStored) {
  Running running;
  const Said first = running.chat(question("Q", R"(,"stream":true)"));
  EXPECT_THAT(first.header("Cache-Status"), Not(HasSubstr("stored")));
  EXPECT_EQ(running.admin("GET", "/admin/api/decisions")["decisions"][0]["stored"], true);
}

TEST(Gateway, AMissSaysWhetherTheAnswerIsNewExpiredOrGone) {
  Running running;
  const auto why = [&](const std::string& words, const std::string& more = "") {
    return running.admin("POST", "/admin/api/explain",
                         R"({"body":)" + question(words) + more + "}")["miss"];
  };
  EXPECT_EQ(why("Q"), "never_seen");
  running.chat(question("Q"));
  EXPECT_EQ(why("Q"), "");
  EXPECT_EQ(why("Q", R"(,"headers":{"Cache-Control":"max-age=0"})"), "not_servable");
  running.admin("POST", "/admin/api/invalidate", R"({"all":true,"dry_run":false})");
  EXPECT_EQ(why("Q"), "gone");
}

// Its decision said nothing of why, because the look-up had found something.
TEST(Gateway, AMissSaysThatTheStoredAnswerIsIncomplete) {
  Running running;
  running.chat(question("Q", R"(,"stream":true)"));  // which says no counts of tokens
  const std::string counts = R"(,"stream":true,"stream_options":{"include_usage":true})";
  EXPECT_EQ(running.chat(question("Q", counts)).header("X-Cache"), "MISS");
  EXPECT_EQ(running.admin("GET", "/admin/api/decisions")["decisions"][1]["miss"], "incomplete");
}

TEST(Gateway, ConcurrentIdenticalRequestsShareOneCall) {
  Running running;
  running.model.hold(1);
  std::vector<std::thread> clients;
  std::vector<Said> said(20);
  for (Said& one : said) {
    clients.emplace_back([&] { one = running.chat(question("Q")); });
  }
  while (running.service->gateway().responses().subscribers() < 20) std::this_thread::yield();
  for (const Responder& responder : running.model.wait_held(1)) {
    responder.reply(
        {.headers = {{"Content-Type", "application/json"}}, .body = Model::said("one")});
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(running.model.asked(), 1);
  for (const Said& one : said) EXPECT_EQ(one.body, said.front().body);
  EXPECT_THAT(said.front().body, HasSubstr(R"("content":"one")"));
}

TEST(Gateway, IfTheLeaderIsRefusedAFollowerRetries) {
  Running running;
  running.model.hold(1);
  Said leader;
  Said follower;
  std::thread one([&] { leader = running.chat(question("Q")); });
  const Responder first = running.model.wait_held(1).front();
  std::thread two([&] { follower = running.chat(question("Q")); });
  while (running.service->gateway().responses().subscribers() < 2) std::this_thread::yield();
  first.reply({.status = 429, .headers = {{"Retry-After", "1"}}, .body = std::string("{}")});
  one.join();
  two.join();
  EXPECT_EQ(leader.status, 429U);
  EXPECT_EQ(follower.status, 200U);
  EXPECT_EQ(running.model.asked(), 2);
}

TEST(Gateway, EndsWithRequestsInFlightAndLeaksNothing) {
  Running running;
  running.model.hold(2);
  std::thread shared([&] { running.chat(question("Q")); });
  running.model.wait_held(1);
  std::thread alone([&] { running.chat(question("Q"), "X-Afterimage-Cache: off\r\n"); });
  running.model.wait_held(2);
  running.service.reset();
  shared.join();
  alone.join();
}

TEST(Gateway, AnUnreachableUpstreamIsAClearError) {
  Running running("", "http://127.0.0.1:1");
  const Said said = running.chat(question("Q"));
  EXPECT_EQ(said.status, 502U);
  EXPECT_EQ(json::parse(said.body)["error"]["code"], "upstream_failed");
}

TEST(Gateway, ForwardsOtherPathsAndRefusesAmbiguousOnes) {
  Running running;
  running.model.answers([](const HttpRequest& request, const Responder& responder) {
    responder.reply({.headers = {{"X-Target", request.target}}, .body = std::string("x")});
  });
  const std::uint16_t port = running.service->port();
  EXPECT_EQ(ask(port, "GET", "/v1/models?a=b", "").header("X-Target"), "/v1/models?a=b");
  EXPECT_EQ(ask(port, "DELETE", "/v1/batches/b-1", "").header("X-Target"), "/v1/batches/b-1");
  for (const char* path :
       {"/v1/../admin", "/v1//x", "/v1/%2e%2e/x", "/v1/x%00", "/v1/a\\b", "/v1/.."}) {
    EXPECT_EQ(ask(port, "GET", path, "").status, 400U) << path;
  }
  EXPECT_EQ(ask(port, "GET", "/admin/api/stats", "").status, 404U);
  EXPECT_EQ(ask(port, "GET", "/v1/chat/completions", "").status, 405U);
  EXPECT_EQ(ask(port, "GET", "/health", "").status, 200U);
  EXPECT_EQ(running.model.asked(), 2);
}

/// Says of a request that its answer was wrong.
Said report_wrong(Running& running, const std::string& id, const std::string& headers = "") {
  return running.post("/afterimage/wrong", json{{"request_id", id}}.dump(), headers);
}

TEST(Gateway, AReportedAnswerIsErased) {
  Running running;
  running.chat(question("Q"));
  const Said hit = running.chat(question("Q"));
  ASSERT_EQ(hit.header("X-Cache"), "HIT");
  const Said said = report_wrong(running, hit.header("X-Request-Id"));
  EXPECT_EQ(said.status, 200U) << said.body;
  EXPECT_EQ(json::parse(said.body)["match_level"], "text:exact");
  const Said again = running.chat(question("Q"));
  EXPECT_EQ(again.header("X-Cache"), "MISS");
  EXPECT_EQ(running.admin("POST", "/admin/api/wrong",
                          json{{"request_id", again.header("X-Request-Id")}}.dump())["match_level"],
            "");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
}

TEST(Gateway, ADecisionKeepsTheBeginningOfALongQuestion) {
  Running running;
  const std::string text(100'000, 'q');
  running.chat(question(text));
  const Said hit = running.chat(question(text));
  ASSERT_EQ(hit.header("X-Cache"), "HIT");
  const auto decided = running.service->gateway().decisions().list(0, 10);
  ASSERT_EQ(decided.size(), 2U);
  EXPECT_EQ(decided[1].match_levels.back().candidate, text.substr(0, 200) + "…");
  EXPECT_EQ(decided[1].answered->stored_as, std::nullopt) << "the question itself";
  EXPECT_EQ(report_wrong(running, hit.header("X-Request-Id")).status, 200U);
  EXPECT_EQ(running.chat(question(text)).header("X-Cache"), "MISS");
}

TEST(Gateway, AReportNamesARequestOfItsOwnTenant) {
  Running running;
  const Said mine = running.chat(question("Q"), "Authorization: Bearer mine\r\n");
  const std::string id = mine.header("X-Request-Id");
  EXPECT_EQ(report_wrong(running, id, "Authorization: Bearer other\r\n").status, 404U);
  EXPECT_EQ(running.chat(question("Q"), "Authorization: Bearer mine\r\n").header("X-Cache"), "HIT");
  EXPECT_EQ(report_wrong(running, "unknown").status, 404U);
  const auto port = running.service->port();
  EXPECT_EQ(ask(port, "POST", "/afterimage/wrong", "[]").status, 400U);
  EXPECT_EQ(ask(port, "POST", "/afterimage/wrong", R"({"request_id":1})").status, 400U);
  EXPECT_EQ(ask(port, "GET", "/afterimage/wrong", "").status, 405U);
  EXPECT_EQ(report_wrong(running, id, "Authorization: Bearer mine\r\n").status, 200U);
  EXPECT_EQ(running.chat(question("Q"), "Authorization: Bearer mine\r\n").header("X-Cache"),
            "MISS");
}

TEST(Gateway, AnswersOutliveTheProcess) {
  const TemporaryFolder folder;
  Running running("[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n");
  running.chat(question("Q"));
  running.chat(question("gone"));
  EXPECT_EQ(running.admin("POST", "/admin/api/invalidate",
                          R"({"tag":"model:m","dry_run":true})")["entries"],
            2);
  const json entries = running.admin("GET", "/admin/api/entries?q=GONE");
  ASSERT_EQ(entries["entries"].size(), 1U) << entries;
  EXPECT_EQ(running.admin(
                "POST", "/admin/api/invalidate",
                json{{"entry", entries["entries"][0]["id"]}, {"dry_run", false}}.dump())["entries"],
            1);
  running.service.reset();
  running.service = running.start();
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(question("gone")).header("X-Cache"), "MISS") << "what was erased stays so";
  EXPECT_EQ(running.model.asked(), 3);
}

TEST(Gateway, AnEncryptedDiskIsUnreadableAndFoundAgain) {
  const TemporaryFolder folder;
  const TemporaryFolder secrets;
  const std::string keys = secrets.private_file("keys", std::string(64, '1') + "\n");
  Running running("[memory]\ndisk = \"" + folder.path() +
                  "\"\ndisk_size = \"64 MiB\"\nencrypt_key_file = \"" + keys + "\"\n");
  running.chat(question("a telling question"));
  running.chat(question("an erased question"));
  const json erased = running.admin("GET", "/admin/api/entries?q=erased");
  running.admin("POST", "/admin/api/invalidate",
                json{{"entry", erased["entries"][0]["id"]}, {"dry_run", false}}.dump());
  running.service.reset();
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(in)), {});
    EXPECT_FALSE(content.contains("telling question")) << file.path();
    EXPECT_FALSE(content.contains("erased question")) << file.path();
    EXPECT_FALSE(content.contains("answer")) << file.path();
    ++files;
  }
  EXPECT_GE(files, 4U) << "lock, store, secret, a segment, the list of what was erased";
  running.service = running.start();
  EXPECT_EQ(running.chat(question("a telling question")).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(question("an erased question")).header("X-Cache"), "MISS");

  running.service.reset();
  secrets.private_file("keys", std::string(64, '2') + "\n");
  running.service = running.start();
  EXPECT_EQ(running.chat(question("a telling question")).header("X-Cache"), "MISS");
  running.service.reset();
  secrets.private_file("keys", std::string(64, '1') + "\n");
  running.service = running.start();
  EXPECT_EQ(running.chat(question("a telling question")).header("X-Cache"), "HIT")
      << "a wrong key loses nothing";
}

TEST(Gateway, UnreadableKeysAndSecretsEndTheStart) {
  const TemporaryFolder folder;
  const std::string open_to_all = folder.file("keys");
  std::ofstream(open_to_all) << std::string(64, '1') << "\n";
  std::filesystem::permissions(open_to_all, std::filesystem::perms(0644));
  SystemClock clock;
  SystemWallClock wall;
  for (const std::string& said :
       {"[memory]\nencrypt_key_file = \"" + open_to_all + "\"\n",
        std::string("[memory]\nencrypt_key_file = \"/no/such\"\n"),
        std::string("[memory]\nencrypt_key_env = \"AFI_NOT_SET\"\n"),
        std::string("secret_file = \"/no/such\"\n"), "secret_file = \"" + open_to_all + "\"\n"}) {
    const Settings settings =
        parse_settings(said +
                           "[listen]\nport = 0\n[admin]\nport = 0\n[upstream]\nurl = "
                           "\"http://127.0.0.1:9\"\n",
                       "test")
            .value();
    const auto service =
        Service::start({.settings = settings,
                        .read_settings = [&] { return Result<Settings>(settings); },
                        .engine = nullptr,
                        .version = "test",
                        .log = [](std::string_view) { return true; }},
                       clock, wall);
    ASSERT_FALSE(service.has_value()) << said;
    EXPECT_EQ(service.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(service.error().message, Not(HasSubstr("1111")));
  }
}

TEST(Gateway, TheSecretFileIsTheInstallationsSecret) {
  const TemporaryFolder folder;
  const TemporaryFolder secrets;
  const std::string secret = secrets.private_file("secret", std::string(32, 's'));
  const std::string disk = "[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n";
  Running running(disk);
  running.text = "secret_file = \"" + secret + "\"\n" + running.text;
  running.service.reset();
  std::filesystem::remove_all(folder.path());
  running.service = running.start();
  running.chat(question("Q"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("secret"))) << "it stands elsewhere";
  running.service.reset();
  running.service = running.start();
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
  running.service.reset();
  secrets.private_file("secret", std::string(32, 't'));
  running.service = running.start();
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS") << "another installation";
}

constexpr const char* kGroup =
    "[[tenancy.tenants]]\nname = \"a\"\nkey_sha256 = "
    "[\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"]\ngroup = \"g\"\n"
    "[[tenancy.tenants]]\nname = \"b\"\nkey_sha256 = "
    "[\"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\"]\ngroup = \"g\"\n"
    "[[tenancy.tenants]]\nname = \"alone\"\nkey_sha256 = "
    "[\"2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6\"]\n";
constexpr const char* kKeyA = "Authorization: Bearer a\r\n";
constexpr const char* kKeyB = "Authorization: Bearer b\r\n";
constexpr const char* kKeyAlone = "Authorization: Bearer c\r\n";

Duration time_of(const std::function<void()>& work) {
  const SystemClock clock;
  const Duration before = clock.now();
  work();
  return clock.now() - before;
}

TEST(Gateway, TimingProtectionDelaysHitsAndHidesHeaders) {
  using namespace std::chrono_literals;
  Running running(std::string("[answers]\ntiming_protection = \"shared\"\n") + kGroup);
  running.model.answers([](const HttpRequest& request, const Responder& responder) {
    std::this_thread::sleep_for(300ms);
    Model::chat(request, responder);
  });
  const Said miss = running.chat(question("Q"), kKeyA);
  Said hit;
  EXPECT_GE(time_of([&] { hit = running.chat(question("Q"), kKeyB); }), 300ms);
  EXPECT_EQ(running.model.asked(), 1);
  EXPECT_EQ(json::parse(hit.body)["choices"], json::parse(miss.body)["choices"]);
  for (const char* name : {"X-Cache", "X-Cache-Source", "Cache-Status", "Age"}) {
    EXPECT_EQ(hit.header(name), "") << name;
    EXPECT_EQ(miss.header(name), "") << name;
  }
  // A tenant that shares with nobody may see its own hits.
  running.chat(question("Q"), kKeyAlone);
  EXPECT_EQ(running.chat(question("Q"), kKeyAlone).header("X-Cache"), "HIT");
}

TEST(Gateway, TimingProtectionRefusesOnlyIfCached) {
  Running running(std::string("[answers]\ntiming_protection = \"shared\"\n") + kGroup);
  running.chat(question("Q"), kKeyA);
  const std::string only = std::string(kKeyB) + "Cache-Control: only-if-cached\r\n";
  const Said kept = running.chat(question("Q"), only);
  const Said never = running.chat(question("never asked"), only);
  EXPECT_EQ(kept.status, 504U);
  EXPECT_EQ(kept.body, never.body);
}

TEST(Gateway, AHitTakesAtLeastLeastHitTime) {
  using namespace std::chrono_literals;
  Running running("[answers]\ntiming_protection = \"all\"\nleast_hit_time = \"200 ms\"\n");
  running.chat(question("Q"));
  EXPECT_GE(time_of([&] { running.chat(question("Q")); }), 200ms);
  EXPECT_EQ(running.model.asked(), 1);
}

TEST(Gateway, TimingProtectedTenantsShareNoResponse) {
  Running running(std::string("[answers]\ntiming_protection = \"shared\"\n") + kGroup);
  running.model.hold(2);
  std::thread one([&] { running.chat(question("Q"), kKeyA); });
  running.model.wait_held(1);
  std::thread other([&] { running.chat(question("Q"), kKeyB); });
  for (const Responder& responder : running.model.wait_held(2)) {  // or this waits for ever
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = Model::said("x")});
  }
  one.join();
  other.join();
}

TEST(Gateway, AnUnusableDiskFolderCostsNothingElse) {
  Running running("[memory]\ndisk = \"/proc/no/such/folder\"\n");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
}

TEST(Gateway, ASampleOfLooseHitsIsVerified) {
  Running running("[answers]\nverify_sample_rate = 1.0\n");
  running.chat(question("what is it"));
  EXPECT_EQ(running.chat(question("What is it?")).header("X-Cache-Source"), "text:canonical");
  running.model.wait_asked(2);
  while (running.service->gateway().counts().snapshot().compared < 1) std::this_thread::yield();
  EXPECT_EQ(running.service->gateway().counts().snapshot().wrong, 0U);
  running.model.answers([](const HttpRequest& /*request*/, const Responder& responder) {
    responder.reply(
        {.headers = {{"Content-Type", "application/json"}}, .body = Model::said("other")});
  });
  EXPECT_EQ(running.chat(question("What is it?")).header("X-Cache"), "HIT");
  while (running.service->gateway().counts().snapshot().compared < 2) std::this_thread::yield();
  EXPECT_EQ(running.service->gateway().counts().snapshot().wrong, 1U);
  EXPECT_EQ(running.chat(question("what is it")).header("X-Cache"), "MISS") << "it is gone";
}

TEST(Gateway, AWrongAnswerIsErasedFromDiskToo) {
  const TemporaryFolder folder;
  Running running("[answers]\nverify_sample_rate = 1.0\n[memory]\ndisk = \"" + folder.path() +
                  "\"\ndisk_size = \"64 MiB\"\n");
  running.chat(question("what is it"));
  running.model.answers([](const HttpRequest& /*request*/, const Responder& responder) {
    responder.reply(
        {.headers = {{"Content-Type", "application/json"}}, .body = Model::said("other")});
  });
  EXPECT_EQ(running.chat(question("What is it?")).header("X-Cache"), "HIT");
  // It leaves memory last.
  while (!running.service->gateway().parts().reuse.answer_cache()->entries({}, 1).empty()) {
    std::this_thread::yield();
  }
  running.service.reset();
  running.service = running.start();
  EXPECT_EQ(running.chat(question("what is it")).header("X-Cache"), "MISS");
}

TEST(Gateway, AFollowerGetsNoCookieOfTheLeader) {
  Running running;
  running.model.hold(1);
  Said leader;
  Said follower;
  std::thread one([&] { leader = running.chat(question("Q")); });
  const Responder held = running.model.wait_held(1).front();
  std::thread two([&] { follower = running.chat(question("Q")); });
  while (running.service->gateway().responses().subscribers() < 2) std::this_thread::yield();
  held.reply({.headers = {{"Content-Type", "application/json"}, {"Set-Cookie", "a=b"}},
              .body = Model::said("x")});
  one.join();
  two.join();
  EXPECT_EQ(leader.header("Set-Cookie"), "a=b");
  EXPECT_EQ(follower.body, leader.body);
  EXPECT_EQ(follower.header("Set-Cookie"), "");
}

}  // namespace
}  // namespace afterimage
