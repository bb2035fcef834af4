// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Requests that expect another answer each time: neither temperature 0 nor a seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gateway/proxy/gateway.h"
#include "gateway/proxy/testing/sharing_gateways.h"
#include "testing/running_gateway.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using testing::Model;
using testing::question;
using testing::RawClient;
using testing::Running;
using testing::Said;

/// A request as most clients send it.
std::string joke(const std::string& user = "", const std::string& more = "") {
  std::string body = R"({"model":"m","messages":[{"role":"user","content":"Tell me a joke"}])";
  if (!user.empty()) body += R"(,"user":")" + user + '"';
  return body + more + "}";
}

std::string joke_of(const Said& said) {
  const json body = json::parse(said.body);
  return body["choices"][0]["message"]["content"].get<std::string>();
}

/// The model never says the same twice.
struct Sampling : Running {
  explicit Sampling(const std::string& toml = "") : Running(toml) { says("stop"); }
  void says(const std::string& finish) {
    model.answers([this, finish](const HttpRequest& request, const Responder& responder) {
      if (json::parse(*request.body).value("stream", false)) return Model::chat(request, responder);
      responder.reply({.headers = {{"Content-Type", "application/json"}},
                       .body = Model::said("joke " + std::to_string(++jokes), finish)});
    });
  }
  json last_decision() {
    const json all = admin("GET", "/admin/api/decisions")["decisions"];
    return all.back();
  }
  std::atomic<int> jokes = 0;
};

TEST(Sampled, AnotherRequesterGetsTheStoredDrawAndNobodyGetsOneTwice) {
  Sampling running;
  const Said anns = running.chat(joke("ann"));
  EXPECT_EQ(anns.header("X-Cache"), "MISS");
  EXPECT_EQ(anns.header("X-Afterimage-Draw"), "1");
  const Said bobs = running.chat(joke("bob"));
  EXPECT_EQ(bobs.header("X-Cache"), "HIT");
  EXPECT_EQ(bobs.header("X-Cache-Source"), "text:exact");
  EXPECT_EQ(bobs.header("X-Afterimage-Draw"), "1");
  EXPECT_EQ(joke_of(bobs), joke_of(anns));
  // "Regenerate".
  const Said another = running.chat(joke("ann"));
  EXPECT_EQ(another.header("X-Cache"), "MISS");
  EXPECT_THAT(another.header("Cache-Status"), HasSubstr("detail=all-draws-had"));
  EXPECT_EQ(another.header("X-Afterimage-Draw"), "2");
  EXPECT_NE(joke_of(another), joke_of(anns));
  EXPECT_EQ(joke_of(running.chat(joke("bob"))), joke_of(another));
  EXPECT_EQ(joke_of(running.chat(joke("cid"))), joke_of(anns));
  EXPECT_EQ(running.model.asked(), 2);
  const json decision = running.last_decision();
  EXPECT_EQ(decision["draw"], 1);
  EXPECT_EQ(decision["outcome"], "hit");
}

TEST(Sampled, WithoutANameTheRequesterIsTheAddress) {
  Sampling running;
  EXPECT_EQ(running.chat(joke()).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke()).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke(), "X-Forwarded-For: 10.0.0.9\r\n").header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(joke(), "X-Afterimage-Agent: planner\r\n").header("X-Cache"), "HIT");
}

TEST(Sampled, AsManyDrawsAreStoredAsTheSettingSays) {
  Sampling running("[answers]\ndraws = 2\n");
  std::set<std::string> had;
  for (int i = 0; i < 4; ++i) had.insert(joke_of(running.chat(joke("ann"))));
  EXPECT_EQ(had.size(), 4U);
  EXPECT_EQ(running.last_decision()["not_stored"], "enough_draws");
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "HIT");
  const Said third = running.chat(joke("bob"));
  EXPECT_EQ(third.header("X-Cache"), "MISS");
  EXPECT_EQ(third.header("X-Afterimage-Draw"), "");
}

TEST(Sampled, NoCacheIsAFreshDrawForOthers) {
  Sampling running;
  running.chat(joke("ann"));
  const Said fresh = running.chat(joke("bob"), "Cache-Control: no-cache\r\n");
  EXPECT_EQ(fresh.header("X-Cache"), "REFRESH");
  EXPECT_EQ(fresh.header("X-Afterimage-Draw"), "2");
  EXPECT_EQ(running.chat(joke("bob")).header("X-Afterimage-Draw"), "1")
      << "the fresh one it has had";
  EXPECT_EQ(running.chat(joke("ann")).header("X-Afterimage-Draw"), "2");
  EXPECT_EQ(running.model.asked(), 2);
}

