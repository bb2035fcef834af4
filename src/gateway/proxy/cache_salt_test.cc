// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/cache_salt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gateway/proxy/salt_support.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::json;
using testing::Model;
using testing::Running;
using testing::Said;

std::string spliced(const std::string& body, std::string_view salt) {
  const auto splice = cache_salt_splice(body, salt);
  if (!splice.has_value()) return "none";
  return body.substr(0, splice->begin) + splice->text + body.substr(splice->end);
}

TEST(CacheSalt, IsSplicedIntoABodyAndNothingElseChanges) {
  const struct {
    const char* name;
    std::string body;
    std::string expected;
  } kCases[] = {
      {"no salt", R"({"model": "m","n":1.0 })", R"({"model": "m","n":1.0 ,"cache_salt":"s"})"},
      {"blanks behind", "{\"a\":1}\n ", "{\"a\":1,\"cache_salt\":\"s\"}\n "},
      {"no member", "{ }", R"({ "cache_salt":"s"})"},
      {"the client's", R"({"cache_salt": "mine", "a":1})", R"({"cache_salt": "s", "a":1})"},
      {"null", R"({"a":1,"cache_salt":null})", R"({"a":1,"cache_salt":"s"})"},
      {"of another object", R"({"a":{"cache_salt":"x"}})",
       R"({"a":{"cache_salt":"x"},"cache_salt":"s"})"},
      {"said in a text", R"({"a":"\"cache_salt\":1"})",
       R"({"a":"\"cache_salt\":1","cache_salt":"s"})"},
      {"twice, so that it cannot be read", R"({"cache_salt":"a","cache_salt":"b"})",
       R"({"cache_salt":"a","cache_salt":"b","cache_salt":"s"})"},
      {"no object", "[1]", "none"},
      {"nothing", "", "none"},
  };
  for (const auto& c : kCases) EXPECT_EQ(spliced(c.body, "s"), c.expected) << c.name;
}

TEST(CacheSalt, TenantsAndTheirClientsSaltsStayApart) {
  const Secret root{std::byte{1}};
  const Secret other_root{std::byte{2}};
  std::set<std::string> salts;
  for (const char* tenant : {"a", "b"}) {
    for (const char* clients : {"", "\"x\"", "\"y\"", "7"}) {
      const std::string salt = derived_cache_salt(root, TenantId{tenant}, clients);
      EXPECT_THAT(salt, ::testing::MatchesRegex("[0-9a-f]{32}"));
      EXPECT_EQ(derived_cache_salt(root, TenantId{tenant}, clients), salt);
      salts.insert(salt);
      salts.insert(derived_cache_salt(other_root, TenantId{tenant}, clients));
    }
  }
  EXPECT_EQ(salts.size(), 16U);
}

/// A model server that shares what it has computed of a prompt between requests with the same salt,
/// and says in the usage how much it reused.
class SaltedModel {
 public:
  explicit SaltedModel(Model& model) {
    model.answers([this](const HttpRequest& request, const Responder& responder) {
      responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = answer(request)});
    });
  }
  /// Of the bodies that came, in order; "-": none.
  std::vector<std::string> salts() {
    const std::scoped_lock lock(mutex_);
    return salts_;
  }
  std::vector<std::string> bodies() {
    const std::scoped_lock lock(mutex_);
    return bodies_;
  }

 private:
  std::string answer(const HttpRequest& request) {
    const json body = json::parse(*request.body);
    const std::string salt = body.value("cache_salt", "-");
    const std::string prompt =
        (body.contains("messages") ? body["messages"] : body["prompt"]).dump();
    const std::scoped_lock lock(mutex_);
    salts_.push_back(salt);
    bodies_.push_back(*request.body);
    const bool cached = !computed_.insert({salt, prompt}).second;
    json said = json::parse(Model::said("answer"));
    if (body.contains("prompt"))
      said["choices"][0] = {{"text", "answer"}, {"index", 0}, {"finish_reason", "stop"}};
    said["usage"]["prompt_tokens_details"] = {{"cached_tokens", cached ? 7 : 0}};
    return said.dump();
  }

  std::mutex mutex_;
  std::vector<std::string> salts_;
  std::vector<std::string> bodies_;
  std::set<std::pair<std::string, std::string>> computed_;
};

constexpr const char* kSaltsAlways = "cache_salt = true\n";
constexpr const char* kSaltedChat = "/v1/chat/completions";
const std::string kSaltedBody =
    R"({"model":"m","temperature":0,"max_tokens":9,"messages":[{"role":"user","content":"Q"}]})";

/// The server's cached_tokens; the gateway's own cache is passed by.
int cached_tokens(Running& running, const std::string& key, const std::string& body = kSaltedBody,
                  const std::string& path = kSaltedChat) {
  const std::string headers = (key.empty() ? "" : "Authorization: Bearer " + key + "\r\n") +
                              "Cache-Control: no-store, no-cache\r\n";
  const Said said = running.post(path, body, headers);
  EXPECT_EQ(said.status, 200U) << said.body;
  const json usage = json::parse(said.body)["usage"];
  if (usage.contains("cache_read_input_tokens")) return usage["cache_read_input_tokens"];
  const char* details =
      usage.contains("input_tokens_details") ? "input_tokens_details" : "prompt_tokens_details";
  return usage[details]["cached_tokens"];
}

