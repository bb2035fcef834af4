// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/admin/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/admin/admin_json.h"
#include "testing/running_gateway.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using ::testing::Not;
using testing::question;
using testing::RawClient;
using testing::Running;
using testing::Said;
using ::testing::StartsWith;

TEST(Admin, ExplainsWithoutAskingOrCounting) {
  Running running;
  const std::string asked = R"({"operation":"chat","body":)" + question("Q") + "}";
  EXPECT_EQ(running.admin("POST", "/admin/api/explain", asked)["outcome"], "miss");
  running.chat(question("Q"));
  const json before = running.admin("GET", "/admin/api/stats");
  const json said = running.admin("POST", "/admin/api/explain", asked);
  EXPECT_EQ(said["outcome"], "hit");
  EXPECT_EQ(said["match_levels"][0]["verdict"], "served");
  const json after = running.admin("GET", "/admin/api/stats");
  EXPECT_EQ(before["match_levels"], after["match_levels"]);
  EXPECT_EQ(before["requests"]["total"], after["requests"]["total"]);
  EXPECT_EQ(running.model.asked(), 1);
}

// Regression: the members of the request were sorted on their way, so that it was another one.
TEST(Admin, ExplainsTheRequestAsItIsWritten) {
  Running running;
  const std::string body =
      R"({"model":"m","temperature":0,"messages":[{"role":"user","content":"Q"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"properties":{"z":{},"a":{}}}}}})";
  running.chat(body);
  const std::string asked = R"({"operation":"chat","body":)" + body + "}";
  EXPECT_EQ(running.admin("POST", "/admin/api/explain", asked)["outcome"], "hit");
}

TEST(Admin, RemembersWhatItDecided) {
  Running running;
  running.chat(question("Q"), "X-Request-Id: a\r\n");
  running.chat(question("Q"), "X-Request-Id: b\r\n");
  const json list = running.admin("GET", "/admin/api/decisions");
  ASSERT_EQ(list["decisions"].size(), 2U);
  EXPECT_EQ(list["decisions"][0]["outcome"], "miss");
  EXPECT_EQ(list["decisions"][1]["outcome"], "hit");
  EXPECT_EQ(list["decisions"][1]["request_id"], "b");
  const json one = running.admin("GET", "/admin/api/decisions/2");
  EXPECT_EQ(one["match_levels"].back()["verdict"], "served");
  EXPECT_EQ(running.admin("GET", "/admin/api/decisions?after=1")["decisions"].size(), 1U);
}

TEST(Admin, AReloadAppliesToLaterRequests) {
  Running running("[answers]\nenabled = true\n");
  running.chat(question("Q"));
  running.text += "match_level = \"exact\"\nttl = \"1 h\"\n";
  running.text.replace(running.text.find("enabled = true"), 14, "enabled = false");
  const json done = running.admin("POST", "/admin/api/reload", "{}");
  EXPECT_THAT(done["applied"].dump(), HasSubstr("answers.enabled"));
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "BYPASS");
  running.text += "nonsense";
  EXPECT_TRUE(running.admin("POST", "/admin/api/reload", "{}").contains("error"));
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "BYPASS");
}

TEST(Admin, RefusesRequestsWithoutTheToken) {
  Running running;
  running.text.replace(running.text.find("[admin]\nport = 0"), 16,
                       "[admin]\nport = 0\ntoken = \"a-long-secret-token\"");
  running.service.reset();
  running.service = running.start();
  const std::uint16_t port = running.service->admin_port();
  for (const char* path : {"/metrics", "/admin/api/stats", "/admin/api/entries"}) {
    EXPECT_EQ(ask(port, "GET", path, "").status, 401U) << path;
    EXPECT_EQ(ask(port, "GET", path, "", "Authorization: Bearer wrong\r\n").status, 401U);
    EXPECT_EQ(ask(port, "GET", path, "", "Authorization: Bearer a-long-secret-token\r\n").status,
              200U);
  }
  EXPECT_EQ(ask(port, "POST", "/admin/api/drain", "{}").status, 401U);
  EXPECT_EQ(ask(port, "GET", "/", "").status, 200U) << "the page holds nothing";
}