TEST(Sampled, DirectivesOfHttpHold) {
  Sampling running;
  const std::string cached = "Cache-Control: only-if-cached\r\n";
  EXPECT_EQ(running.chat(joke("ann"), cached).status, 504U);
  EXPECT_EQ(running.chat(joke("ann"), "Cache-Control: no-store\r\n").header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("bob"), cached).status, 504U) << "it was not stored";
  running.chat(joke("ann"));
  EXPECT_EQ(running.chat(joke("bob"), "Cache-Control: max-age=0\r\n").header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("bob"), cached).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(joke("ann"), cached).header("X-Cache"), "HIT") << "the one of max-age=0";
  EXPECT_EQ(running.chat(joke("ann"), cached).status, 504U);
}

TEST(Sampled, AreNeverServedToOtherParametersNorTheReverse) {
  Sampling running;
  const std::vector<std::string> parameters{"",
                                            R"(,"temperature":0)",
                                            R"(,"temperature":0.7)",
                                            R"(,"temperature":0.8)",
                                            R"(,"temperature":0.7,"seed":1)",
                                            R"(,"top_p":0.5)"};
  for (const std::string& more : parameters) {
    EXPECT_EQ(running.chat(joke("ann", more)).header("X-Cache"), "MISS") << more;
  }
  for (const std::string& more : parameters) {
    EXPECT_EQ(running.chat(joke("bob", more)).header("X-Cache"), "HIT") << more;
  }
  // The mode may change, too: a replayed answer is not a draw, and a draw is not replayed.
  const std::string replay = "X-Afterimage-Sampled: replay\r\n";
  EXPECT_EQ(running.chat(joke("ann"), replay).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("ann"), replay).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "MISS") << "it has had the only draw";
}

TEST(Sampled, ReplayServesOneAnswerToAll) {
  Sampling running("[answers]\nsampled = \"replay\"\n");
  const std::string hot = R"(,"temperature":1.5)";
  const Said first = running.chat(joke("ann", hot));
  EXPECT_EQ(first.header("X-Cache"), "MISS");
  EXPECT_EQ(first.header("X-Afterimage-Draw"), "");
  for (const char* who : {"ann", "bob", "ann"}) {
    const Said again = running.chat(joke(who, hot));
    EXPECT_EQ(again.header("X-Cache"), "HIT");
    EXPECT_EQ(joke_of(again), joke_of(first));
  }
  EXPECT_EQ(
      running.chat(joke("ann", hot), "X-Afterimage-Sampled: per-requester\r\n").header("X-Cache"),
      "MISS");
  EXPECT_EQ(running.chat(joke("ann", hot), "X-Afterimage-Sampled: off\r\n").header("X-Cache"),
            "BYPASS");
}

TEST(Sampled, WhatIsOffStaysOff) {
  Sampling running("[answers]\nsampled = \"off\"\n");
  for (const char* rule :
       {"", "X-Afterimage-Sampled: replay\r\n", "X-Afterimage-Sampled: per-requester\r\n"}) {
    const Said said = running.chat(joke("ann"), rule);
    EXPECT_EQ(said.header("X-Cache"), "BYPASS") << rule;
    EXPECT_THAT(said.header("Cache-Status"), HasSubstr("no-temperature"));
  }
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
}

TEST(Sampled, TenantsShareNoDraws) {
  Sampling running;
  const std::string a = "Authorization: Bearer sk-a\r\n";
  const std::string b = "Authorization: Bearer sk-b\r\n";
  EXPECT_EQ(running.chat(joke("ann"), a).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("bob"), b).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("bob"), a).header("X-Cache"), "HIT");
}

TEST(Sampled, AnErasedDrawIsServedToNobody) {
  for (const char* filter : {R"({"all":true,"dry_run":false})", R"({"tag":"doc","dry_run":false})",
                             R"({"tenant":"anonymous","dry_run":false})"}) {
    Sampling running;
    running.chat(joke("ann"), "X-Afterimage-Tags: doc\r\n");
    running.chat(joke("ann"), "X-Afterimage-Tags: doc\r\n");
    running.admin("POST", "/admin/api/invalidate", filter);
    const Said said = running.chat(joke("bob"));
    EXPECT_EQ(said.header("X-Cache"), "MISS") << filter;
    EXPECT_EQ(joke_of(said), "joke 3") << filter;
  }
}

