// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/record.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gateway/openai/testing/fed_recorder.h"
#include "gateway/openai/testing/record_of.h"
#include "gateway/openai/testing/samples.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using nlohmann::json;
using testing::AnswerSample;
using testing::sample_bodies;
using testing::sample_streams;

const ResponseStamp kNew{.id = "chatcmpl-new", .created = 1'800'000'000};

json stamped_body(std::string_view body) {
  json whole = json::parse(body);
  if (whole.contains("id")) whole["id"] = kNew.id;
  if (whole.contains("created")) whole["created"] = kNew.created;
  return whole;
}

ApiRecord refolded(const ApiRecord& record, ApiOperation operation) {
  testing::FedRecorder recorder(operation);
  recorder.feed(record.events(kNew, true));
  return recorder.finish().value();
}

TEST(ApiRecord, FormatsAnEngineAnswerLikeAServer) {
  const ApiRecord record =
      testing::record_of(ApiOperation::kChat, {.text = "A \"cat\"\n",
                                               .finish_reason = "stop",
                                               .model = "reference",
                                               .prompt_tokens = TokenCount(7),
                                               .output_tokens = TokenCount(3)});
  EXPECT_EQ(record.body({.id = "chatcmpl-9", .created = 1234}),
            R"({"id":"chatcmpl-9","object":"chat.completion","created":1234,"model":"reference",)"
            R"("choices":[{"index":0,"message":{"role":"assistant","content":"A \"cat\"\n",)"
            R"("refusal":null},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
  EXPECT_EQ(record.text(), "A \"cat\"\n");
  EXPECT_EQ(record.finish_reason(), "stop");
  EXPECT_EQ(record.model(), "reference");
  EXPECT_EQ(record.prompt_tokens(), TokenCount(7));
  EXPECT_EQ(record.output_tokens(), TokenCount(3));
  EXPECT_FALSE(record.calls_tools());
  const std::string head =
      R"(data: {"id":"i","object":"chat.completion.chunk","created":5,"model":"reference",)";
  EXPECT_EQ(
      record.events({.id = "i", .created = 5}, true),
      head +
          R"("choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":null},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"("choices":[{"index":0,"delta":{"content":"A \"cat\"\n"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"("choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})"
          "\n\n" +
          head +
          R"("choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,)"
          R"("prompt_tokens_details":{"cached_tokens":0}}})"
          "\n\ndata: [DONE]\n\n");
}

TEST(ApiRecord, FormatsAnEngineCompletionLikeAServer) {
  const ApiRecord record = testing::record_of(
      ApiOperation::kCompletion, {.text = "x", .finish_reason = "length", .model = "reference"});
  EXPECT_EQ(json::parse(record.body(kNew))["choices"], json::parse(R"([
      {"index":0,"text":"x","logprobs":null,"finish_reason":"length"}])"));
  EXPECT_EQ(record.text(), "x");
  EXPECT_EQ(record.finish_reason(), "length");
}

TEST(ApiRecord, ReplacesEngineBytesThatAreNotUtf8) {
  const ApiRecord record = testing::record_of(
      ApiOperation::kChat, {.text = "a\xFFz", .finish_reason = "stop", .model = "m"});
  EXPECT_EQ(record.text(), "a\xEF\xBF\xBDz");
}

TEST(ApiRecord, ReturnsTheSameBodyExceptIdAndTime) {
  for (const AnswerSample& sample : sample_bodies()) {
    const auto record = ApiRecord::of_body(sample.operation, sample.text);
    ASSERT_TRUE(record.has_value()) << sample.name << ": " << record.error().message;
    ASSERT_TRUE(record->has_body());
    EXPECT_EQ(json::parse(record->body(kNew)), stamped_body(sample.text)) << sample.name;
  }
}

std::string in_pieces(RecordText text, std::size_t most) {
  std::string all;
  for (std::string piece = text.next(most); !piece.empty(); piece = text.next(most)) all += piece;
  EXPECT_EQ(all.size(), text.size());
  return all;
}

TEST(ApiRecord, PiecesOfAnySizeAreTheWhole) {
  for (const std::size_t most : {1UL, 7UL, 64UL, 1000UL}) {
    for (const AnswerSample& sample : sample_bodies()) {
      const auto record = ApiRecord::of_body(sample.operation, sample.text).value();
      EXPECT_EQ(in_pieces(record.body_text(kNew), most), record.body(kNew)) << sample.name;
      if (!record.can_be_streamed(false)) continue;
      EXPECT_EQ(in_pieces(record.events_text(kNew, false), most), record.events(kNew, false));
    }
    for (const AnswerSample& sample : sample_streams()) {
      testing::FedRecorder recorder(sample.operation);
      recorder.feed(sample.text);
      const ApiRecord record = recorder.finish().value();
      for (const bool usage : {false, true}) {
        if (!record.can_be_streamed(usage)) continue;
        EXPECT_EQ(in_pieces(record.events_text(kNew, usage), most), record.events(kNew, usage));
      }
    }
  }
}

TEST(SharedRecords, LargeRecordsWithTheSameBytesAreOneWhileTheyAreUsed) {
  const auto record_with = [](std::size_t size, char letter) {
    return testing::record_of(
        ApiOperation::kChat,
        {.text = std::string(size, letter), .finish_reason = "stop", .model = "m"});
  };
  SharedRecords records;
  const ApiRecord first = records.share(record_with(100'000, 'a'));
  EXPECT_EQ(records.share(record_with(100'000, 'a')).identity(), first.identity());
  EXPECT_NE(records.share(record_with(100'000, 'b')).identity(), first.identity());
  const ApiRecord small = records.share(record_with(10, 'a'));
  EXPECT_NE(records.share(record_with(10, 'a')).identity(), small.identity());
}

TEST(SharedRecords, ATextIsReadOnceWhileItsRecordIsUsed) {
  const auto text = std::make_shared<const std::string>(
      testing::record_of(ApiOperation::kChat, {.text = "so", .finish_reason = "stop", .model = "m"})
          .serialize());
  SharedRecords records;
  std::optional<ApiRecord> first = records.parse(text).value();
  EXPECT_EQ(text.use_count(), 2) << "and is not copied";
  EXPECT_EQ(records.parse(text)->identity(), first->identity());
  EXPECT_EQ(text.use_count(), 2);
  const auto copy = std::make_shared<const std::string>(*text);
  EXPECT_NE(records.parse(copy)->identity(), first->identity());
  first.reset();
  EXPECT_EQ(text.use_count(), 1) << "no record holds it any more";
  EXPECT_EQ(records.parse(text)->text(), "so");
  const auto damaged = std::make_shared<const std::string>("no record");
  EXPECT_EQ(records.parse(damaged).error().code, ErrorCode::kCorruption);
}

TEST(ApiRecord, PreservesTheBytesOfABody) {
  const std::string body =
      R"({ "choices" : [{"message":{"content":"A\u00e9"}, "finish_reason":"stop","p":1.50}],)"
      "\n"
      R"( "created":12,"id": "old"})";
  const auto record = ApiRecord::of_body(ApiOperation::kChat, body);
  EXPECT_EQ(record.value().body({.id = "n\"w", .created = 7}),
            R"({ "choices" : [{"message":{"content":"A\u00e9"}, "finish_reason":"stop","p":1.50}],)"
            "\n"
            R"( "created":7,"id": "n\"w"})");
}

TEST(ApiRecord, StreamOfABodyFoldsToTheSameBody) {
  for (const AnswerSample& sample : sample_bodies()) {
    const ApiRecord record = ApiRecord::of_body(sample.operation, sample.text).value();
    if (sample.operation == ApiOperation::kEmbedding) {
      EXPECT_FALSE(record.can_be_streamed(false));
      EXPECT_FALSE(record.can_be_streamed(true));
      continue;
    }
    ASSERT_TRUE(record.can_be_streamed(true)) << sample.name;
    const ApiRecord again = refolded(record, sample.operation);
    json expected = stamped_body(sample.text);
    for (json& choice : expected["choices"]) {
      // A stream does not carry an empty list.
      if (choice.contains("message")) choice["message"].erase("annotations");
    }
    EXPECT_EQ(json::parse(again.body(kNew)), expected) << sample.name;
    EXPECT_EQ(again.finish_reason(), record.finish_reason());
    EXPECT_EQ(again.text(), record.text());
    EXPECT_EQ(again.calls_tools(), record.calls_tools());
  }
}

TEST(ApiRecord, BodyOfAStreamSurvivesAnotherRoundTrip) {
  for (const AnswerSample& sample : sample_streams()) {
    testing::FedRecorder recorder(sample.operation);
    recorder.feed(sample.text);
    const std::string body = recorder.finish().value().body(kNew);
    const ApiRecord record = ApiRecord::of_body(sample.operation, body).value();
    EXPECT_EQ(json::parse(refolded(record, sample.operation).body(kNew)), json::parse(body))
        << sample.name;
  }
}

TEST(ApiRecord, DoesNotStreamBodiesWithUnknownParts) {
  for (const char* field : {R"("audio":{"id":"a"})", R"("annotations":[{"type":"url_citation"}])",
                            R"("content":[{"type":"text"}])", R"("tool_calls":["f"])"}) {
    const std::string body = std::string(R"({"choices":[{"message":{)") + field +
                             R"(},"finish_reason":"stop"}],"usage":{}})";
    const ApiRecord record = ApiRecord::of_body(ApiOperation::kChat, body).value();
    EXPECT_FALSE(record.can_be_streamed(false)) << field;
    EXPECT_FALSE(record.can_be_streamed(true)) << field;
    EXPECT_EQ(record.body(kNew), body);
  }
}

TEST(ApiRecord, CannotStreamUsageThatTheBodyLacks) {
  const ApiRecord record =
      ApiRecord::of_body(ApiOperation::kChat,
                         R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]})")
          .value();
  EXPECT_TRUE(record.can_be_streamed(false));
  EXPECT_FALSE(record.can_be_streamed(true));
}

TEST(ApiRecord, FinishReasonIsTheFirstOneOtherThanStop) {
  const auto reason = [](std::string_view first, std::string_view second) {
    return ApiRecord::of_body(ApiOperation::kCompletion,
                              R"({"choices":[{"text":"a","finish_reason":")" + std::string(first) +
                                  R"("},{"text":"b","finish_reason":")" + std::string(second) +
                                  R"("}]})")
        .value()
        .finish_reason();
  };
  EXPECT_EQ(reason("stop", "stop"), "stop");
  EXPECT_EQ(reason("stop", "length"), "length");
  EXPECT_EQ(reason("content_filter", "length"), "content_filter");
  EXPECT_EQ(reason("length", "stop"), "length");
}

TEST(ApiRecord, SaysWhyABodyIsRefused) {
  const struct {
    ApiOperation operation;
    const char* body;
    const char* why;
  } kCases[] = {
      {ApiOperation::kChat, "", "not JSON"},
      {ApiOperation::kChat, "[]", "not a JSON object"},
      {ApiOperation::kChat, R"({"error":{"message":"x"}})", "reports an error"},
      {ApiOperation::kChat, R"({"choices":[]})", "no choices"},
      {ApiOperation::kChat, R"({"choices":[{"message":{"content":"x"}}]})", "no finish reason"},
      {ApiOperation::kChat, R"({"choices":[{"message":{"content":"x"},"finish_reason":null}]})",
       "no finish reason"},
      {ApiOperation::kChat, R"({"choices":[{"text":"x","finish_reason":"stop"}]})", "no message"},
      {ApiOperation::kCompletion, R"({"choices":[{"message":{},"finish_reason":"stop"}]})",
       "no text"},
      {ApiOperation::kEmbedding, R"({"data":[]})", "no data"},
      {ApiOperation::kEmbedding, R"({"data":[{"embedding":[1,}]})", "not JSON"},
  };
  for (const auto& c : kCases) {
    const auto record = ApiRecord::of_body(c.operation, c.body);
    ASSERT_FALSE(record.has_value()) << c.body;
    EXPECT_EQ(record.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(record.error().message.find(c.why), std::string::npos) << record.error().message;
  }
}

std::vector<std::string> sample_records() {
  std::vector<std::string> records;
  for (const AnswerSample& sample : sample_bodies()) {
    records.push_back(ApiRecord::of_body(sample.operation, sample.text).value().serialize());
  }
  for (const AnswerSample& sample : sample_streams()) {
    testing::FedRecorder recorder(sample.operation);
    recorder.feed(sample.text);
    records.push_back(recorder.finish().value().serialize());
  }
  return records;
}

TEST(ApiRecordFormat, MatchesTheSpecification) {
  testing::FedRecorder recorder(ApiOperation::kChat);
  recorder.feed(
      "data: {\"id\":\"a\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"created\":4}\n\n"
      "data: [DONE]\n\n");
  using namespace std::string_view_literals;
  std::string expected(
      "\x01\x00\x02\x00"                      // version, chat, a stream without usage
      "\x00\x00\x00\x00\x00\x00\x00\x00"      // tokens
      "\x02\x00\x00\x00\x02\x00\x00\x00"      // frames, events
      "\x04\x00\x00\x00\x00\x00\x00\x00"      // finish reason, model
      "\x02\x00\x00\x00\x00\x00\x00\x00"sv);  // text, no whole
  expected += "stophi";
  expected += "\x1C\x03{\"id\":\x01,\"choices\":[{\"delta\":}]}";
  expected += "\x15\x26{\"choices\":[{\"delta\":";
  expected += ",\"finish_reason\":\"stop\"}],\"created\":\x02}";
  expected += "\x00\x10{\"content\":\"hi\"}"sv;
  expected += "\x02\x02{}";
  EXPECT_EQ(recorder.finish().value().serialize(), expected);
}

TEST(ApiRecordFormat, RoundTrips) {
  for (const std::string& bytes : sample_records()) {
    const ApiRecord record = ApiRecord::parse(bytes).value();
    EXPECT_EQ(record.serialize(), bytes);
  }
}

TEST(ApiRecordFormat, RefusesTruncatedAndTrailingBytes) {
  for (const std::string& bytes : sample_records()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto record = ApiRecord::parse(std::string_view(bytes).substr(0, size));
      ASSERT_FALSE(record.has_value()) << size;
      ASSERT_EQ(record.error().code, ErrorCode::kCorruption);
    }
    EXPECT_FALSE(ApiRecord::parse(bytes + '\0').has_value());
  }
}

TEST(ApiRecordFormat, AWholeHasNoEventsUntilTheyAreAskedFor) {
  const ApiRecord record =
      ApiRecord::of_body(
          ApiOperation::kChat,
          R"({"id":"a","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{}})")
          .value();
  using namespace std::string_view_literals;
  std::string expected(
      "\x01\x00\x07\x00"                      // version, chat, whole or stream with usage
      "\x00\x00\x00\x00\x00\x00\x00\x00"      // tokens
      "\x00\x00\x00\x00\x00\x00\x00\x00"      // frames, events
      "\x04\x00\x00\x00\x00\x00\x00\x00"      // finish reason, model
      "\x00\x00\x00\x00\x53\x00\x00\x00"sv);  // text, whole
  expected += "stop";
  expected += "{\"id\":\x01,\"choices\":[{\"message\":{\"content\":\"hi\"},";
  expected += "\"finish_reason\":\"stop\"}],\"usage\":{}}";
  EXPECT_EQ(record.serialize(), expected);
  std::vector<std::string> events(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& made : events) {
      threads.emplace_back([&] { made = record.events({.id = "b", .created = 7}, true); });
    }
  }
  const std::string said =
      R"(data: {"id":"b","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]})"
      "\n\n"
      R"(data: {"id":"b","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]})"
      "\n\n"
      R"(data: {"id":"b","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
      "\n\n"
      R"(data: {"id":"b","choices":[],"usage":{}})"
      "\n\ndata: [DONE]\n\n";
  for (const std::string& made : events) EXPECT_EQ(made, said);
  EXPECT_EQ(record.serialize(), expected);
}

