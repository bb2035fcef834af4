// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/model_server/model_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace afterimage {
namespace {

/// A server that knows these paths, and what it was asked.
struct Server {
  std::map<std::string, std::string> bodies;
  std::vector<std::string> asked;

  Result<ModelServer> info() {
    return model_server([this](const std::string& path) -> Result<HttpAnswer> {
      asked.push_back(path);
      const auto known = bodies.find(path);
      if (known == bodies.end()) return HttpAnswer{.status = 404, .body = "{}"};
      return HttpAnswer{.status = 200, .body = known->second};
    });
  }
};

std::string owned_by(const std::string& owner) {
  return R"({"object":"list","data":[{"id":"m","object":"model","owned_by":")" + owner + R"("}]})";
}

TEST(ModelServer, AServersKindIsReadFromTheOwnerOfItsModels) {
  const struct {
    std::string body;
    ServerKind kind;
    bool takes_salt;
  } kCases[] = {
      {owned_by("vllm"), ServerKind::kVllm, true},
      {owned_by("sglang"), ServerKind::kSglang, true},
      {owned_by("llamacpp"), ServerKind::kLlamaServer, false},
      {owned_by("library"), ServerKind::kOllama, false},
      {owned_by("tensorrt_llm"), ServerKind::kTensorRtLlm, false},
      {owned_by("organization_owner"), ServerKind::kLmStudio, false},
      {owned_by("afterimage"), ServerKind::kAfterimage, false},
      {R"({"data":[{"id":"m","owned_by":"openai"},{"id":"n"}]})", ServerKind::kUnknown, false},
      {R"({"data":[]})", ServerKind::kUnknown, false},
  };
  for (const auto& c : kCases) {
    const auto list = read_model_list(c.body);
    ASSERT_TRUE(list.has_value()) << c.body;
    EXPECT_EQ(list->kind, c.kind) << c.body;
    EXPECT_EQ(takes_cache_salt(list->kind), c.takes_salt) << c.body;
  }
  for (const char* body : {R"({"models":[]})", "<html>", "", R"({"data":{}})"}) {
    EXPECT_FALSE(read_model_list(body).has_value()) << body;
  }
}

TEST(ModelServer, VllmSaysItsVersionAndWhetherItKeepsPrefixes) {
  Server server{
      .bodies = {{"/v1/models", R"({"data":[{"id":"Qwen/Qwen3-VL-2B-Instruct","owned_by":"vllm",
                             "max_model_len":32768},{"id":"lora","owned_by":"vllm"}]})"},
                 {"/version", R"({"version":"0.32.0"})"},
                 {"/metrics",
                  "# HELP vllm:cache_config_info …\nvllm:cache_config_info{block_size=\"16\","
                  "enable_prefix_caching=\"False\",engine=\"0\"} 1.0\n"}},
      .asked = {}};
  const auto info = server.info();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->kind, ServerKind::kVllm);
  EXPECT_EQ(info->version, "0.32.0");
  EXPECT_THAT(info->models, ::testing::ElementsAre("Qwen/Qwen3-VL-2B-Instruct", "lora"));
  EXPECT_EQ(info->context, 32768U);
  EXPECT_EQ(info->caches_prefixes, false);
  server.bodies["/metrics"] = R"(vllm:cache_config_info{enable_prefix_caching="True"} 1.0)";
  EXPECT_EQ(server.info()->caches_prefixes, true);
  server.bodies.erase("/metrics");
  EXPECT_EQ(server.info()->caches_prefixes, std::nullopt);
}

TEST(ModelServer, SglangIsAskedAtItsNewPathAndAtItsOldOne) {
  const std::string said = R"({"version":"0.5.6","disable_radix_cache":true})";
  for (const char* path : {"/server_info", "/get_server_info"}) {
    Server server{.bodies = {{"/v1/models", owned_by("sglang")}, {path, said}}, .asked = {}};
    const auto info = server.info();
    EXPECT_EQ(info->version, "0.5.6") << path;
    EXPECT_EQ(info->caches_prefixes, false) << path;
  }
}

TEST(ModelServer, LlamaServersContextIsWhatItTakesNotWhatItsModelWasTrainedFor) {
  Server server{
      .bodies = {{"/v1/models", R"({"data":[{"id":"m.gguf","owned_by":"llamacpp",
                             "meta":{"n_ctx_train":131072}}]})"},
                 {"/props",
                  R"({"build_info":"b7100-abc","default_generation_settings":{"n_ctx":4096}})"}},
      .asked = {}};
  EXPECT_EQ(server.info()->version, "b7100-abc");
  EXPECT_EQ(server.info()->context, 4096U);
  server.bodies.erase("/props");  // started with --no-slots, or behind something
  EXPECT_EQ(server.info()->context, 131072U);
}

TEST(ModelServer, OllamaWithoutAModelIsKnownByItsVersion) {
  Server server{.bodies = {{"/v1/models", R"({"object":"list","data":null})"},
                           {"/api/version", R"({"version":"0.13.1"})"}},
                .asked = {}};
  EXPECT_EQ(server.info()->kind, ServerKind::kOllama);
  EXPECT_EQ(server.info()->version, "0.13.1");
}

TEST(ModelServer, AServerThatIsNotKnownIsAskedThreeTimes) {
  Server server{.bodies = {{"/v1/models", owned_by("somebody")}}, .asked = {}};
  EXPECT_EQ(server.info()->kind, ServerKind::kUnknown);
  EXPECT_THAT(server.asked, ::testing::ElementsAre("/v1/models", "/api/version", "/props"));
}

TEST(ModelServer, WithoutAKeyNothingElseIsAsked) {
  std::size_t asked = 0;
  const auto info = model_server([&](const std::string& /*path*/) -> Result<HttpAnswer> {
    ++asked;
    return HttpAnswer{.status = 401, .body = "no"};
  });
  EXPECT_TRUE(info->needs_key);
  EXPECT_EQ(asked, 1U);
}

TEST(ModelServer, AnswersThatCannotBeUnderstoodAreNoError) {
  for (const char* body : {"", "<html>", "[1,2", R"({"version":7})"}) {
    Server server{
        .bodies = {{"/v1/models", owned_by("vllm")}, {"/version", body}, {"/metrics", body}},
        .asked = {}};
    const auto info = server.info();
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->kind, ServerKind::kVllm);
  }
}

TEST(ModelServer, NothingThatAnswersIsAnError) {
  const auto info = model_server([](const std::string& /*path*/) -> Result<HttpAnswer> {
    return fail(ErrorCode::kUnavailable, "connection refused");
  });
  ASSERT_FALSE(info.has_value());
  EXPECT_EQ(info.error().code, ErrorCode::kUnavailable);
}

TEST(ModelServer, TheAddressMayNameTheVersion) {
  for (const char* url : {"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"}) {
    EXPECT_EQ(server_address(url)->target, "") << url;
  }
  EXPECT_EQ(server_address("https://h/proxy/v1")->target, "/proxy");
}

}  // namespace
}  // namespace afterimage
