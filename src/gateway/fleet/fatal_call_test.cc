// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Requests of which replicas die, through the whole gateway.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "foundation/platform/wall_clocks.h"
#include "gateway/proxy/gateway.h"
#include "testing/mortal_server.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::json;
using testing::Model;
using testing::MortalServer;
using testing::Said;
using Fate = MortalServer::Fate;

std::string response(const std::string& body, unsigned status = 200) {
  return fmt::format(
      "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
      body.size(), body);
}

/// Requests whose text contains a word of these have this fate; others, and probes, are answered.
struct Words {
  const char* die = "fatal";
  const char* close = "closed";
  const char* fail = "failed";  // answered with 500; the server dies then
};

MortalServer::Act behave(const std::string& head, const std::string& body) {
  const Words words;
  if (head.starts_with("GET ")) return {.answer = response("{}")};
  if (body.contains(words.die)) return {.fate = Fate::kDie};
  if (body.contains(words.close)) return {.fate = Fate::kClose};
  if (body.contains(words.fail)) {
    return {.fate = Fate::kDie, .answer = response(R"({"error":{"message":"dead"}})", 500)};
  }
  return {.answer = response(Model::said("fine"))};
}

/// A gateway and its replicas, named a, b, …
struct MortalFleet {
  explicit MortalFleet(std::size_t count, const std::string& more = "") {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) {
      servers.push_back(std::make_unique<MortalServer>(behave));
      list += fmt::format("\"{} name={}\",", servers[i]->url(), static_cast<char>('a' + i));
    }
    text = fmt::format(
        "[listen]\nport = 0\n[admin]\nport = 0\n[log]\nlevel = \"error\"\n[upstream]\n"
        "health_interval = \"1 h\"\nrouting = \"round-robin\"\nreplicas = [{}]\n{}\n",
        list, more);
    const auto read = [this] { return parse_settings(text, "test.toml"); };
    service = Service::start({.settings = read().value(),
                              .read_settings = read,
                              .engine = nullptr,
                              .embedder = nullptr,
                              .version = "test",
                              .log =
                                  [this](std::string_view line) {
                                    const std::scoped_lock lock(mutex);
                                    log += line;
                                    return true;
                                  }},
                             clock, wall)
                  .value();
  }
  Said chat(const std::string& words, const std::string& fields = "") {
    return ask(service->port(), "POST", "/v1/chat/completions", testing::question(words, fields));
  }
  json admin(const std::string& path) {
    return json::parse(ask(service->admin_port(), "GET", path, "").body);
  }
  int posts() const {
    int all = 0;
    for (const auto& server : servers) all += server->posts();
    return all;
  }
  std::size_t dead() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(servers, [](const auto& server) { return server->is_dead(); }));
  }

  std::vector<std::unique_ptr<MortalServer>> servers;
  std::string text;
  std::mutex mutex;
  std::string log;
  SystemClock clock;
  SystemWallClock wall;
  std::unique_ptr<Service> service;
};

std::string code_of(const Said& said) { return json::parse(said.body)["error"]["code"]; }

/// In real use the retry ended one replica after the other, until the fleet was gone.
TEST(FatalRequest, IsNotSentToAnotherReplica) {
  for (const char* const words : {"a fatal one", "a failed one"}) {
    MortalFleet fleet(3);
    const Said said = fleet.chat(words);
    EXPECT_EQ(said.status, 502U) << words;
    EXPECT_EQ(code_of(said), "fatal_request");
    EXPECT_EQ(said.header("X-Should-Retry"), "false");
    EXPECT_EQ(fleet.dead(), 1U);
    EXPECT_EQ(fleet.posts(), 1);
    EXPECT_EQ(fleet.chat("another").status, 200U);
    const json known = fleet.admin("/admin/api/fleet");
    EXPECT_EQ(known["fatal_requests"], 1);
    EXPECT_EQ(known["retries"], 0);
    EXPECT_EQ(known["fatal"][0]["deaths"], 1);
    EXPECT_EQ(known["fatal"][0]["refused_for_s"], 0.0);
  }
}

TEST(FatalRequest, ThatEndedTwoReplicasIsRefused) {
  MortalFleet fleet(4);
  EXPECT_EQ(fleet.chat("a fatal one").status, 502U);
  EXPECT_EQ(fleet.chat("a fatal one").status, 502U);
  for (int i = 0; i < 3; ++i) {
    const Said refused = fleet.chat("a fatal one");
    EXPECT_EQ(refused.status, 503U);
    EXPECT_EQ(code_of(refused), "fatal_request_refused");
    EXPECT_EQ(refused.header("X-Should-Retry"), "false");
    EXPECT_NE(refused.header("Retry-After"), "");
  }
  EXPECT_EQ(fleet.dead(), 2U);
  EXPECT_EQ(fleet.chat("another").status, 200U);
  const json known = fleet.admin("/admin/api/fleet");
  EXPECT_EQ(known["fatal_refused"], 3);
  EXPECT_EQ(known["fatal"][0]["deaths"], 2);
  EXPECT_GT(known["fatal"][0]["refused_for_s"], 0.0);
  const std::string metrics = ask(fleet.service->admin_port(), "GET", "/metrics", "").body;
  EXPECT_TRUE(metrics.contains("afterimage_fleet_fatal_requests_total{result=\"replica_died\"} 2"));
  EXPECT_TRUE(metrics.contains("afterimage_fleet_fatal_requests_total{result=\"refused\"} 3"));
}