TEST(ApiRecordFormat, AWholeThatIsDamagedCannotBeStreamed) {
  std::string bytes =
      ApiRecord::of_body(ApiOperation::kChat,
                         R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]})")
          .value()
          .serialize();
  EXPECT_TRUE(ApiRecord::parse(bytes).value().can_be_streamed(false));
  EXPECT_FALSE(ApiRecord::parse(bytes).value().can_be_streamed(true)) << "it has no usage";
  for (const std::string_view part : {"choices", "message", "finish_reason", "content"}) {
    std::string damaged = bytes;
    damaged.replace(bytes.find(part), 1, "\"");
    const ApiRecord record = ApiRecord::parse(damaged).value();
    EXPECT_FALSE(record.can_be_streamed(false)) << part;
  }
}

TEST(ApiRecordFormat, ChecksHeaderFields) {
  const std::string bytes =
      testing::record_of(ApiOperation::kChat, {.text = "hi", .finish_reason = "stop"}).serialize();
  const auto with = [&](std::size_t at, char value) {
    std::string changed = bytes;
    changed[at] = value;
    return ApiRecord::parse(changed).has_value();
  };
  EXPECT_TRUE(with(0, 1));
  EXPECT_FALSE(with(0, 0));
  EXPECT_FALSE(with(0, 2));
  EXPECT_TRUE(with(1, 1));
  EXPECT_FALSE(with(1, 3));
  EXPECT_TRUE(with(2, 7));
  EXPECT_FALSE(with(2, 16)) << "an unknown flag";
  EXPECT_FALSE(with(2, 1)) << "events without the stream flag";
  EXPECT_FALSE(with(2, 4)) << "usage without a stream";
  EXPECT_FALSE(with(3, 1));
  std::string longer = bytes;  // its last varint is 0, not in its shortest form
  ASSERT_EQ(longer.back(), '\0');
  longer.back() = '\x80';
  EXPECT_FALSE(ApiRecord::parse(longer + '\0').has_value());
  std::string endless = bytes;
  endless.replace(12, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_FALSE(ApiRecord::parse(endless).has_value()) << "more frames than bytes";
}

TEST(ApiRecordFormatProperty, DamagedBytesAreRefusedOrFormAUsableRecord) {
  const std::vector<std::string> records = sample_records();
  testing::for_each_seed(20'000, [&](Rng& rng) {
    std::string bytes = records[rng.below(records.size())];
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      bytes[rng.below(std::min<std::size_t>(bytes.size(), rng.chance(0.5) ? 64 : bytes.size()))] =
          static_cast<char>(rng.below(256));
    }
    const auto record = ApiRecord::parse(bytes);
    if (!record.has_value()) return;
    ASSERT_EQ(record->serialize(), bytes);
    if (record->has_body()) (void)record->body(kNew);
    for (const bool usage : {false, true}) {
      if (record->can_be_streamed(usage)) {
        ASSERT_TRUE(record->events(kNew, usage).ends_with("data: [DONE]\n\n"));
      }
    }
    (void)record->text();
  });
}

