// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The whole gateway in front of several model servers.
#include "gateway/fleet/fleet_backend.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "foundation/platform/wall_clocks.h"
#include "gateway/proxy/gateway.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::json;
using testing::Model;
using testing::Said;

constexpr const char* kChat = "/v1/chat/completions";

/// A gateway with `count` replicas, named a, b, …; options of each may be given.
struct RunningFleet {
  explicit RunningFleet(std::size_t count, std::string upstream = "",
                        std::vector<std::string> options = {}) {
    for (std::size_t i = 0; i < count; ++i) models.push_back(std::make_unique<Model>());
    options.resize(count);
    more = std::move(upstream);
    configure(options);
    service = Service::start({.settings = read().value(),
                              .read_settings = [this] { return read(); },
                              .engine = nullptr,
                              .embedder = nullptr,
                              .version = "test",
                              .log = [](std::string_view) { return true; }},
                             clock, wall)
                  .value();
  }
  void configure(const std::vector<std::string>& options) {
    std::string list;
    for (std::size_t i = 0; i < options.size(); ++i) {
      list += fmt::format("\"{} name={} {}\",", models[i]->url(), static_cast<char>('a' + i),
                          options[i]);
    }
    text = fmt::format(
        "[listen]\nport = 0\n[admin]\nport = 0\n[log]\nlevel = \"off\"\n[upstream]\n"
        "health_interval = \"1 h\"\nreplicas = [{}]\n{}\n",
        list, more);
  }
  [[nodiscard]] Result<Settings> read() const { return parse_settings(text, "test.toml"); }
  Said chat(const std::string& words, const std::string& more_fields = "",
            const std::string& headers = "") {
    return ask(service->port(), "POST", kChat, testing::question(words, more_fields), headers);
  }
  json admin(const std::string& method, const std::string& path, const std::string& body = "") {
    return json::parse(
        ask(service->admin_port(), method, path, body, "Content-Type: application/json\r\n").body);
  }
  json replica(const std::string& name) {
    const json known = admin("GET", "/admin/api/fleet");
    for (const json& one : known["replicas"]) {
      if (one["name"] == name) return one;
    }
    return nullptr;
  }
  int asked() const {
    int all = 0;
    for (const auto& model : models) all += model->asked();
    return all;
  }

  std::vector<std::unique_ptr<Model>> models;
  std::string more;
  std::string text;
  SystemClock clock;
  SystemWallClock wall;
  std::unique_ptr<Service> service;
};

Model::Answer status(unsigned code) {
  return [code](const HttpRequest& request, const Responder& responder) {
    if (request.target == "/health") return responder.reply({});  // it has not died of it
    responder.reply({.status = code,
                     .headers = {{"Content-Type", "application/json"}},
                     .body = std::string(R"({"error":{"message":"no"}})")});
  };
}

const std::string kLong(4000, 'x');

TEST(FleetBackend, SaysWhichReplicaAnsweredAndWhy) {
  RunningFleet fleet(3);
  const Said first = fleet.chat(kLong + "one");
  EXPECT_EQ(first.status, 200U);
  const std::string replica = first.header("X-Afterimage-Replica");
  EXPECT_EQ(first.header("X-Afterimage-Route"), "least-loaded");
  const Said second = fleet.chat(kLong + "two");
  EXPECT_EQ(second.header("X-Afterimage-Replica"), replica);
  EXPECT_EQ(second.header("X-Afterimage-Route"), "prefix");
  const json decisions = fleet.admin("GET", "/admin/api/decisions");
  const json decision =
      fleet.admin("GET", "/admin/api/decisions/" + std::to_string(decisions["last"].get<int>()));
  EXPECT_EQ(decision["replica"], replica);
  EXPECT_EQ(decision["route"]["reason"], "prefix");
  EXPECT_EQ(decision["route"]["candidates"].size(), 3U);
  const json said = fleet.admin("POST", "/admin/api/explain",
                                R"({"body":)" + testing::question(kLong + "three") + "}");
  EXPECT_EQ(said["route"]["replica"], replica);
  EXPECT_EQ(fleet.asked(), 2);
}

