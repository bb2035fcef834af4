// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/record_call_ids.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/openai/testing/fed_recorder.h"

namespace afterimage {
namespace {

constexpr const char* kRandom = "0123456789abcdef0123456789abcdef";

ApiRecord calling(const std::string& id, const std::string& arguments = "{}") {
  return ApiRecord::of_body(
             ApiOperation::kChat,
             R"({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,)"
             R"("message":{"role":"assistant","content":null,"tool_calls":[{"id": ")" +
                 id + R"(","type":"function","function":{"name":"f","arguments":")" + arguments +
                 R"("}}]},"finish_reason":"tool_calls"}]})")
      .value();
}
std::string fresh(const std::string& id, const std::vector<std::string>& taken) {
  const ApiRecord made = with_fresh_call_ids(calling(id), taken, [] { return kRandom; });
  const std::string body = made.body({.id = "x", .created = 1});
  const std::size_t begin = body.find(R"("id": ")") + 7;
  return body.substr(begin, body.find('"', begin) - begin);
}

TEST(FreshCallIds, ReplaceThoseThatTheConversationHas) {
  EXPECT_EQ(fresh("call_abcdefgh", {}), "call_abcdefgh");
  EXPECT_EQ(fresh("call_abcdefgh", {"call_ijklmnop"}), "call_abcdefgh");
  EXPECT_EQ(fresh("call_abcdefgh", {"call_ijklmnop", "call_abcdefgh"}), "call_01234567");
  EXPECT_EQ(fresh("D681PevKs", {"D681PevKs"}), "012345678") << "Mistral's are 9 letters";
  EXPECT_EQ(fresh("get_it_a", {"get_it_a"}), "01234567");
  const std::string long_id = "chatcmpl-tool-" + std::string(40, 'f');
  EXPECT_EQ(fresh(long_id, {long_id}),
            "chatcmpl-tool-" + std::string(kRandom) + std::string(kRandom).substr(0, 8));
}

TEST(FreshCallIds, ReplaceThemInStreamsToo) {
  testing::FedRecorder recorder(ApiOperation::kChat);
  const auto event = [](const std::string& delta, const std::string& finish) {
    return "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
           "\"choices\":[{\"index\":0,\"delta\":" +
           delta + ",\"finish_reason\":" + finish + "}]}\n\n";
  };
  recorder.feed(
      event(R"({"role":"assistant","tool_calls":[{"index":0,"id":"call_abcdefgh",)"
            R"("type":"function","function":{"name":"f","arguments":""}}]})",
            "null") +
      event(R"({"tool_calls":[{"index":0,"function":{"arguments":"\"call_abcdefgh\""}}]})",
            "null") +
      event("{}", R"("tool_calls")") + "data: [DONE]\n\n");
  const ApiRecord record = recorder.finish().value();
  const std::vector<std::string> taken{"call_abcdefgh"};
  const std::string events = with_fresh_call_ids(record, taken, [] {
                               return kRandom;
                             }).events({.id = "x", .created = 1}, false);
  EXPECT_NE(events.find(R"("id":"call_01234567")"), std::string::npos) << events;
  EXPECT_NE(events.find(R"(\"call_abcdefgh\")"), std::string::npos) << "what it says stays";
}

TEST(SaysCallId, AnywhereInTheAnswer) {
  const std::vector<std::string> ids{"call_ijklmnop"};
  EXPECT_FALSE(says_call_id(calling("call_abcdefgh"), ids));
  EXPECT_FALSE(says_call_id(calling("call_ijklmnop"), {}));
  EXPECT_TRUE(says_call_id(calling("call_abcdefgh", "see call_ijklmnop"), ids));
}

}  // namespace
}  // namespace afterimage
