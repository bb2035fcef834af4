// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Why a prompt was computed again, as Anthropic's and OpenAI's clients ask for it.
#include <gtest/gtest.h>

#include <string>

#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::BuiltInGateway;
using testing::json;
using testing::Running;
using testing::Said;

json message_request(const json& previous) {
  return {{"model", "m"},
          {"max_tokens", 9},
          {"temperature", 0},
          {"system", "You help with a shop for posters."},
          {"tools", {{{"name", "a"}, {"input_schema", {{"type", "object"}}}}}},
          {"messages", {{{"role", "user"}, {"content", "Which are blue?"}}}},
          {"diagnostics", {{"previous_message_id", previous}}}};
}
json response_request(const json& compared) {
  return {{"model", "m"},
          {"temperature", 0},
          {"instructions", "You help with a shop for posters."},
          {"input", "Which are blue?"},
          {"prompt_cache_options", {{"comparison_response_id", compared}}}};
}

json json_answer(std::uint16_t port, const std::string& path, const json& body,
                 const std::string& key = "a") {
  const Said said = ask(port, "POST", path, body.dump(), "Authorization: Bearer " + key + "\r\n");
  EXPECT_EQ(said.status, 200U) << said.body;
  EXPECT_EQ(said.header("X-Afterimage-Ignored"), "");
  return json::parse(said.body);
}

std::string reason_in(const json& message) {
  const json diagnostics = message.at("diagnostics");
  return diagnostics.is_null() ? "null"
                               : diagnostics["cache_miss_reason"]["type"].get<std::string>();
}

json with(json request, const char* pointer, const char* text) {
  request[json::json_pointer(pointer)] = text;
  return request;
}

json next_turn(json request) {
  request["messages"].push_back({{"role", "assistant"}, {"content", "answer"}});
  request["messages"].push_back({{"role", "user"}, {"content", "And green?"}});
  return request;
}

TEST(DiagnosedPrompts, AMessageSaysWhatChangedSinceTheOneThatItNames) {
  Running running;
  const auto say = [&](const json& body) {
    return json_answer(running.service->port(), "/v1/messages", body);
  };
  const json first = say(message_request(nullptr));
  EXPECT_EQ(reason_in(first), "null");
  const json request = message_request(first["id"]);
  const struct {
    const char* expected;
    json request;
  } kCases[] = {
      {"null", next_turn(request)},
      {"model_changed", with(request, "/model", "n")},
      {"tools_changed", with(request, "/tools/0/name", "b")},
      {"system_changed", with(request, "/system", "You do not.")},
      {"messages_changed", with(next_turn(request), "/messages/0/content", "Red?")},
      {"null", request},
  };
  for (const auto& c : kCases) {
    const json said = say(c.request);
    EXPECT_EQ(reason_in(said), c.expected) << c.request;
    if (reason_in(said).ends_with("_changed")) {
      EXPECT_GE(said["diagnostics"]["cache_miss_reason"]["cache_missed_input_tokens"], 0);
    }
  }
  EXPECT_EQ(reason_in(say(message_request("msg_unknown"))), "null") << "a hit: nothing is computed";
  json unknown = message_request("msg_unknown");
  unknown["system"] = "Another.";
  EXPECT_EQ(reason_in(say(unknown)), "previous_message_not_found");
}

TEST(DiagnosedPrompts, AnotherTenantsMessageIsNotFound) {
  Running running;
  const json first =
      json_answer(running.service->port(), "/v1/messages", message_request(nullptr), "a");
  const json other =
      json_answer(running.service->port(), "/v1/messages", message_request(first["id"]), "b");
  EXPECT_EQ(reason_in(other), "previous_message_not_found");
}

TEST(DiagnosedPrompts, AMessageFromTheCacheMayBeNamed) {
  Running running;
  const auto port = running.service->port();
  json_answer(port, "/v1/messages", message_request(nullptr));
  const json hit = json_answer(port, "/v1/messages", message_request(nullptr));
  json next = message_request(hit["id"]);
  next["system"] = "You do not.";
  EXPECT_EQ(reason_in(json_answer(port, "/v1/messages", next)), "system_changed");
}