TEST(ApiError, HasTheFormOfTheApi) {
  EXPECT_EQ(json::parse(api_error("no \"key\"", "invalid_request_error", "invalid_api_key")),
            json::parse(R"({"error":{"message":"no \"key\"","type":"invalid_request_error",
                            "param":null,"code":"invalid_api_key"}})"));
  EXPECT_EQ(json::parse(api_error("bytes \xFF", "t", ""))["error"]["code"], nullptr);
}

TEST(ApiRecord, KeepsAnAnswerAsItCame) {
  using enum ApiOperation;
  const std::string bytes("ID3\x01\x02\0sound", 11);
  const auto speech = ApiRecord::of_response(kSpeech, "audio/mpeg", bytes);
  ASSERT_TRUE(speech.has_value());
  for (const ApiRecord& record : {*speech, ApiRecord::parse(speech->serialize()).value()}) {
    EXPECT_EQ(record.body(kNew), bytes) << "no byte stands for an id";
    EXPECT_EQ(record.content_type(), "audio/mpeg");
    EXPECT_EQ(record.finish_reason(), "stop");
    EXPECT_EQ(record.text(), "");
    EXPECT_FALSE(record.can_be_streamed(false));
    RecordText text = record.body_text(kNew);
    EXPECT_EQ(text.size(), bytes.size());
    EXPECT_EQ(text.next(4) + text.next(100), bytes);
  }
  const auto rerank = ApiRecord::of_response(
      kRerank, "Application/JSON; charset=utf-8",
      R"({"model": "m", "id":"r", "usage":{"input_tokens":5,"output_tokens":2}})");
  EXPECT_EQ(rerank->prompt_tokens(), TokenCount(5));
  EXPECT_EQ(rerank->output_tokens(), TokenCount(2));
  EXPECT_EQ(rerank->model(), "m");
  EXPECT_EQ(json::parse(rerank->body(kNew))["id"], "r");
}

