// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/live_events.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

const EngineAnswer kAnswer{.text = "two words\n",
                           .finish_reason = "length",
                           .model = "m",
                           .prompt_tokens = TokenCount(7),
                           .output_tokens = TokenCount(2)};
const ResponseStamp kStamp{.id = "chatcmpl-1", .created = 5};

/// The record of a stream that was sent in `pieces`.
Result<ApiRecord> recorded(ApiOperation operation, const std::vector<std::string>& pieces,
                           bool include_usage) {
  LiveEvents live(operation, kStamp, "m");
  StreamRecorder recorder(operation);
  for (const std::string& piece : pieces) recorder.feed(live.text(piece));
  recorder.feed(live.end(kAnswer, include_usage));
  return recorder.finish();
}

TEST(LiveEvents, FoldToTheCompleteResponse) {
  for (const ApiOperation operation : {ApiOperation::kChat, ApiOperation::kCompletion}) {
    for (const auto& pieces : std::vector<std::vector<std::string>>{
             {"two words\n"}, {"two", " wor", "ds\n"}, {"t", "wo words", "\n"}}) {
      const auto record = recorded(operation, pieces, true);
      ASSERT_TRUE(record.has_value()) << to_string(record.error());
      EXPECT_EQ(record->body(kStamp), record_of(operation, kAnswer).body(kStamp));
      EXPECT_EQ(record->finish_reason(), "length");
    }
  }
}

// Byte for byte: a reader of the record cannot tell whether the events were parsed.
TEST(LiveEvents, RecordWhatARecorderReads) {
  for (const ApiOperation operation : {ApiOperation::kChat, ApiOperation::kCompletion}) {
    for (const auto& pieces : std::vector<std::vector<std::string>>{
             {}, {"two words\n"}, {"two", " \"wor\"", "d\x01s\n", "\xFF"}}) {
      EngineAnswer answer = kAnswer;
      answer.text.clear();
      for (const std::string& piece : pieces) answer.text += piece;
      LiveEvents live(operation, kStamp, "a \"model\"");
      StreamRecorder recorder(operation);
      for (const std::string& piece : pieces) recorder.feed(live.text(piece));
      recorder.feed(live.end(answer, true));
      const auto read = recorder.finish();
      ASSERT_TRUE(read.has_value()) << to_string(read.error());
      EXPECT_EQ(live.record().body(kStamp), read->body(kStamp));
      EXPECT_EQ(live.record().events(kStamp, true), read->events(kStamp, true));
      EXPECT_EQ(live.record().serialize(), read->serialize());
    }
  }
}

TEST(LiveEvents, SupportAnEmptyAnswer) {
  const auto record = recorded(ApiOperation::kChat, {}, true);
  ASSERT_TRUE(record.has_value()) << to_string(record.error());
  EXPECT_EQ(record->text(), "");
}

TEST(LiveEvents, SendUsageOnlyOnRequest) {
  LiveEvents live(ApiOperation::kChat, kStamp, "m");
  EXPECT_EQ(live.end(kAnswer, false).find("usage"), std::string::npos);
}

}  // namespace
}  // namespace afterimage
