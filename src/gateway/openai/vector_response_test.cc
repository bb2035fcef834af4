// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/vector_response.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace afterimage {
namespace {

using nlohmann::json;
using Usage = VectorResponse::Usage;

constexpr const char* kTwo =
    R"({"object":"list","usage":{"prompt_tokens":7,"total_tokens":7}, "data":[)"
    R"({"object":"embedding","index":1,"embedding":"AAA="},)"
    R"({"embedding":[0.10, 2e-7],"index":0,"x":1}],"model":"m"})";

TEST(VectorResponse, TakesVectorsApartAsTheServerWroteThem) {
  const auto response = VectorResponse::read(kTwo, 2);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->vector(0, 5), R"({"embedding":[0.10, 2e-7],"index":5,"x":1})");
  EXPECT_EQ(response->vector(1, 0), R"({"object":"embedding","index":0,"embedding":"AAA="})");
}

TEST(VectorResponse, PutsOthersInTheirPlace) {
  const auto response = VectorResponse::read(kTwo, 2);
  const std::vector<std::string> one{response->vector(1, 0)};
  EXPECT_EQ(response->with(one, Usage::kAsCounted),
            R"({"object":"list","usage":{"prompt_tokens":7,"total_tokens":7}, "data":[)"
            R"({"object":"embedding","index":0,"embedding":"AAA="}],"model":"m"})");
  const json uncounted = json::parse(response->with(one, Usage::kNothing));
  EXPECT_EQ(uncounted["usage"]["prompt_tokens"], 0);
  EXPECT_EQ(uncounted["data"].size(), 1U);
  EXPECT_EQ(uncounted["model"], "m");
}

TEST(VectorResponse, WithoutIndexesTheOrderCounts) {
  const auto response =
      VectorResponse::read(R"({"data":[{"embedding":[1]},{"embedding":[2]}]})", 2);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->vector(1, 7), R"({"embedding":[2]})");
  EXPECT_EQ(response->with({}, Usage::kNothing), R"({"data":[]})");
}

TEST(VectorResponse, AFrameIsReadWithoutItsVectors) {
  const auto response = VectorResponse::read(kTwo, 2);
  const auto frame = VectorResponse::read_frame(response->frame());
  ASSERT_TRUE(frame.has_value()) << frame.error().message;
  const std::vector<std::string> both{response->vector(0, 0), response->vector(1, 1)};
  EXPECT_EQ(json::parse(frame->with(both, Usage::kAsCounted))["usage"]["total_tokens"], 7);
  EXPECT_FALSE(VectorResponse::read(response->frame(), 1).has_value());
}

TEST(VectorResponse, RefusesOtherForms) {
  for (const char* body :
       {"", "[]", "{}", R"({"data":[]})", R"({"data":{"embedding":[1]}})",
        R"({"data":[{"embedding":[1],"index":0}]})",
        R"({"data":[{"embedding":[1],"index":0},{"embedding":[1],"index":0}]})",
        R"({"data":[{"embedding":[1],"index":0},{"embedding":[1],"index":2}]})",
        R"({"data":[{"embedding":[1],"index":0},{"embedding":[1],"index":-1}]})",
        R"({"data":[{"embedding":[1]},{"embedding":null}]})", R"({"data":[{"embedding":[1]},[1]]})",
        R"({"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]})"}) {
    EXPECT_FALSE(VectorResponse::read(body, 2).has_value()) << body;
  }
  EXPECT_FALSE(VectorResponse::read(R"({"data":[]})", 0).has_value());
}

}  // namespace
}  // namespace afterimage