// Who has had a draw is kept beside it: both go.
TEST(Sampled, AfterARestartDrawsAreGoneAndReplaysAreNot) {
  const testing::TemporaryFolder folder;
  Sampling running("[memory]\ndisk = \"" + folder.path() + "\"\n");
  const std::string replay = "X-Afterimage-Sampled: replay\r\n";
  running.chat(joke("ann"));
  running.chat(joke("ann"), replay);
  running.service.reset();
  running.service = running.start();
  EXPECT_EQ(running.chat(joke("ann"), replay).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(joke("ann")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "HIT") << "what ann has just had";
}

TEST(Sampled, ADrawLivesAsLongAsItsTime) {
  Sampling running("[answers]\nmax_ttl = \"1 h\"\n");
  running.chat(joke("ann"));
  const Said bobs = running.chat(joke("bob"));
  EXPECT_EQ(bobs.header("X-Cache"), "HIT");
  EXPECT_THAT(bobs.header("Cache-Status"), HasSubstr("ttl=35"));
  EXPECT_EQ(running.chat(joke("cid"), "Cache-Control: min-fresh=4000\r\n").header("X-Cache"),
            "MISS");
}

// When the model was done depends on what it said.
TEST(Sampled, TheAgeOfADrawBeginsWhenItIsAskedFor) {
  testing::GatewayWorld world;
  testing::SharingGateway gateway(world, "[answers]\nmax_ttl = \"1 h\"\n");
  const auto asked = [&](const std::string& user) {
    return ask(gateway.port(), "POST", "/v1/chat/completions", joke(user));
  };
  {
    const std::jthread ann([&] { asked("ann"); });
    world.model.wait_asked(1);
    world.clock.advance(std::chrono::minutes(10));
    world.model.answer(0, "a long joke");
  }
  const Said bobs = asked("bob");
  EXPECT_EQ(bobs.header("X-Cache"), "HIT");
  EXPECT_EQ(bobs.header("Age"), "600");
  EXPECT_THAT(bobs.header("Cache-Status"), HasSubstr("ttl=3000"));
}

// A search or an agent behind the API: what it says is true for a while.
TEST(Sampled, WhatAnUpstreamThatLooksThingsUpHasSaidExpires) {
  testing::GatewayWorld world;
  testing::SharingGateway gateway(world, "[upstream]\nurl = \"http://u\"\nlive = \"1 h\"\n");
  world.model.answer_at_once();
  const auto asked = [&](const std::string& body, const std::string& headers = "") {
    return ask(gateway.port(), "POST", "/v1/chat/completions", body, headers).header("X-Cache");
  };
  const auto wait = [&](Duration time) {
    world.clock.advance(time);
    world.still.advance(time);
    world.wall.set(world.wall.now() + time);  // of what lies on servers
    ASSERT_TRUE(gateway.gateway().parts().archive->refresh().has_value());
  };
  const std::string replay = "X-Afterimage-Sampled: replay\r\n";
  for (const char* expected : {"MISS", "HIT"}) {
    EXPECT_EQ(asked(question("the weather")), expected);
    EXPECT_EQ(asked(joke("ann"), replay), expected);
  }
  EXPECT_EQ(asked(joke("ann")), "MISS");
  wait(std::chrono::minutes(59));
  EXPECT_EQ(asked(question("the weather"), "X-Afterimage-TTL: 86400\r\n"), "HIT");
  EXPECT_EQ(asked(joke("ann"), replay), "HIT");
  EXPECT_EQ(asked(joke("bob")), "HIT");
  wait(std::chrono::minutes(2));
  EXPECT_EQ(asked(question("the weather"), "X-Afterimage-TTL: 86400\r\n"), "MISS");
  EXPECT_EQ(asked(joke("ann"), replay), "MISS");
  EXPECT_EQ(asked(joke("cid")), "MISS");
}

TEST(Sampled, ADrawThatIsReportedWrongIsErased) {
  Sampling running;
  running.chat(joke("ann"));
  const Said bobs = running.chat(joke("bob"));
  const Said report =
      running.post("/afterimage/wrong", json{{"request_id", bobs.header("X-Request-Id")}}.dump());
  EXPECT_EQ(report.status, 200U) << report.body;
  EXPECT_EQ(running.chat(joke("cid")).header("X-Cache"), "MISS");
}

TEST(Sampled, HoweverTheModelEndsADrawItIsStored) {
  for (const char* finish : {"length", "content_filter"}) {
    Sampling running("[answers]\ncache_truncated = false\n");
    running.says(finish);
    EXPECT_EQ(running.chat(joke("ann")).header("X-Cache"), "MISS") << finish;
    EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "HIT") << finish;
  }
  Sampling running;
  running.says("insufficient_system_resource");
  running.chat(joke("ann"));
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "MISS") << "that is a failure";
}