TEST(Admin, BrowsersOfOtherSitesCannotChangeAnything) {
  Running running;
  const std::uint16_t port = running.service->admin_port();
  EXPECT_EQ(ask(port, "POST", "/admin/api/invalidate", R"({"all":true,"dry_run":false})",
                "Content-Type: text/plain\r\n")
                .status,
            415U);
  const auto named = [&](const std::string& host) {
    RawClient client(port);
    client.send("GET /ready HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    return std::string(client.read_all());
  };
  for (const char* host : {"evil.example:8081", "127.evil.example", "127.0.0.1.evil.example"}) {
    EXPECT_THAT(named(host), StartsWith("HTTP/1.1 421 ")) << host;
  }
  for (const char* host : {"localhost:8081", "LOCALHOST", "127.0.0.2", "[::1]:8081"}) {
    EXPECT_THAT(named(host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  const Said page = ask(port, "GET", "/", "");
  EXPECT_THAT(page.head, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(page.body, Not(HasSubstr("@NONCE@")));
}

TEST(Admin, MetricsSayWhatThePageSays) {
  Running running;
  running.chat(question("Q"));
  running.chat(question("Q"));
  const std::string metrics = ask(running.service->admin_port(), "GET", "/metrics", "").body;
  EXPECT_THAT(
      metrics,
      HasSubstr(R"(afterimage_requests_total{code="200",operation="chat",outcome="hit"} 1)"));
  EXPECT_THAT(metrics, HasSubstr("afterimage_answers_entries 1"));
  EXPECT_THAT(metrics, HasSubstr("visual_cache_hits 0"));
}

TEST(Admin, ErasesFromMemoryAndFromTheDisk) {
  const testing::TemporaryFolder folder;
  Running running("[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n");
  running.chat(question("Q"));
  const auto erase = [&](const std::string& what) {
    return running.admin("POST", "/admin/api/erase", what);
  };
  for (const char* unclear :
       {"{}", R"({"all":false})", R"({"tenant":"a","model":"b"})", R"({"media":"ab"})",
        R"({"tag":""})", R"({"tenant":7})", R"({"older_than_days":-1})",
        R"({"older_than_days":"30d"})", R"({"older_than_days":4000})", R"({"entry":"1"})"}) {
    EXPECT_TRUE(erase(unclear).contains("error")) << unclear;
  }
  EXPECT_EQ(erase(R"({"tenant":"another"})")["stored"], 0);
  EXPECT_EQ(erase(R"({"tag":"another"})")["stored"], 0);
  EXPECT_EQ(erase(R"({"older_than_days":2})")["stored"], 0);
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
  running.wait_archived(1);
  const json erased = erase(R"({"tenant":"anonymous"})");
  EXPECT_EQ(erased["answers"], 1);
  EXPECT_GE(erased["stored"], 1);
  EXPECT_EQ(running.admin("GET", "/admin/api/stats")["tiers"][0]["entries"], 0);
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  EXPECT_EQ(erase(R"({"all":true})")["answers"], 1);
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  running.wait_archived(3);
  EXPECT_GE(erase(R"({"older_than_days":0})")["stored"], 1) << "today's, too";
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
}

TEST(Admin, SaysWhatTheTiersBelowMemoryHold) {
  EXPECT_EQ(Running().admin("GET", "/admin/api/stats")["tiers"], json::array());
  const testing::TemporaryFolder folder;
  Running running("[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n");
  running.chat(question("Q"));
  running.wait_archived(1);
  const json tiers = running.admin("GET", "/admin/api/stats")["tiers"];
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_EQ(tiers[0]["tier"], "disk");
  EXPECT_EQ(tiers[0]["capacity"], (64_MiB).value());
  EXPECT_GE(tiers[0]["puts"], 1) << "the answer";
  EXPECT_EQ(tiers[0]["degraded_reason"], "");
}

TEST(Admin, ExplainsWhatTheBodySaysOfReuse) {
  Running running;
  const auto explained = [&](const std::string& directives) {
    const std::string body = question("Q", R"(,"cache":)" + directives);
    return running.admin("POST", "/admin/api/explain",
                         R"({"operation":"chat","body":)" + body + "}");
  };
  running.chat(question("Q", R"(,"cache":{"namespace":"a"})"));
  EXPECT_EQ(explained(R"({"namespace":"a"})")["outcome"], "hit");
  EXPECT_EQ(explained(R"({"namespace":"b"})")["outcome"], "miss");
  EXPECT_EQ(explained(R"({"namespace":"a","no-cache":true})")["outcome"], "refresh");
}

TEST(Admin, AnswersCanBeSwitchedOnWhileItRuns) {
  Running running("[answers]\nenabled = false\n");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "BYPASS");
  running.text.replace(running.text.find("enabled = false"), 15, "enabled = true");
  EXPECT_EQ(running.admin("POST", "/admin/api/reload", "{}")["applied"][0], "answers.enabled");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT");
}

TEST(Admin, TheDemosPageAsksAsAClientOfThePublicPort) {
  Running running;
  const std::string type = "Content-Type: application/json\r\n";
  const auto asked = [&](const std::string& headers) {
    return ask(running.service->admin_port(), "POST", "/admin/api/ask", question("Q"), headers);
  };
  EXPECT_EQ(asked(type).status, 404U) << "without --demo";
  EXPECT_EQ(running.admin("GET", "/admin/api/stats")["demo"], false);
  running.demo = true;
  running.service.reset();
  running.service = running.start();
  EXPECT_EQ(running.admin("GET", "/admin/api/stats")["demo"], true);
  EXPECT_EQ(asked(type).header("X-Cache"), "MISS");
  EXPECT_EQ(asked(type).header("X-Cache"), "HIT");
  EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "HIT") << "the same cache";
  EXPECT_EQ(asked("Content-Type: text/plain\r\n").status, 415U);
  EXPECT_EQ(ask(running.service->admin_port(), "GET", "/admin/api/ask", "").status, 404U);
  RawClient other(running.service->admin_port());
  other.send("POST /admin/api/ask HTTP/1.1\r\nHost: evil.example\r\n" + type +
             "Connection: close\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_THAT(std::string(other.read_all()), StartsWith("HTTP/1.1 421 "));
  EXPECT_EQ(running.model.asked(), 1);
}

TEST(UnsafeRate, ItsBoundIsWilsons) {
  EXPECT_EQ(upper95(0, 0), std::nullopt);
  EXPECT_NEAR(upper95(0, 100).value(), 0.0263, 0.0005);
  EXPECT_NEAR(upper95(1, 412).value(), 0.0109, 0.0005);
  EXPECT_EQ(upper95(5, 5), 1.0);
}

}  // namespace
}  // namespace afterimage