TEST(FleetBackend, AnswersAreCachedForTheFleetAndNotForAReplica) {
  RunningFleet fleet(2, "routing = \"round-robin\"");
  EXPECT_EQ(fleet.chat("one").header("X-Cache"), "MISS");
  fleet.admin("POST", "/admin/api/fleet/drain", R"({"replica":"a"})");
  const Said hit = fleet.chat("one");
  EXPECT_EQ(hit.header("X-Cache"), "HIT");
  EXPECT_EQ(hit.header("X-Afterimage-Replica"), "");
  EXPECT_EQ(fleet.service->gateway().parts().backend.identity("m").adapter, "fleet");
}

TEST(FleetBackend, AsksAnotherReplicaIfOneFailsBeforeTheFirstByte) {
  for (const unsigned code : {500U, 502U, 503U, 504U, 429U}) {
    RunningFleet fleet(2);
    fleet.models[0]->answers(status(code));
    for (int i = 0; i < 4; ++i) {
      const Said said = fleet.chat(fmt::format("{} {}", code, i));
      EXPECT_EQ(said.status, 200U);
      EXPECT_EQ(said.header("X-Afterimage-Replica"), "b");
    }
    EXPECT_GT(fleet.models[0]->asked(), 0);
    EXPECT_GT(fleet.admin("GET", "/admin/api/fleet")["retries"], 0);
  }
}

/// A server with these models.
Model::Answer lists(const std::vector<std::string>& ids) {
  json data = json::array();
  for (const std::string& id : ids) data.push_back({{"id", id}, {"object", "model"}});
  return [body = json{{"object", "list"}, {"data", data}}.dump()](const HttpRequest&,
                                                                  const Responder& responder) {
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = body});
  };
}

std::vector<std::string> listed(RunningFleet& fleet, const std::string& headers = "") {
  const Said said = ask(fleet.service->port(), "GET", "/v1/models", "", headers);
  EXPECT_EQ(said.status, 200U);
  std::vector<std::string> ids;
  const json models = json::parse(said.body);
  for (const json& model : models["data"]) ids.push_back(model["id"]);
  return ids;
}

json salt_in(Model& model) { return json::parse(*model.last().body).value("cache_salt", json()); }

TEST(FleetBackend, APromptThatIsSentAgainHasItsTenantsSalt) {
  RunningFleet fleet(2, "cache_salt = true\n");
  fleet.models[0]->answers(status(503));
  std::set<std::string> salts;
  for (int i = 0; i < 3; ++i) {
    for (const char* key : {"a", "b"}) {
      const Said said = fleet.chat("Q" + std::to_string(i), "",
                                   "Authorization: Bearer " + std::string(key) + "\r\n");
      ASSERT_EQ(said.header("X-Afterimage-Replica"), "b") << said.body;
      salts.insert(salt_in(*fleet.models[1]).get<std::string>());
    }
  }
  EXPECT_GT(fleet.models[0]->asked(), 0);
  EXPECT_EQ(salts.size(), 2U) << "one for each tenant";
  EXPECT_TRUE(salts.contains(salt_in(*fleet.models[0]).get<std::string>()));
}

TEST(FleetBackend, AReplicaMaySayWhetherItTakesSalts) {
  RunningFleet fleet(2, "routing = \"round-robin\"\n", {"cache_salt=true", "cache_salt=false"});
  for (int i = 0; i < 4; ++i) {
    fleet.chat("Q" + std::to_string(i), "", "Authorization: Bearer a\r\n");
  }
  EXPECT_TRUE(salt_in(*fleet.models[0]).is_string());
  EXPECT_TRUE(salt_in(*fleet.models[1]).is_null());
}

TEST(FleetBackend, NoReplicaIsExpectedToReuseWhatItHoldsForAnotherTenant) {
  for (const bool salts : {true, false}) {
    RunningFleet fleet(2, salts ? "cache_salt = true\n" : "cache_salt = false\n");
    fleet.chat(kLong + "one", "", "Authorization: Bearer a\r\n");
    const auto route = [&](const std::string& key) {
      return fleet.chat(kLong + key, "", "Authorization: Bearer " + key + "\r\n")
          .header("X-Afterimage-Route");
    };
    EXPECT_EQ(route("a"), "prefix");
    EXPECT_EQ(route("b"), salts ? "least-loaded" : "prefix");
  }
}

