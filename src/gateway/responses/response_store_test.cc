// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/response_store.h"

#include <gtest/gtest.h>

#include <string>

#include "afterimage/clock.h"

namespace afterimage {
namespace {

using std::chrono_literals::operator""s;

StoredResponse of_size(std::size_t bytes) {
  return {.response = std::string(bytes, 'x'), .items = "", .messages = ""};
}

TEST(ResponseStore, EachTenantSeesItsOwn) {
  ManualClock clock;
  ResponseStore store(1_MiB, 10s, clock);
  EXPECT_TRUE(store.put("a", "resp_1", of_size(5)));
  EXPECT_EQ((*store.find("a", "resp_1"))->response.size(), 5U);
  for (const auto& [tenant, id] : {std::pair("b", "resp_1"), std::pair("a", "resp_2")}) {
    EXPECT_EQ(store.find(tenant, id).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(store.erase(tenant, id).error().code, ErrorCode::kNotFound);
  }
  EXPECT_TRUE(store.erase("a", "resp_1").has_value());
  EXPECT_FALSE(store.find("a", "resp_1").has_value());
}

TEST(ResponseStore, ErasesWhatAnOperatorChooses) {
  ManualClock clock;
  ResponseStore store(1_MiB, 10s, clock);
  store.put("a", "1", of_size(5));
  store.put("a", "2", {.response = "", .items = "", .messages = R"([{"type":"image_url"}])"});
  store.put("b", "3", {.response = "", .items = R"([{"type":"input_audio"}])", .messages = ""});
  store.put("b", "4", of_size(5));
  EXPECT_EQ(store.erase_with_media(), 2U);
  EXPECT_TRUE(store.find("a", "1").has_value());
  EXPECT_FALSE(store.find("a", "2").has_value());
  EXPECT_FALSE(store.find("b", "3").has_value());
  EXPECT_EQ(store.erase_tenants([](std::string_view tenant) { return tenant == "b"; }), 1U);
  EXPECT_TRUE(store.find("a", "1").has_value());
  EXPECT_FALSE(store.find("b", "4").has_value());
}

TEST(ResponseStore, ExpiresAtItsEndAndNotBefore) {
  ManualClock clock;
  ResponseStore store(1_MiB, 10s, clock);
  store.put("a", "1", of_size(5));
  clock.advance(10s - std::chrono::nanoseconds(1));
  EXPECT_TRUE(store.find("a", "1").has_value());
  clock.advance(std::chrono::nanoseconds(1));
  EXPECT_FALSE(store.find("a", "1").has_value());
}

TEST(ResponseStore, TheOldestOfTheLargestTenantLeaves) {
  for (const auto& [small, large] : {std::pair("a", "b"), std::pair("b", "a")}) {
    ManualClock clock;
    ResponseStore store(10_KiB, 10s, clock);
    store.put(small, "1", of_size(100));
    for (int i = 0; i < 50; ++i) store.put(large, std::to_string(i), of_size(1000));
    EXPECT_TRUE(store.find(small, "1").has_value());
    EXPECT_FALSE(store.find(large, "0").has_value());
    EXPECT_TRUE(store.find(large, "49").has_value());
    EXPECT_TRUE(store.put(small, "2", of_size(1000)));
    EXPECT_TRUE(store.find(small, "1").has_value()) << "the other tenant holds more";
    EXPECT_FALSE(store.put(small, "3", of_size(11'000)));
    EXPECT_TRUE(store.find(small, "2").has_value()) << "what cannot be kept evicts nothing";
  }
  ManualClock clock;
  ResponseStore none(0_B, 10s, clock);
  EXPECT_FALSE(none.put("a", "1", of_size(1)));
  EXPECT_FALSE(none.is_enabled());
}

TEST(ResponseStore, AnIdThatIsStoredAgainIsReplaced) {
  ManualClock clock;
  ResponseStore store(10_KiB, 10s, clock);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(store.put("a", "1", of_size(4000)));
  EXPECT_TRUE(store.put("a", "2", of_size(4000)));
  EXPECT_TRUE(store.find("a", "1").has_value());
}

}  // namespace
}  // namespace afterimage