TEST(DiagnosedPrompts, AStreamSaysItAtItsStart) {
  Running running;
  const auto port = running.service->port();
  json request = message_request(nullptr);
  request["stream"] = true;
  const auto start_of = [&](const json& body) {
    const Said said = ask(port, "POST", "/v1/messages", body.dump(), "Authorization: Bearer a\r\n");
    const std::size_t begin = said.body.find("data: ") + 6;
    return json::parse(said.body.substr(begin, said.body.find('\n', begin) - begin))["message"];
  };
  const json first = start_of(request);
  EXPECT_EQ(reason_in(first), "null");
  request["diagnostics"]["previous_message_id"] = first["id"];
  request["tools"][0]["name"] = "b";
  EXPECT_EQ(reason_in(start_of(request)), "tools_changed");
}

TEST(DiagnosedPrompts, AResponseSaysWhatChangedSinceTheOneThatItNames) {
  Running running;
  const auto say = [&](const json& body, const std::string& key = "a") {
    return json_answer(running.service->port(), "/v1/responses", body, key);
  };
  const json first = say(response_request(nullptr));
  EXPECT_FALSE(first.contains("prompt_cache_diagnostics"));
  json request = response_request(first["id"]);
  EXPECT_EQ(say(request)["prompt_cache_diagnostics"], json({{"type", "cache_hit"}}));
  request["instructions"] = "You do not.";
  const json changed = say(request)["prompt_cache_diagnostics"];
  EXPECT_EQ(changed["type"], "cache_miss");
  EXPECT_EQ(changed["reason"], "input_changed");
  EXPECT_EQ(say(request, "b")["prompt_cache_diagnostics"],
            json({{"type", "comparison_response_not_found"}}));
  json effort = response_request(first["id"]);
  effort["reasoning"] = {{"effort", "high"}};
  EXPECT_EQ(say(effort)["prompt_cache_diagnostics"]["reason"], "reasoning_effort_changed");
}

TEST(DiagnosedPrompts, WhereHitsAreHiddenAHitLooksAsAMissDoes) {
  // Of "a" and "b".
  Running running(
      "[answers]\ntiming_protection = \"all\"\n"
      "[[tenancy.tenants]]\nname = \"a\"\ngroup = \"g\"\nkey_sha256 = "
      "[\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"]\n"
      "[[tenancy.tenants]]\nname = \"b\"\ngroup = \"g\"\nkey_sha256 = "
      "[\"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\"]\n");
  const auto port = running.service->port();
  const json first = json_answer(port, "/v1/messages", message_request(nullptr), "a");
  json changed = with(message_request(first["id"]), "/system", "You do not.");
  EXPECT_EQ(reason_in(json_answer(port, "/v1/messages", changed, "a")), "system_changed");
  EXPECT_EQ(reason_in(json_answer(port, "/v1/messages", changed, "a")), "system_changed");
  // The other tenant's answers are all stored ones, which it must not learn.
  const json other = json_answer(port, "/v1/messages", message_request(nullptr), "b");
  EXPECT_EQ(running.model.asked(), 2);
  changed = with(message_request(other["id"]), "/system", "You do not.");
  EXPECT_EQ(reason_in(json_answer(port, "/v1/messages", changed, "b")), "system_changed");
}

TEST(DiagnosedPrompts, AnEngineOfThisProcessSaysItToo) {
  BuiltInGateway gateway;
  json request = message_request(nullptr);
  request.erase("tools");
  const auto say = [&] { return json::parse(gateway.post("/v1/messages", request.dump()).body); };
  const json first = say();
  EXPECT_EQ(reason_in(first), "null");
  request["diagnostics"]["previous_message_id"] = first["id"];
  request["system"] = "You do not.";
  EXPECT_EQ(reason_in(say()), "system_changed");
}

}  // namespace
}  // namespace afterimage