TEST(FleetBackend, ListsTheModelsOfAllReplicasOnce) {
  RunningFleet fleet(3, "", {"", "", "models=c*"});
  fleet.models[0]->answers(lists({"a", "both"}));
  fleet.models[1]->answers(lists({"both", "b"}));
  fleet.models[2]->answers(lists({"c1", "hidden"}));  // which is never sent there
  const std::vector<std::string> all = {"a", "both", "b", "c1"};
  EXPECT_EQ(listed(fleet), all);
  EXPECT_EQ(listed(fleet), all);
  EXPECT_EQ(fleet.asked(), 3);  // kept
  EXPECT_EQ(listed(fleet, "Authorization: Bearer other\r\n"), all);
  EXPECT_EQ(fleet.asked(), 6);  // but for this key only
  const Said one = ask(fleet.service->port(), "GET", "/v1/models/b", "");
  EXPECT_EQ(json::parse(one.body)["id"], "b");
  EXPECT_EQ(ask(fleet.service->port(), "GET", "/v1/models/hidden", "").status, 404U);
}

TEST(FleetBackend, AReplicaThatFailsLeavesOutItsModels) {
  RunningFleet fleet(3);
  fleet.models[0]->answers(lists({"a"}));
  fleet.models[1]->answers(status(500));
  fleet.models[2]->answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.body = std::string("{\"data\":7}")});
  });
  EXPECT_EQ(listed(fleet), std::vector<std::string>({"a"}));
  // Not kept: it is complete as soon as they answer.
  fleet.models[1]->answers(lists({"b"}));
  fleet.models[2]->answers(lists({"c"}));
  EXPECT_EQ(listed(fleet), std::vector<std::string>({"a", "b", "c"}));
}

TEST(FleetBackend, SaysThatNoReplicaListsModels) {
  RunningFleet fleet(2);
  for (auto& model : fleet.models) model->answers(status(500));
  EXPECT_EQ(ask(fleet.service->port(), "GET", "/v1/models", "").status, 502U);
}

/// A server that counts these tokens of a prompt of 1,000 as cached.
Model::Answer answers_with_cached(int tokens) {
  return [tokens](const HttpRequest&, const Responder& responder) {
    const json usage = {{"prompt_tokens", 1000},
                        {"completion_tokens", 1},
                        {"prompt_tokens_details", {{"cached_tokens", tokens}}}};
    const json message = {{"role", "assistant"}, {"content", "Yes."}};
    const json choices =
        json::array({{{"index", 0}, {"message", message}, {"finish_reason", "stop"}}});
    responder.reply({.headers = {{"Content-Type", "application/json"}},
                     .body = json{
                         {"id", "1"},
                         {"object", "chat.completion"},
                         {"created", 1},
                         {"model", "m"},
                         {"choices", choices},
                         {"usage",
                          usage}}.dump()});
  };
}

TEST(FleetBackend, WhatChoicesOfOnePromptCountAsCachedSaysNothingOfTheCache) {
  RunningFleet fleet(1);
  fleet.models[0]->answers(answers_with_cached(992));
  fleet.chat(kLong + "one", ",\"n\":4");
  EXPECT_EQ(fleet.replica("a")["cached_tokens"], 0);
  fleet.chat(kLong + "two");
  EXPECT_EQ(fleet.replica("a")["cached_tokens"], 992);
}

TEST(FleetBackend, ARequestForThePromptsProbabilitiesDisprovesNothing) {
  RunningFleet fleet(1);
  const auto confirmed = [&](const std::string& words) {
    return fleet
        .admin("POST", "/admin/api/explain",
               R"({"body":)" + testing::question(words) +
                   "}")["route"]["candidates"][0]["confirmed_tokens"]
        .get<double>();
  };
  fleet.models[0]->answers(answers_with_cached(1000));
  fleet.chat(kLong + "one");
  fleet.chat(kLong + "two");
  const double before = confirmed(kLong + "three");
  EXPECT_GT(before, 0);
  fleet.models[0]->answers(answers_with_cached(0));
  fleet.chat(kLong + "four", ",\"prompt_logprobs\":0");
  EXPECT_NEAR(confirmed(kLong + "five"), before, 10);
  fleet.chat(kLong + "six");
  EXPECT_LT(confirmed(kLong + "seven"), before / 2);
}

TEST(FleetBackend, ErrorsOfTheClientAreNotRetried) {
  RunningFleet fleet(2);
  for (auto& model : fleet.models) model->answers(status(400));
  EXPECT_EQ(fleet.chat("one").status, 400U);
  EXPECT_EQ(fleet.asked(), 1);
}