TEST(Sampled, AFailedDrawIsAskedForAgainAndNobodyHasHadIt) {
  Sampling running;
  running.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply(
        {.status = 500, .headers = {{"Content-Type", "application/json"}}, .body = "{}"});
  });
  EXPECT_EQ(running.chat(joke("ann")).status, 500U);
  running.says("stop");
  const Said again = running.chat(joke("ann"));
  EXPECT_EQ(again.status, 200U);
  EXPECT_THAT(again.header("Cache-Status"), HasSubstr("no-match"));
  EXPECT_EQ(joke_of(running.chat(joke("bob"))), joke_of(again));
}

TEST(Sampled, RequestersShareACallAndOneThatAsksAtOnceHasItsOwn) {
  Sampling running;
  running.model.hold(3);
  std::vector<std::thread> clients;
  std::vector<Said> said(6);
  const auto go = [&](std::size_t i, const char* who) {
    clients.emplace_back([&, i, who] { said[i] = running.chat(joke(who)); });
  };
  // A vote of three, and others.
  for (std::size_t i = 0; i < 3; ++i) {
    go(i, "ann");
    running.model.wait_asked(static_cast<int>(i) + 1);
  }
  go(3, "bob");
  go(4, "cid");
  while (running.service->gateway().responses().subscribers() < 5) std::this_thread::yield();
  go(5, "bob");
  while (running.service->gateway().responses().subscribers() < 6) std::this_thread::yield();
  const auto held = running.model.wait_held(3);
  // The one that was asked for last is done first.
  for (const std::size_t i : {2U, 1U, 0U}) {
    held[i].reply({.headers = {{"Content-Type", "application/json"}},
                   .body = Model::said("held " + std::to_string(i))});
  }
  for (std::thread& client : clients) client.join();
  std::set<std::string> anns;
  for (std::size_t i = 0; i < 3; ++i) anns.insert(joke_of(said[i]));
  EXPECT_EQ(anns.size(), 3U);
  EXPECT_EQ(joke_of(said[3]), "held 0") << "in the order in which they were asked for";
  EXPECT_EQ(joke_of(said[4]), "held 0");
  EXPECT_EQ(joke_of(said[5]), "held 1");
  EXPECT_EQ(said[4].header("X-Cache-Source"), "joined");
  EXPECT_EQ(said[5].header("X-Afterimage-Draw"), "2");
  EXPECT_EQ(running.model.asked(), 3);
}

// Clients leave long answers sooner than short ones.
TEST(Sampled, ADrawWhoseClientLeavesIsFinished) {
  Sampling running;
  running.model.hold(1);
  {
    RawClient client(running.service->port());
    const std::string body = joke("ann");
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    running.model.wait_asked(1);
  }
  while (running.service->gateway().responses().subscribers() > 0) std::this_thread::yield();
  for (const Responder& responder : running.model.wait_held(1)) {
    responder.reply(
        {.headers = {{"Content-Type", "application/json"}}, .body = Model::said("long")});
  }
  while (running.service->gateway().responses().size() > 0) std::this_thread::yield();
  const Said bobs = running.chat(joke("bob"));
  EXPECT_EQ(bobs.header("X-Cache"), "HIT");
  EXPECT_EQ(joke_of(bobs), "long");
  const Said anns = running.chat(joke("ann"));
  EXPECT_EQ(anns.header("X-Cache"), "HIT") << "nothing of it was sent to her";
  EXPECT_EQ(joke_of(anns), "long");
}

TEST(Sampled, StreamsAndWholeAnswersHaveDrawsOfTheirOwn) {
  Sampling running;
  const std::string stream = R"(,"stream":true)";
  EXPECT_EQ(running.chat(joke("ann", stream)).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "MISS");
  const Said streamed = running.chat(joke("bob", stream));
  EXPECT_EQ(streamed.header("X-Cache"), "HIT");
  EXPECT_EQ(streamed.header("X-Afterimage-Draw"), "1");
  EXPECT_THAT(streamed.body, HasSubstr(R"("content":"ans")"));
  EXPECT_EQ(running.chat(joke("ann")).header("X-Cache"), "HIT");
}

