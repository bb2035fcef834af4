// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/endpoint_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "foundation/platform/testing/memory_files.h"
#include "lab/datasets/picture_samples.h"
#include "testing/local_server.h"

namespace afterimage {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::LocalServer;

EndpointEngine engine_at(const LocalServer& server, const ImageRoots& images,
                         const std::string& path = "/v1") {
  return EndpointEngine({.url = parse_url(server.url(path)).value(),
                         .model = "m",
                         .key = "k",
                         .max_tokens = 7,
                         .deadline = std::chrono::seconds(5)},
                        images);
}

std::vector<Sample> about_a_picture() {
  Rng rng(1);
  const auto bytes =
      std::make_shared<const std::vector<std::byte>>(draw_scene(make_scene(2, rng)).value());
  return {{.dataset_id = "a", .image_id = "p", .question = "What is it?", .image = bytes}};
}

TEST(EndpointEngine, AsksWithThePictureAndReadsTheAnswer) {
  std::string head;
  json asked;
  const LocalServer server([&](const std::string& h, const std::string& body) {
    head = h;
    asked = json::parse(body);
    return http_answer(
        R"({"model":"real","choices":[{"message":{"content":"a cat"},"finish_reason":"length"}]})");
  });
  testing::MemoryFiles files;
  const ImageRoots images({}, files);
  std::vector<Sample> samples = about_a_picture();
  attach_images(samples, images);
  for (const char* path : {"/v1", "/v1/", "/", "/v1/chat/completions"}) {
    const Answer answer = engine_at(server, images, path).answer(samples[0], "What is it?").value();
    EXPECT_EQ(answer.text, "a cat");
    EXPECT_EQ(answer.finish_reason, "length");
    EXPECT_EQ(answer.model, "real");
    EXPECT_THAT(head, HasSubstr("POST /v1/chat/completions "));
  }
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer k"));
  EXPECT_EQ(asked["model"], "m");
  EXPECT_EQ(asked["max_tokens"], 7);
  const json& parts = asked["messages"][0]["content"];
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_THAT(parts[0]["image_url"]["url"].get<std::string>(), HasSubstr("base64,iVBORw0KGgo"));
  EXPECT_EQ(parts[1]["text"], "What is it?");
}

TEST(EndpointEngine, SaysWhatIsWrong) {
  std::string reply = http_answer("no such model", 404);
  const LocalServer server([&](const std::string&, const std::string&) { return reply; });
  testing::MemoryFiles files;
  const ImageRoots images({}, files);
  EndpointEngine engine = engine_at(server, images);
  const auto refused = engine.answer({}, "?");
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("404: no such model"));
  for (const char* body : {"[]", "{}", R"({"choices":[]})", R"({"choices":[1]})", "not json",
                           R"({"choices":[{"message":{"content":null}}]})"}) {
    reply = http_answer(body);
    EXPECT_EQ(engine.answer({}, "?").error().code, ErrorCode::kCorruption) << body;
  }
}

}  // namespace
}  // namespace afterimage