TEST(ApiRecord, KeepsNoErrorsAsAnswers) {
  const auto kept = [](const char* type, const char* bytes) {
    return ApiRecord::of_response(ApiOperation::kTranscription, type, bytes).has_value();
  };
  EXPECT_TRUE(kept("application/json", R"([{"index":0}])"));
  EXPECT_TRUE(kept("text/plain", "{"));
  EXPECT_FALSE(kept("application/json", R"({"error":{"message":"no"}})"));
  EXPECT_FALSE(kept("application/json", R"({"object":"error"})"));
  EXPECT_FALSE(kept("application/json", R"({"text":)"));
  EXPECT_FALSE(kept("application/json", "5"));
  EXPECT_FALSE(kept("text/plain", ""));
  EXPECT_FALSE(kept("", "text"));
}

// Regression: the address was served again when nothing was there any more.
TEST(ApiRecord, KeepsNoAddressesOfPictures) {
  using enum ApiOperation;
  const auto kept = [](ApiOperation operation, const char* data) {
    const std::string body =
        std::string(R"({"created":1,"data":[{"b64_json":"AAAA"},)") + data + "]}";
    return ApiRecord::of_response(operation, "application/json", body).has_value();
  };
  for (const ApiOperation operation : {kImage, kImageEdit}) {
    EXPECT_FALSE(kept(operation, R"({"url":"https://x.org/a.png?sig=b"})"));
    EXPECT_TRUE(kept(operation, R"({"url":"data:image/png;base64,AAAA"})"));
    EXPECT_TRUE(kept(operation, R"({"b64_json":"AAAA","revised_prompt":"https://x.org"})"));
  }
  EXPECT_TRUE(kept(kScore, R"({"url":"https://x.org"})"));
}

TEST(ApiRecord, RefusesDamagedRecordsOfWhatIsKeptAsItCame) {
  const std::string good =
      ApiRecord::of_response(ApiOperation::kSpeech, "audio/mpeg", "sound").value().serialize();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ApiRecord::parse(good.substr(0, size)).has_value()) << size;
  }
  std::string operation = good;
  operation[1] = static_cast<char>(kApiOperations);
  EXPECT_FALSE(ApiRecord::parse(operation).has_value());
  std::string flags = good;
  flags[2] = 9;  // calls tools
  EXPECT_FALSE(ApiRecord::parse(flags).has_value());
}

}  // namespace
}  // namespace afterimage