TEST(Sampled, OtherApisNameTheirRequesterToo) {
  Sampling running;
  const auto messages = [&](const std::string& user) {
    return running
        .post("/v1/messages", R"({"model":"m","max_tokens":9,"metadata":{"user_id":")" + user +
                                  R"("},"messages":[{"role":"user","content":"Tell me a joke"}]})")
        .header("X-Cache");
  };
  EXPECT_EQ(messages("ann"), "MISS");
  EXPECT_EQ(messages("ann"), "MISS");
  EXPECT_EQ(messages("bob"), "HIT");
  const auto responses = [&](const std::string& user) {
    return running
        .post("/v1/responses", R"({"model":"m","store":false,"safety_identifier":")" + user +
                                   R"(","input":"Tell me a joke"})")
        .header("X-Cache");
  };
  EXPECT_EQ(responses("ann"), "MISS");
  EXPECT_EQ(responses("ann"), "MISS");
  EXPECT_EQ(responses("bob"), "HIT");
}

TEST(Sampled, ExplainSaysWhatWouldServeTheRequester) {
  Sampling running;
  const auto explain = [&](const std::string& user) {
    return running.admin("POST", "/admin/api/explain", R"({"body":)" + joke(user) + "}");
  };
  EXPECT_EQ(explain("ann")["miss"], "never_seen");
  running.chat(joke("ann"));
  const json anns = explain("ann");
  EXPECT_EQ(anns["outcome"], "miss");
  EXPECT_EQ(anns["reason"], "all-draws-had");
  EXPECT_EQ(anns["miss"], "all_draws_had");
  const json bobs = explain("bob");
  EXPECT_EQ(bobs["outcome"], "hit");
  EXPECT_EQ(bobs["draw"], 1);
  EXPECT_EQ(running.chat(joke("bob")).header("X-Cache"), "HIT") << "explaining is not having";
}

TEST(Sampled, TimingProtectionGivesTenantsDrawsOfTheirOwn) {
  Sampling running(
      "[answers]\ntiming_protection = \"shared\"\n[tenancy]\n"
      "[[tenancy.tenants]]\nname = \"a\"\ngroup = \"g\"\n"
      "key_sha256 = [\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"]\n"
      "[[tenancy.tenants]]\nname = \"b\"\ngroup = \"g\"\n"
      "key_sha256 = [\"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\"]\n");
  const std::string a = "Authorization: Bearer a\r\n";
  const std::string b = "Authorization: Bearer b\r\n";
  const Said first = running.chat(joke("ann"), a);
  EXPECT_EQ(first.header("X-Afterimage-Draw"), "");
  EXPECT_NE(joke_of(running.chat(joke("bob"), b)), joke_of(first));
  EXPECT_EQ(joke_of(running.chat(joke("bob"), a)), joke_of(first));
}

/// Tosses a coin for each answer: a short one at once, or a long one that takes its time. One call in ten
/// fails, whatever it would have said.
class CoinModel {
 public:
  explicit CoinModel(Running& running) {
    running.model.answers([this](const HttpRequest& request, const Responder& responder) {
      const json body = json::parse(*request.body);
      bool is_long = false;
      bool fails = false;
      {
        const std::scoped_lock lock(mutex_);
        is_long = rng_.chance(0.5);
        fails = rng_.chance(0.1);
        first_.try_emplace(body["messages"][0]["content"].get<std::string>(), is_long);
      }
      asked_.notify_all();
      const auto reply = [responder, is_long, fails] {
        responder.reply({.status = fails ? 500U : 200U,
                         .headers = {{"Content-Type", "application/json"}},
                         .body = fails ? "{}" : Model::said(is_long ? "long" : "short")});
      };
      if (!is_long) return reply();
      threads_.post_after(threads_.here_or_next(), std::chrono::milliseconds(50), reply);
    });
  }
  /// Waits until it is asked; whether it answers at length.
  bool is_long(const std::string& question) {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [&] { return first_.contains(question); });
    return first_.at(question);
  }

 private:
  std::mutex mutex_;
  std::condition_variable asked_;
  Rng rng_{1};
  std::map<std::string, bool> first_;
  IoThreads threads_{1};
};

/// How far a count of tosses of a fair coin is from half of them, in standard deviations.
double deviation(int count, int tosses) { return (2.0 * count - tosses) / std::sqrt(tosses); }