TEST(FatalRequest, OnAReusedConnectionIsNotSentToAnotherReplica) {
  MortalFleet fleet(3);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fleet.chat(std::to_string(i)).status, 200U);
  EXPECT_EQ(fleet.chat("a fatal one").status, 502U);
  EXPECT_EQ(fleet.dead(), 1U);
}

TEST(FatalRequest, OfSeveralClientsAtOnceEndsOneReplica) {
  MortalFleet fleet(3);
  std::vector<Said> said(8);
  {
    std::vector<std::jthread> clients;
    for (Said& one : said) clients.emplace_back([&] { one = fleet.chat("a fatal one"); });
  }
  for (const Said& one : said) EXPECT_GE(one.status, 502U);
  // Those that came after the first had failed ask again: two replicas at most.
  EXPECT_LE(fleet.dead(), 2U);
  EXPECT_EQ(fleet.chat("another").status, 200U);
}

TEST(FatalRequest, AReplicaThatRefusesConnectionsHadNothingOfIt) {
  MortalFleet fleet(2);
  fleet.servers[0].reset();  // nobody has noticed
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fleet.chat("fine" + std::to_string(i)).status, 200U);
  const json known = fleet.admin("/admin/api/fleet");
  EXPECT_EQ(known["retries"], 1) << "of the one that was sent there first";
  EXPECT_EQ(known["fatal_requests"], 0);
}

TEST(FatalRequest, AClosedConnectionIsRetriedOnceIfTheReplicaLives) {
  MortalFleet fleet(4);
  // Some replicas have a connection that could be used again, and others have none.
  EXPECT_EQ(fleet.chat("fine").status, 200U);
  EXPECT_EQ(fleet.chat("fine as well").status, 200U);
  const int before = fleet.posts();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(fleet.chat("a closed one, " + std::to_string(i)).status, 502U);
    EXPECT_LE(fleet.posts(), before + 2 * (i + 1)) << i;
  }
  const int asked = fleet.posts();
  const Said said = fleet.chat("a closed one");
  EXPECT_EQ(said.status, 502U);
  EXPECT_EQ(said.header("X-Should-Retry"), "false");
  EXPECT_EQ(fleet.posts(), asked + 2);
  EXPECT_EQ(fleet.dead(), 0U);
  EXPECT_EQ(fleet.admin("/admin/api/fleet")["fatal_requests"], 0);
}

/// It may have been closed before the request came, as idle connections are.
TEST(FatalRequest, AReusedConnectionThatWasClosedIsReplacedOnceWhereThereIsOneReplica) {
  std::atomic<int> closes = 0;
  MortalServer server([&](const std::string& head, const std::string& body) -> MortalServer::Act {
    if (head.starts_with("POST ") && closes > 0) {
      --closes;
      return {.fate = Fate::kClose};
    }
    return behave(head, body);
  });
  MortalFleet fleet(1);
  fleet.text = fmt::format(
      "[listen]\nport = 0\n[admin]\nport = 0\n[upstream]\nhealth_interval = \"1 h\"\n"
      "replicas = [\"{} name=a\"]\n",
      server.url());
  ASSERT_TRUE(fleet.service->reload().has_value());
  // Each thread keeps connections of its own: all of them have one then.
  constexpr int kFirst = 16;
  for (int i = 0; i < kFirst; ++i) {
    EXPECT_EQ(fleet.chat("one " + std::to_string(i)).status, 200U);
  }
  closes = 1;
  EXPECT_EQ(fleet.chat("two").status, 200U);
  closes = 2;
  EXPECT_EQ(fleet.chat("three").status, 502U);
  EXPECT_EQ(server.posts(), kFirst + 2 + 2);
}

TEST(FatalRequest, OneReplicaThatClosesItsConnectionsCostsNoRequest) {
  MortalFleet fleet(2);
  fleet.servers[0] = std::make_unique<MortalServer>(
      [](const std::string& head, const std::string& body) -> MortalServer::Act {
        if (body.contains("fine") && !body.contains("first")) return {.fate = Fate::kClose};
        return behave(head, body);
      });
  fleet.text = fmt::format(
      "[listen]\nport = 0\n[admin]\nport = 0\n[upstream]\nhealth_interval = \"1 h\"\n"
      "routing = \"round-robin\"\nreplicas = [\"{} name=a\", \"{} name=b\"]\n",
      fleet.servers[0]->url(), fleet.servers[1]->url());
  ASSERT_TRUE(fleet.service->reload().has_value());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fleet.chat("first " + std::to_string(i)).status, 200U);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fleet.chat("fine " + std::to_string(i)).status, 200U);
}