std::string with_member(const std::string& body, const std::string& member) {
  return body.substr(0, body.size() - 1) + "," + member + "}";
}

TEST(CacheSalt, AnotherTenantsPromptIsComputedAnew) {
  Running running(kSaltsAlways);
  SaltedModel model(running.model);
  const std::string message =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"M"}]})";
  const struct {
    const char* name;
    const char* path;
    std::string body;
  } kCases[] = {
      {"chat", kSaltedChat, kSaltedBody},
      {"completion", "/v1/completions", R"({"model":"m","prompt":"Q"})"},
      {"responses", "/v1/responses", R"({"model":"m","input":"R"})"},
      {"messages", "/v1/messages", message},
      {"with the client's salt", "/v1/messages",
       with_member(message, R"("cache_salt":"tenant-7")")},
      {"unreadable", kSaltedChat,
       R"({"model":"m","n":1,"n":1,"messages":[{"role":"user","content":"U"}]})"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(cached_tokens(running, "a", c.body, c.path), 0);
    EXPECT_EQ(cached_tokens(running, "a", c.body, c.path), 7);
    EXPECT_EQ(cached_tokens(running, "b", c.body, c.path), 0) << "another tenant's";
    EXPECT_EQ(cached_tokens(running, "b", c.body, c.path), 7);
  }
}

TEST(CacheSalt, OnlyOneMemberOfTheBodyChanges) {
  Running running(kSaltsAlways);
  SaltedModel model(running.model);
  const std::string body =
      R"({ "model":"m", "temperature":0.0,"messages":[{"role":"user","content":"\u0051"}] })";
  cached_tokens(running, "a", body);
  cached_tokens(running, "a", with_member(kSaltedBody, R"("cache_salt":"mine","seed":1)"));
  const auto bodies = model.bodies();
  const auto salts = model.salts();
  EXPECT_EQ(bodies[0], body.substr(0, body.size() - 1) + R"(,"cache_salt":")" + salts[0] + "\"}");
  EXPECT_EQ(bodies[1], with_member(kSaltedBody, R"("cache_salt":")" + salts[1] + R"(","seed":1)"));
}

TEST(CacheSalt, SaltsOfOneTenantsClientsStayApart) {
  Running running(kSaltsAlways);
  SaltedModel model(running.model);
  const std::string mine = with_member(kSaltedBody, R"("cache_salt":"mine")");
  EXPECT_EQ(cached_tokens(running, "a", kSaltedBody), 0);
  EXPECT_EQ(cached_tokens(running, "a", mine), 0);
  EXPECT_EQ(cached_tokens(running, "a", mine), 7);
  // Who learns another tenant's salt gets nowhere with it.
  const std::string stolen =
      with_member(kSaltedBody, R"("cache_salt":")" + model.salts()[0] + "\"");
  EXPECT_EQ(cached_tokens(running, "b", stolen), 0);
  EXPECT_EQ(cached_tokens(running, "", stolen), 0);
}

TEST(CacheSalt, WithoutKeysThereIsOneTenantAndNoSalt) {
  Running running(kSaltsAlways);
  SaltedModel model(running.model);
  cached_tokens(running, "");
  EXPECT_EQ(model.salts().back(), "-");
  EXPECT_EQ(model.bodies().back(), kSaltedBody);
  running.post(kSaltedChat, kSaltedBody, "X-Afterimage-Namespace: mine\r\n");
  EXPECT_NE(model.salts().back(), "-") << "a namespace shares nothing with others";
  running.post(kSaltedChat, with_member(kSaltedBody, R"("cache_salt":"mine","seed":1)"));
  EXPECT_NE(model.salts().back(), "mine");
}

TEST(CacheSalt, IsOnWhereTheServerIsKnownToTakeIt) {
  for (const char* owner : {"vllm", "sglang"}) {
    Running running;
    running.model.is_owned_by(owner);
    SaltedModel model(running.model);
    // The server is asked what it is while the first request is on its way.
    for (int i = 0; i < 1000 && (i == 0 || model.salts().back() == "-"); ++i)
      cached_tokens(running, "a");
    EXPECT_NE(model.salts().back(), "-") << owner;
  }
}

TEST(CacheSalt, OtherServersGetTheBodyAsItIs) {
  for (const auto& [owner, setting] :
       std::map<std::string, std::string>{{"llamacpp", ""}, {"vllm", "cache_salt = false\n"}}) {
    Running running(setting);
    running.model.is_owned_by(owner);
    SaltedModel model(running.model);
    for (int i = 0; i < 20; ++i)
      cached_tokens(running, "a", with_member(kSaltedBody, R"("cache_salt":"mine")"));
    EXPECT_EQ(model.salts(), std::vector<std::string>(20, "mine")) << owner;
  }
}

}  // namespace
}  // namespace afterimage
