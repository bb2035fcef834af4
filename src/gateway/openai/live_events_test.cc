// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/live_events.h"

#include <gtest/gtest.h>

#include "gateway/openai/testing/fed_recorder.h"
#include "gateway/openai/testing/record_of.h"

namespace afterimage {
namespace {

const Answer kAnswer{.text = "two words\n",
                     .finish_reason = "length",
                     .model = "m",
                     .prompt_tokens = TokenCount(7),
                     .output_tokens = TokenCount(2)};
const ResponseStamp kLiveStamp{.id = "chatcmpl-1", .created = 5};

/// The record of a stream that was sent in `pieces`.
Result<ApiRecord> recorded(ApiOperation operation, const std::vector<std::string>& pieces,
                           bool include_usage) {
  LiveEvents live(operation, kLiveStamp, "m");
  testing::FedRecorder recorder(operation);
  for (const std::string& piece : pieces) recorder.feed(live.add({.content = piece}).text());
  recorder.feed(live.end(kAnswer, TokenCount(0), include_usage));
  return recorder.finish();
}

TEST(LiveEvents, FoldToTheCompleteResponse) {
  for (const ApiOperation operation : {ApiOperation::kChat, ApiOperation::kCompletion}) {
    for (const auto& pieces : std::vector<std::vector<std::string>>{
             {"two words\n"}, {"two", " wor", "ds\n"}, {"t", "wo words", "\n"}}) {
      const auto record = recorded(operation, pieces, true);
      ASSERT_TRUE(record.has_value()) << to_string(record.error());
      EXPECT_EQ(record->body(kLiveStamp), testing::record_of(operation, kAnswer).body(kLiveStamp));
      EXPECT_EQ(record->finish_reason(), "length");
    }
  }
}

// Byte for byte: a reader of the record cannot tell whether the events were parsed.
TEST(LiveEvents, RecordWhatARecorderReads) {
  for (const ApiOperation operation : {ApiOperation::kChat, ApiOperation::kCompletion}) {
    for (const auto& pieces : std::vector<std::vector<std::string>>{
             {}, {"two words\n"}, {"two", " \"wor\"", "d\x01s\n", "\xFF"}}) {
      Answer answer = kAnswer;
      answer.text.clear();
      for (const std::string& piece : pieces) answer.text += piece;
      LiveEvents live(operation, kLiveStamp, "a \"model\"");
      testing::FedRecorder recorder(operation);
      for (const std::string& piece : pieces) recorder.feed(live.add({.content = piece}).text());
      recorder.feed(live.end(answer, TokenCount(0), true));
      const auto read = recorder.finish();
      ASSERT_TRUE(read.has_value()) << to_string(read.error());
      EXPECT_EQ(live.record().body(kLiveStamp), read->body(kLiveStamp));
      EXPECT_EQ(live.record().events(kLiveStamp, true), read->events(kLiveStamp, true));
      EXPECT_EQ(live.record().serialize(), read->serialize());
    }
  }
}

TokenLogprobs token_of(const std::string& bytes) {
  return {.chosen = {.token = TokenId(1), .bytes = bytes, .logprob = -0.5F},
          .top = {{.token = TokenId(1), .bytes = bytes, .logprob = -0.5F},
                  {.token = TokenId(2), .bytes = "\xFF", .logprob = -1.25F}}};
}

/// The record that parsing the events gives must be the one that was made without parsing.
void expect_the_record_of_a_reader(LiveEvents& live, const OpenEvents& events) {
  testing::FedRecorder recorder(ApiOperation::kChat);
  recorder.feed(events.text() + live.end(kAnswer, TokenCount(0), true));
  const auto read = recorder.finish();
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(live.record().body(kLiveStamp), read->body(kLiveStamp));
  EXPECT_EQ(live.record().serialize(), read->serialize());
}

TEST(LiveEvents, RecordChoicesReasoningAndCallsAsARecorderReads) {
  LiveEvents live(ApiOperation::kChat, kLiveStamp, "m");
  OpenEvents events = live.add({.content = "one"});
  events += live.finish(0, "stop");
  events += live.add({.choice = 1, .reasoning = "hm"});
  events += live.add({.choice = 1, .reasoning = "."});
  events += live.add({.choice = 1, .call = EngineDelta::Call{.id = "a", .name = "f"}});
  events += live.add({.choice = 1, .call = EngineDelta::Call{.arguments = "{\"x\":"}});
  events += live.add({.choice = 1, .call = EngineDelta::Call{.arguments = "1}"}});
  events += live.add({.choice = 1, .call = EngineDelta::Call{.index = 1, .id = "b", .name = "g"}});
  events += live.finish(1, "tool_calls");
  expect_the_record_of_a_reader(live, events);
  EXPECT_EQ(live.record().finish_reason(), "tool_calls");
  EXPECT_TRUE(live.record().calls_tools());
  EXPECT_NE(live.record().body(kLiveStamp).find(R"("content":null)"), std::string::npos);
}

TEST(LiveEvents, RecordLogProbabilitiesAsARecorderReads) {
  const std::vector<TokenLogprobs> two{token_of("tw"), token_of("o")};
  LiveEvents live(ApiOperation::kChat, kLiveStamp, "m");
  OpenEvents events = live.add({.content = "two", .logprobs = two});
  events += live.add({.content = " words", .logprobs = std::vector{token_of(" words")}});
  expect_the_record_of_a_reader(live, events);
  EXPECT_NE(live.record().body(kLiveStamp).find(R"("bytes":[255])"), std::string::npos);
}

TEST(LiveEvents, RecordLogProbabilitiesOfACompletionAsARecorderReads) {
  const std::vector<TokenLogprobs> two{token_of("tw"), token_of("o")};
  LiveEvents live(ApiOperation::kCompletion, kLiveStamp, "m");
  OpenEvents events = live.add({.content = "two", .logprobs = two});
  events += live.add({.content = "!", .logprobs = std::vector{token_of("!")}});
  testing::FedRecorder recorder(ApiOperation::kCompletion);
  recorder.feed(events.text() + live.end(kAnswer, TokenCount(0), true));
  const auto read = recorder.finish();
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(live.record().body(kLiveStamp), read->body(kLiveStamp));
  EXPECT_NE(read->body(kLiveStamp).find(R"("text_offset":[0,2,3])"), std::string::npos);
}

TEST(LiveEvents, SupportAnEmptyAnswer) {
  const auto record = recorded(ApiOperation::kChat, {}, true);
  ASSERT_TRUE(record.has_value()) << to_string(record.error());
  EXPECT_EQ(record->text(), "");
}

TEST(LiveEvents, TakeMembersInTheLastEventThatIsSent) {
  LiveEvents live(ApiOperation::kChat, kLiveStamp, "m");
  const OpenEvents both = live.add({.content = "one"});  // the role, then the text
  const std::string plain = both.text();
  const std::string more = both.text(",\"timings\":{}");
  EXPECT_EQ(more, plain.substr(0, plain.size() - 3) + ",\"timings\":{}}\n\n");
  EXPECT_EQ(OpenEvents().text(",\"timings\":{}"), "") << "nothing is sent to carry them";
}

TEST(LiveEvents, SendUsageOnlyOnRequest) {
  LiveEvents live(ApiOperation::kChat, kLiveStamp, "m");
  EXPECT_EQ(live.end(kAnswer, TokenCount(0), false).find("usage"), std::string::npos);
}

}  // namespace
}  // namespace afterimage