/// Three in 100,000 of these runs fail by chance. draws_distribution_test.cc measures more closely, and this
/// the whole gateway: clients that leave when an answer is long and come back, that come while it is on its way or after it,
/// and that ask twice.
TEST(Sampled, WhatARequesterSeesIsDistributedAsTheModelsAnswers) {
  constexpr int kThreads = 8;
  constexpr int kQuestions = 400;
  Running running;
  CoinModel coin(running);
  const auto body = [](int question, const char* user) {
    return R"({"model":"m","user":")" + std::string(user) +
           R"(","messages":[{"role":"user","content":")" + std::to_string(question) + "\"}]}";
  };
  const auto sees_long = [&](int question, const char* user) {
    while (true) {
      const Said said = running.chat(body(question, user));
      if (said.status == 200) return joke_of(said) == "long";
    }
  };
  std::atomic<int> firsts = 0;
  std::atomic<int> back = 0;
  std::atomic<int> seconds = 0;
  std::atomic<int> equal = 0;
  std::vector<std::thread> clients;
  for (int thread = 0; thread < kThreads; ++thread) {
    clients.emplace_back([&, thread] {
      for (int question = thread; question < kQuestions; question += kThreads) {
        bool anns_is_short = false;
        {
          RawClient ann(running.service->port());
          const std::string asked = body(question, "ann");
          ann.send(
              "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
              "Content-Length: " +
              std::to_string(asked.size()) + "\r\n\r\n" + asked);
          if (!coin.is_long(std::to_string(question))) {
            anns_is_short = ann.read_all().starts_with("HTTP/1.1 200");
          }
        }
        const bool bobs = sees_long(question, "bob");
        const bool cids = sees_long(question, "cid");
        const bool another = sees_long(question, "bob");
        back += !anns_is_short && sees_long(question, "ann") ? 1 : 0;
        firsts += (question % 2 == 0 ? bobs : cids) ? 1 : 0;
        seconds += another ? 1 : 0;
        equal += another == bobs ? 1 : 0;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_LT(std::abs(deviation(firsts, kQuestions)), 4.5) << firsts << " of " << kQuestions;
  EXPECT_LT(std::abs(deviation(back, kQuestions)), 4.5) << back << " of " << kQuestions;
  EXPECT_LT(std::abs(deviation(seconds, kQuestions)), 4.5) << seconds << " of " << kQuestions;
  EXPECT_LT(std::abs(deviation(equal, kQuestions)), 4.5) << equal << " of " << kQuestions;
  EXPECT_GT(running.service->gateway().counts().snapshot().outcomes[0], 300U) << "hits";
}

/// Gateways that share answers have draws of their own: who has had one is known where it is stored.
TEST(Sampled, ARequesterGetsNoDrawTwiceFromGatewaysThatShareAnswers) {
  testing::GatewayWorld world;
  testing::SharingGateway one(world);
  testing::SharingGateway other(world);
  world.model.answer_at_once();
  const auto asked = [](testing::SharingGateway& gateway, const std::string& body) {
    return ask(gateway.port(), "POST", "/v1/chat/completions", body).header("X-Cache");
  };
  EXPECT_EQ(asked(one, joke("ann")), "MISS");
  EXPECT_EQ(asked(other, joke("ann")), "MISS");
  EXPECT_EQ(asked(one, joke("bob")), "HIT");
  EXPECT_EQ(world.model.asked(), 2U);
  EXPECT_EQ(asked(one, question("Q")), "MISS");
  EXPECT_EQ(asked(other, question("Q")), "HIT") << "all requesters share the only answer";
}

// Another gateway may have erased it.
TEST(Sampled, AGatewayThatCannotReadTheListOfErasuresServesNoDraw) {
  testing::GatewayWorld world;
  testing::SharingGateway gateway(world);
  world.model.answer_at_once();
  const auto asked = [&](const std::string& user) {
    return ask(gateway.port(), "POST", "/v1/chat/completions", joke(user)).header("X-Cache");
  };
  EXPECT_EQ(asked("ann"), "MISS");
  world.still.advance(std::chrono::minutes(1));
  EXPECT_EQ(asked("bob"), "MISS");
  ASSERT_TRUE(gateway.gateway().parts().archive->refresh().has_value());
  EXPECT_EQ(asked("bob"), "HIT");
  EXPECT_EQ(world.model.asked(), 2U);
}

}  // namespace
}  // namespace afterimage