TEST(FleetBackend, IfEveryReplicaFailsTheClientGetsTheLastError) {
  RunningFleet fleet(2);
  for (auto& model : fleet.models) model->answers(status(503));
  EXPECT_EQ(fleet.chat("one").status, 503U);
  EXPECT_EQ(fleet.asked(), 2);
}

TEST(FleetBackend, RequestsThatChangeSomethingAreNotRepeated) {
  RunningFleet fleet(2);
  for (auto& model : fleet.models) model->answers(status(503));
  EXPECT_EQ(ask(fleet.service->port(), "POST", "/v1/batches", "{}").status, 503U);
  EXPECT_EQ(fleet.asked(), 1);
}

TEST(FleetBackend, ABrokenReplicaIsEjectedAtOnce) {
  RunningFleet fleet(2, "routing = \"round-robin\"");
  fleet.models[0].reset();  // nothing listens there
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fleet.chat("one" + std::to_string(i)).status, 200U);
  EXPECT_EQ(fleet.replica("a")["state"], "ejected");
  EXPECT_EQ(fleet.replica("a")["results"]["connection"], 1);
  EXPECT_EQ(fleet.models[1]->asked(), 6);
}

TEST(FleetBackend, RetriesStayWithinTheirBudget) {
  RunningFleet fleet(2, "retry_budget = 0.1");
  for (auto& model : fleet.models) model->answers(status(429));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(fleet.chat("one" + std::to_string(i)).status, 429U);
  const json said = fleet.admin("GET", "/admin/api/fleet");
  EXPECT_LE(said["retries"], 14);
  EXPECT_GE(said["retries"], 10);
  EXPECT_GT(said["retries_denied"], 0);
  EXPECT_EQ(fleet.asked(), 40 + said["retries"].get<int>());
}

TEST(FleetBackend, WaitsForAPlaceInOrder) {
  RunningFleet fleet(1, "", {"limit=1"});
  fleet.models[0]->hold(1);
  std::vector<std::jthread> clients;
  std::vector<Said> said(3);
  for (std::size_t i = 0; i < 3; ++i) {
    clients.emplace_back([&, i] { said[i] = fleet.chat("one" + std::to_string(i)); });
    if (i == 0) fleet.models[0]->wait_held(1);
    while (fleet.admin("GET", "/admin/api/fleet")["waiting"] != i) std::this_thread::yield();
  }
  EXPECT_EQ(fleet.models[0]->asked(), 1);
  fleet.models[0]->wait_held(1)[0].reply(
      {.headers = {{"Content-Type", "application/json"}}, .body = Model::said("held")});
  clients.clear();
  for (const Said& one : said) EXPECT_EQ(one.status, 200U);
  EXPECT_EQ(fleet.models[0]->asked(), 3);
}

TEST(FleetBackend, RefusesMoreThanTheQueueHolds) {
  RunningFleet fleet(1, "queue = 0", {"limit=1"});
  fleet.models[0]->hold(1);
  Said first;
  std::jthread client([&] { first = fleet.chat("one"); });
  const auto held = fleet.models[0]->wait_held(1);
  const Said refused = fleet.chat("two");
  EXPECT_EQ(refused.status, 429U);
  EXPECT_NE(refused.header("Retry-After"), "");
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "fleet_busy");
  held[0].reply({.headers = {{"Content-Type", "application/json"}}, .body = Model::said("x")});
  client.join();
  EXPECT_EQ(first.status, 200U);
  EXPECT_EQ(fleet.chat("two").status, 200U) << "a refusal is not stored";
}

TEST(FleetBackend, ARequestThatWaitedTooLongIsRefused) {
  RunningFleet fleet(1, "queue_timeout = \"1 ms\"");
  fleet.admin("POST", "/admin/api/fleet/drain", R"({"replica":"a"})");
  const Said refused = fleet.chat("one");
  EXPECT_EQ(refused.status, 503U);
  EXPECT_NE(refused.header("Retry-After"), "");
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "fleet_unavailable");
  EXPECT_EQ(fleet.asked(), 0);
}