// The check of its health after each failure ended its ejection: it was asked again and again, until no
// retries were left.
TEST(FatalRequest, AReplicaThatClosesItsConnectionsIsLeftAloneAlthoughItsHealthAnswers) {
  MortalFleet fleet(2);
  fleet.servers[0] = std::make_unique<MortalServer>(
      [](const std::string& head, const std::string& body) -> MortalServer::Act {
        if (head.starts_with("POST ")) return {.fate = Fate::kClose};
        return behave(head, body);
      });
  fleet.text = fmt::format(
      "[listen]\nport = 0\n[admin]\nport = 0\n[upstream]\nhealth_interval = \"1 h\"\n"
      "routing = \"round-robin\"\nreplicas = [\"{} name=a\", \"{} name=b\"]\n",
      fleet.servers[0]->url(), fleet.servers[1]->url());
  ASSERT_TRUE(fleet.service->reload().has_value());
  for (int i = 0; i < 30; ++i) EXPECT_EQ(fleet.chat("fine " + std::to_string(i)).status, 200U);
  // As one that answers with errors, and once on trial after each ejection.
  EXPECT_GE(fleet.servers[0]->posts(), 5);
  EXPECT_LE(fleet.servers[0]->posts(), 9);
}

// One request whose connections are closed, by a limit of the servers for example, is no reason for others
// to wait.
TEST(FatalRequest, ARequestThatIsBrokenOffEjectsNoReplicaThatAnswersOthers) {
  MortalFleet fleet(2);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(fleet.chat("a closed one").status, 502U);
    EXPECT_EQ(fleet.chat("fine " + std::to_string(i)).status, 200U);
    EXPECT_EQ(fleet.chat("good " + std::to_string(i)).status, 200U);
  }
  const json page = fleet.admin("/admin/api/fleet");
  for (const json& replica : page["replicas"]) {
    EXPECT_EQ(replica["ejections"], 0) << replica;
  }
}

TEST(FatalRequest, AClosedConnectionIsNotRetriedWhereNoOtherReplicaIsKnownToBeHealthy) {
  MortalFleet fleet(2);
  EXPECT_EQ(fleet.chat("a fatal one").status, 502U);
  EXPECT_EQ(fleet.dead(), 1U);
  const int before = fleet.posts();
  EXPECT_EQ(fleet.chat("a closed one").status, 502U);
  EXPECT_EQ(fleet.posts(), before + 1);
}

TEST(FatalRequest, AStreamThatBreaksOffWithItsReplicaCounts) {
  MortalFleet fleet(1);
  fleet.servers[0] = nullptr;
  const auto streams = [](const std::string& head, const std::string&) -> MortalServer::Act {
    if (head.starts_with("GET ")) return {.answer = response("{}")};
    return {.fate = Fate::kDie,
            .answer =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\n"};
  };
  MortalServer server(streams);
  fleet.text = fmt::format(
      "[listen]\nport = 0\n[admin]\nport = 0\n[upstream]\nhealth_interval = \"1 h\"\n"
      "replicas = [\"{} name=a\"]\n",
      server.url());
  ASSERT_TRUE(fleet.service->reload().has_value());
  EXPECT_EQ(fleet.chat("one", ",\"stream\":true").status, 200U);
  while (fleet.admin("/admin/api/fleet")["fatal_requests"] != 1) std::this_thread::yield();
}

TEST(FatalRequest, IsLoggedWithItsDigest) {
  MortalFleet fleet(2);
  fleet.chat("a fatal one");
  const std::string digest = fleet.admin("/admin/api/fleet")["fatal"][0]["digest"];
  fleet.service.reset();  // writes what was logged
  EXPECT_TRUE(fleet.log.contains("\"event\":\"fatal_request\"")) << fleet.log;
  EXPECT_TRUE(fleet.log.contains(digest));
  EXPECT_FALSE(fleet.log.contains("a fatal one")) << "no content";
}

/// One upstream, and nothing else that could be asked: those that wait for the same do not ask again.
TEST(FatalRequest, OfOneUpstreamIsSentOnce) {
  std::atomic<Gateway*> gateway = nullptr;
  MortalServer server([&](const std::string& head, const std::string& body) -> MortalServer::Act {
    // All four wait for this response.
    while (gateway.load() == nullptr || gateway.load()->responses().subscribers() < 4) {
      std::this_thread::yield();
    }
    return behave(head, body);
  });
  testing::Running running("", server.url());
  gateway = &running.service->gateway();
  std::vector<Said> said(4);
  {
    std::vector<std::jthread> clients;
    for (Said& one : said) {
      clients.emplace_back([&] { one = running.chat(testing::question("a fatal one")); });
    }
  }
  for (const Said& one : said) {
    EXPECT_EQ(one.status, 502U);
    EXPECT_EQ(one.header("X-Should-Retry"), "false");
  }
  EXPECT_EQ(server.posts(), 1);
}

}  // namespace
}  // namespace afterimage