TEST(FleetBackend, AClientThatLeavesTheQueueIsNotSent) {
  RunningFleet fleet(1, "", {"limit=1"});
  fleet.models[0]->hold(1);
  std::jthread client([&] { fleet.chat("one"); });
  const auto held = fleet.models[0]->wait_held(1);
  {
    testing::RawClient leaves(fleet.service->port());
    const std::string body = testing::question("two");
    leaves.send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    while (fleet.admin("GET", "/admin/api/fleet")["waiting"] != 1) std::this_thread::yield();
  }
  while (fleet.admin("GET", "/admin/api/fleet")["waiting"] != 0) std::this_thread::yield();
  held[0].reply({.headers = {{"Content-Type", "application/json"}}, .body = Model::said("x")});
  client.join();
  EXPECT_EQ(fleet.models[0]->asked(), 1);
}

TEST(FleetBackend, AModelThatNoReplicaServesIsNotFound) {
  RunningFleet fleet(2, "", {"models=qwen*", "models=llava"});
  const Said said = fleet.chat("one");  // model m
  EXPECT_EQ(said.status, 404U);
  EXPECT_EQ(json::parse(said.body)["error"]["code"], "model_not_found");
  EXPECT_EQ(fleet.asked(), 0);
}

TEST(FleetBackend, DrainsAndResumes) {
  RunningFleet fleet(2);
  EXPECT_EQ(fleet.admin("POST", "/admin/api/fleet/drain", R"({"replica":"a"})")["draining"], true);
  for (int i = 0; i < 4; ++i) fleet.chat("one" + std::to_string(i));
  EXPECT_EQ(fleet.models[0]->asked(), 0);
  fleet.admin("POST", "/admin/api/fleet/resume", R"({"replica":"a"})");
  for (int i = 0; i < 4; ++i) fleet.chat("two" + std::to_string(i));
  EXPECT_GT(fleet.models[0]->asked(), 0);
  EXPECT_TRUE(
      fleet.admin("POST", "/admin/api/fleet/drain", R"({"replica":"x"})").contains("error"));
  EXPECT_TRUE(fleet.admin("POST", "/admin/api/fleet/drain", "{}").contains("error"));
}

TEST(FleetBackend, ReloadAddsAndRemovesReplicas) {
  RunningFleet fleet(2);
  fleet.models.push_back(std::make_unique<Model>());
  fleet.configure({"", "", ""});
  EXPECT_EQ(fleet.service->reload()->applied, std::vector<std::string>{"upstream.replicas"});
  for (int i = 0; i < 6; ++i) fleet.chat("one" + std::to_string(i));
  EXPECT_EQ(fleet.models[2]->asked(), 2);
  fleet.text = fmt::format("[listen]\nport = 0\n[admin]\nport = 0\n[upstream]\nurl = \"{}\"\n",
                           fleet.models[0]->url());
  const auto needs = fleet.service->reload()->needs_restart;
  EXPECT_EQ(std::ranges::count(needs, "upstream.replicas"), 1);
  EXPECT_EQ(fleet.chat("two").status, 200U);
}

TEST(FleetBackend, StreamsArePassedOnWithTheirReplica) {
  RunningFleet fleet(2);
  fleet.models[0]->answers(status(503));
  for (int i = 0; i < 3; ++i) {
    const Said said = fleet.chat("one" + std::to_string(i), ",\"stream\":true");
    EXPECT_EQ(said.status, 200U);
    EXPECT_EQ(said.header("X-Afterimage-Replica"), "b");
    EXPECT_TRUE(said.body.ends_with("data: [DONE]\n\n"));
  }
}

TEST(FleetBackend, ItsMetricsNameReplicas) {
  RunningFleet fleet(2);
  fleet.chat("one");
  const std::string text = ask(fleet.service->admin_port(), "GET", "/metrics", "").body;
  EXPECT_TRUE(text.contains("afterimage_replica_available{replica=\"b\"} 1"));
  EXPECT_TRUE(
      text.contains("afterimage_replica_requests_total{replica=\"a\",result=\"answered\"}"));
  EXPECT_TRUE(text.contains("afterimage_fleet_waiting 0"));
}

TEST(FleetBackend, TimingProtectionHidesWhyAReplicaWasChosen) {
  RunningFleet fleet(2, "[answers]\ntiming_protection = \"all\"");
  const Said said = fleet.chat(kLong);
  EXPECT_EQ(said.status, 200U);
  EXPECT_EQ(said.header("X-Afterimage-Route"), "");
}

}  // namespace
}  // namespace afterimage
