// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/openai/testing/fed_recorder.h"
#include "gateway/openai/testing/samples.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using nlohmann::json;
using testing::AnswerSample;
using testing::sample_streams;
using testing::sse;

const ResponseStamp kStamp{.id = "chatcmpl-new", .created = 1'800'000'000};

Result<ApiRecord> recorded(std::string_view stream, ApiOperation operation = ApiOperation::kChat) {
  testing::FedRecorder recorder(operation);
  recorder.feed(stream);
  return recorder.finish();
}

std::string why_not(std::string_view stream, ApiOperation operation = ApiOperation::kChat) {
  const auto record = recorded(stream, operation);
  if (record.has_value()) return "recorded";
  EXPECT_EQ(record.error().code, ErrorCode::kInvalidArgument);
  return record.error().message;
}

/// The events of a stream as ApiRecord::events() writes it, ending with [DONE].
std::vector<json> events_in(std::string_view stream) {
  std::vector<json> events;
  while (stream.starts_with("data: {")) {
    const std::size_t end = stream.find("\n\n");
    events.push_back(json::parse(stream.substr(6, end - 6)));
    stream.remove_prefix(end + 2);
  }
  EXPECT_EQ(stream, "data: [DONE]\n\n");
  return events;
}

std::vector<json> stamped(std::vector<json> events) {
  for (json& event : events) {
    if (event.contains("id")) event["id"] = kStamp.id;
    if (event.contains("created")) event["created"] = kStamp.created;
  }
  return events;
}

json whole_of(const ApiRecord& record) { return json::parse(record.body(kStamp)); }

/// A stream of one choice with an event per delta, then finish reason and usage.
std::string stream_of(std::initializer_list<std::string_view> deltas,
                      std::string_view finish = "stop") {
  std::string text;
  const auto add = [&](const std::string& choices) {
    text += R"(data: {"id":"a","created":3,"model":"m","choices":)" + choices + "\n\n";
  };
  for (const std::string_view delta : deltas) {
    add(R"([{"index":0,"delta":)" + std::string(delta) + R"(,"finish_reason":null}]})");
  }
  add(R"([{"index":0,"delta":{},"finish_reason":")" + std::string(finish) + "\"}]}");
  add(R"([],"usage":{"prompt_tokens":1,"completion_tokens":2}})");
  return text + "data: [DONE]\n\n";
}

TEST(StreamRecorder, ReplaysTheSameEventsExceptIdAndTime) {
  for (const AnswerSample& sample : sample_streams()) {
    const auto record = recorded(sample.text, sample.operation);
    ASSERT_TRUE(record.has_value()) << sample.name << ": " << record.error().message;
    ASSERT_TRUE(record->can_be_streamed(true)) << sample.name;
    EXPECT_EQ(events_in(record->events(kStamp, true)), stamped(events_in(sample.text)))
        << sample.name;
  }
}

TEST(StreamRecorder, OmitsTheUsageEventUnlessRequested) {
  for (const AnswerSample& sample : sample_streams()) {
    const auto record = recorded(sample.text, sample.operation);
    std::vector<json> expected = stamped(events_in(sample.text));
    if (expected.back()["choices"].empty()) expected.pop_back();
    EXPECT_EQ(events_in(record.value().events(kStamp, false)), expected) << sample.name;
  }
}

TEST(StreamRecorder, DoesNotDependOnHowBytesAreSplit) {
  for (const AnswerSample& sample : sample_streams()) {
    const std::string expected = recorded(sample.text, sample.operation).value().serialize();
    for (std::size_t cut = 0; cut <= sample.text.size(); ++cut) {
      testing::FedRecorder recorder(sample.operation);
      recorder.feed(std::string_view(sample.text).substr(0, cut));
      recorder.feed(std::string_view(sample.text).substr(cut));
      ASSERT_EQ(recorder.finish().value().serialize(), expected) << sample.name << " at " << cut;
    }
    testing::FedRecorder recorder(sample.operation);
    for (const char& byte : sample.text) recorder.feed({&byte, 1});
    EXPECT_EQ(recorder.finish().value().serialize(), expected) << sample.name;
  }
}

TEST(StreamRecorder, RefusesEveryPrefixOfAStream) {
  constexpr std::size_t kLineEnds = 2;  // the line ends after [DONE] may be missing
  for (const AnswerSample& sample : sample_streams()) {
    for (std::size_t size = 0; size < sample.text.size(); ++size) {
      testing::FedRecorder recorder(sample.operation);
      recorder.feed(std::string_view(sample.text).substr(0, size));
      ASSERT_FALSE(recorder.done()) << sample.name << " at " << size;
      ASSERT_EQ(recorder.finish().has_value(), size + kLineEnds >= sample.text.size())
          << sample.name << " at " << size;
    }
  }
}

TEST(StreamRecorder, IgnoresLineEndsCommentsAndOtherFields) {
  const std::string plain = sample_streams().front().text;
  const std::string expected = recorded(plain).value().serialize();
  const auto with = [&](std::string_view from, std::string_view to, std::string text) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    return text;
  };
  const std::string crlf = with("\n", "\r\n", plain);
  for (std::size_t cut = 0; cut <= crlf.size(); ++cut) {
    testing::FedRecorder recorder(ApiOperation::kChat);
    recorder.feed(std::string_view(crlf).substr(0, cut));
    recorder.feed(std::string_view(crlf).substr(cut));
    ASSERT_EQ(recorder.finish().value().serialize(), expected) << cut;
  }
  EXPECT_EQ(recorded(with("\n", "\r", plain)).value().serialize(), expected);
  EXPECT_EQ(recorded("\xEF\xBB\xBF" + plain).value().serialize(), expected);
  EXPECT_EQ(recorded(with("data: ", "data:", plain)).value().serialize(), expected);
  EXPECT_EQ(
      recorded(with("data: {", ": ping\nid: 5\nretry: 9\nevent: message\nodd\ndata: {", plain))
          .value()
          .serialize(),
      expected);
  EXPECT_EQ(recorded(":\n\n" + plain + ": bye\n\n\n").value().serialize(), expected);
  // Data of several lines is one text and is replayed on one line.
  const auto lines = recorded(with(R"(,"choices")", "\ndata: ,\"choices\"", plain));
  const std::string lines_of_crlf =
      with("\n", "\r\n", with(R"(,"choices")", "\ndata: ,\"choices\"", plain));
  testing::FedRecorder recorder(ApiOperation::kChat);
  for (const char& byte : lines_of_crlf) recorder.feed({&byte, 1});
  EXPECT_EQ(recorder.finish().value().serialize(), lines.value().serialize());
  EXPECT_EQ(events_in(lines.value().events(kStamp, true)), stamped(events_in(plain)));
}

TEST(StreamRecorder, AcceptsAStreamWithoutItsLastLineEnd) {
  std::string stream = stream_of({R"({"role":"assistant","content":"x"})"});
  stream.resize(stream.size() - 2);
  testing::FedRecorder recorder(ApiOperation::kChat);
  recorder.feed(stream);
  EXPECT_FALSE(recorder.done());
  EXPECT_EQ(recorder.finish().value().text(), "x");
}

TEST(StreamRecorder, SaysWhyAStreamIsRefused) {
  const std::string good = stream_of({R"({"role":"assistant","content":"x"})"});
  const std::string undone = good.substr(0, good.find("data: [DONE]"));
  const struct {
    const char* name;
    std::string stream;
    const char* why;
  } kCases[] = {
      {"empty", "", "ended without [DONE]"},
      {"only done", "data: [DONE]\n\n", "without any choice"},
      {"no done", undone, "ended without [DONE]"},
      {"done twice", good + "data: [DONE]\n\n", "[DONE] twice"},
      {"done twice, the second unended", good + "data: [DONE]", "[DONE] twice"},
      {"data after done", good + "data: {}\n\n", "continues after [DONE]"},
      {"error", undone + "data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n",
       "out of memory"},
      {"event error", "event: error\n" + good, "event named 'error'"},
      {"two ids", undone + "data: {\"id\":\"b\",\"choices\":[]}\n\ndata: [DONE]\n\n",
       "another answer"},
      {"not UTF-8", undone + "data: {\"x\":\"\xFF\"}\n\ndata: [DONE]\n\n", "not UTF-8"},
      {"no JSON", undone + "data: hello\n\ndata: [DONE]\n\n", "not JSON"},
      {"no object", undone + "data: [1]\n\ndata: [DONE]\n\n", "not a JSON object"},
      {"empty data", undone + "data:\n\ndata: [DONE]\n\n", "not JSON"},
      {"no finish", sse({R"({"choices":[{"index":0,"delta":{"content":"x"}}]})"}),
       "before choice 0 was finished"},
      {"one of two without finish",
       sse({R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{}}]})"}),
       "before choice 1 was finished"},
      {"a key twice", stream_of({R"({"content":"x"},"finish_reason":"length","x":{})"}, "stop"),
       "twice"},
      {"delta is none", stream_of({"5"}), "delta that is not an object"},
      {"choice is none", sse({R"({"choices":[7]})"}), "an invalid choice"},
      {"index is huge", sse({R"({"choices":[{"index":4000000000,"delta":{}}]})"}),
       "an invalid choice"},
      {"choices are none", sse({R"({"choices":{}})"}), "no array of choices"},
  };
  for (const auto& c : kCases) {
    EXPECT_NE(why_not(c.stream).find(c.why), std::string::npos)
        << c.name << ": " << why_not(c.stream);
  }
  EXPECT_NE(why_not(good, ApiOperation::kEmbedding).find("embeddings"), std::string::npos);
}

TEST(StreamRecorder, RefusesContradictoryFinishReasons) {
  EXPECT_NE(why_not(sse({R"({"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})",
                         R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"}))
                .find("contradicts the finish reason"),
            std::string::npos);
}

TEST(StreamRecorder, SeesDoneInAStreamThatCannotBeRecorded) {
  testing::FedRecorder recorder(ApiOperation::kChat);
  recorder.feed("data: nonsense\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(recorder.done());
  EXPECT_FALSE(recorder.finish().has_value());
}

TEST(StreamRecorder, SeesTheEndOfAStreamAboveTheLimit) {
  const std::string good = stream_of({R"({"role":"assistant","content":"x"})"});
  const std::string delta = R"({"content":")" + std::string(500, 'x') + "\"}";
  // Too large in total, as a comment line and as one event, split in any way.
  const std::string comment = ":" + std::string(5'000, '!') + "data: [DONE]\n\n" + good;
  const std::string streams[] = {stream_of({delta, delta, delta}), comment,
                                 stream_of({R"({"content":")" + std::string(9'000, 'x') + "\"}"})};
  for (const std::string& stream : streams) {
    for (std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1'200}, stream.size()}) {
      testing::FedRecorder recorder(ApiOperation::kChat, 1_KiB);
      for (std::size_t at = 0; at < stream.size(); at += piece) {
        ASSERT_FALSE(recorder.done());
        recorder.feed(std::string_view(stream).substr(at, piece));
      }
      EXPECT_TRUE(recorder.done());
      const auto record = recorder.finish();
      // A comment that arrives in one piece is never buffered.
      if (&stream == &streams[1] && piece == stream.size()) continue;
      ASSERT_FALSE(record.has_value()) << piece;
      EXPECT_EQ(record.error().code, ErrorCode::kLimitExceeded);
    }
  }
}

TEST(StreamFold, AccumulatesLikeTheOfficialClients) {
  const auto samples = sample_streams();
  EXPECT_EQ(whole_of(recorded(samples[0].text).value()), json::parse(R"({
      "id":"chatcmpl-new","object":"chat.completion","created":1800000000,"model":"gpt-4o-mini",
      "service_tier":"default","system_fingerprint":"fp_06",
      "choices":[{"index":0,"message":{"role":"assistant","content":"Two \"cats\" 🐱","refusal":null},
                  "logprobs":null,"finish_reason":"stop"}],
      "usage":{"prompt_tokens":19,"completion_tokens":3,"total_tokens":22,
               "prompt_tokens_details":{"cached_tokens":0}}})"));
  EXPECT_EQ(whole_of(recorded(samples[1].text).value())["choices"], json::parse(R"([
      {"index":0,"message":{"role":"assistant","content":"A dog","reasoning_content":"Look again."},
       "logprobs":null,"finish_reason":"length","stop_reason":7}])"));
  EXPECT_EQ(whole_of(recorded(samples[2].text).value()), json::parse(R"({
      "id":"chatcmpl-new","object":"chat.completion","created":1800000000,"model":"gemma",
      "system_fingerprint":"b5","timings":{"prompt_ms":12.5},
      "choices":[{"index":0,"message":{"role":"assistant","content":"Jawohl"},"finish_reason":"stop"}],
      "usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}})"));
  EXPECT_EQ(whole_of(recorded(samples[3].text).value())["choices"][0]["message"],
            json::parse(R"({"role":"assistant","content":"It is red."})"));
  EXPECT_EQ(whole_of(recorded(samples[4].text).value())["choices"][0]["message"], json::parse(R"({
      "role":"assistant","content":null,"tool_calls":[
      {"id":"call_a","type":"function","function":{"name":"weather","arguments":"{\"at\":\"Bonn\"}"}},
      {"id":"call_b","type":"function","function":{"name":"clock","arguments":"{}"}}]})"));
  EXPECT_EQ(whole_of(recorded(samples[5].text).value())["choices"], json::parse(R"([
      {"index":0,"message":{"role":"assistant","content":"Aa"},"finish_reason":"stop",
       "logprobs":{"content":[{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[]},
                              {"token":"a","logprob":-0.001,"bytes":[97],"top_logprobs":[]}],"refusal":null}},
      {"index":1,"message":{"role":"assistant","content":"B"},"finish_reason":"content_filter",
       "logprobs":{"content":[{"token":"B","logprob":-0.25,"bytes":[66],"top_logprobs":[]}],"refusal":null}}])"));
  const auto completion = recorded(samples[6].text, ApiOperation::kCompletion);
  EXPECT_EQ(whole_of(completion.value()), json::parse(R"({
      "id":"chatcmpl-new","object":"text_completion","created":1800000000,"model":"m",
      "choices":[{"index":0,"text":"Once upon","finish_reason":"length",
        "logprobs":{"text_offset":[0,4],"token_logprobs":[-0.1,-0.2],"tokens":["Once"," upon"],
                    "top_logprobs":[null,null]}}],
      "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}})"));
}

TEST(StreamFold, ExtractsTheFacts) {
  const auto samples = sample_streams();
  const ApiRecord tools = recorded(samples[4].text).value();
  EXPECT_TRUE(tools.calls_tools());
  EXPECT_EQ(tools.finish_reason(), "tool_calls");
  EXPECT_EQ(tools.text(), "");
  const ApiRecord two = recorded(samples[5].text).value();
  EXPECT_EQ(two.finish_reason(), "content_filter");
  EXPECT_EQ(two.text(), "Aa");
  EXPECT_EQ(two.prompt_tokens(), TokenCount(5));
  EXPECT_EQ(two.output_tokens(), TokenCount(3));
  const ApiRecord completion = recorded(samples[6].text, ApiOperation::kCompletion).value();
  EXPECT_EQ(completion.text(), "Once upon");
  EXPECT_EQ(completion.model(), "m");
}

TEST(StreamFold, AccumulatesTheOldFunctionCall) {
  const auto record = recorded(stream_of(
      {R"({"role":"assistant","content":null})", R"({"function_call":{"name":"f","arguments":""}})",
       R"({"function_call":{"arguments":"{}"}})"},
      "function_call"));
  EXPECT_TRUE(record.value().calls_tools());
  EXPECT_EQ(whole_of(record.value())["choices"][0]["message"],
            json::parse(R"({"role":"assistant","content":null,
                            "function_call":{"name":"f","arguments":"{}"}})"));
}

TEST(StreamFold, StreamsWithUnknownDeltasHaveNoBody) {
  const std::string_view kDeltas[] = {
      R"({"content":"x","audio":{"id":"a","data":"AA=="}})",
      R"({"content":"x","mood":"gay"})",
      R"({"content":"x","count":1})",
      R"({"content":"x","list":[1]})",
      R"({"content":["x"]})",
      R"({"content":"x","tool_calls":[{"id":"c","function":{"name":"f"}}]})",
      R"({"content":"x","tool_calls":[{"index":0,"custom":{"input":"i"}}]})",
      R"({"content":"x","tool_calls":[{"index":0,"id":"a"},{"index":0,"id":"b"}]})",
      R"({"content":"x","tool_calls":[{"index":0,"function":{"name":"f"}},{"index":0,"function":{"name":"f"}}]})",
      R"({"content":"x"},"token_ids":[5])",
      R"({"content":"x"},"filter":{"hate":{"filtered":false}})",
      R"({"content":"x"},"logprobs":{"content":"?"})",
  };
  for (const std::string_view delta : kDeltas) {
    const std::string stream = stream_of({R"({"role":"assistant"})", delta});
    const auto record = recorded(stream);
    ASSERT_TRUE(record.has_value()) << delta << record.error().message;
    EXPECT_FALSE(record->has_body()) << delta;
    EXPECT_TRUE(record->can_be_streamed(true)) << delta;
    EXPECT_EQ(events_in(record->events(kStamp, true)), stamped(events_in(stream))) << delta;
    if (!delta.contains("[\"x\"]")) {
      EXPECT_EQ(record->text(), "x") << delta;
    }
  }
}

TEST(StreamFold, UnknownFieldsMustBeEqualInEveryEvent) {
  const auto stream = [](std::string_view first, std::string_view second) {
    return sse({R"({"choices":[{"index":0,"delta":{"content":"x"}}])" + std::string(first) + "}",
                R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{})" +
                    std::string(second) + "}"});
  };
  const auto same = recorded(stream(R"(,"provider":"p")", R"(,"provider":"p")"));
  EXPECT_EQ(whole_of(same.value())["provider"], "p");
  EXPECT_EQ(whole_of(recorded(stream("", R"(,"extra":{"a":[1]})")).value())["extra"]["a"][0], 1);
  EXPECT_EQ(whole_of(recorded(stream(R"(,"extra":null)", "")).value())["extra"], nullptr);
  EXPECT_FALSE(recorded(stream(R"(,"provider":"p")", R"(,"provider":"q")")).value().has_body());
}

TEST(StreamFold, AddsNoFields) {
  const auto record =
      recorded(sse({R"({"choices":[{"index":0,"delta":{"content":"x"}}]})",
                    R"({"choices":[{"index":0,"finish_reason":"stop"}],"usage":{}})"}));
  EXPECT_EQ(whole_of(record.value()), json::parse(R"({"choices":[
      {"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{}})"));
  EXPECT_FALSE(record.value().events(kStamp, true).contains(kStamp.id));
}

TEST(StreamFold, WithoutUsageThereIsNoBodyAndNoUsageEvent) {
  const auto record = recorded(
      sse({R"({"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]})"}));
  EXPECT_FALSE(record.value().has_body());
  EXPECT_FALSE(record.value().can_be_streamed(true));
  EXPECT_TRUE(record.value().can_be_streamed(false));
  EXPECT_EQ(record.value().text(), "x");
}

TEST(StreamFold, PreservesEmptyIdAndTimeOfALeadingEvent) {
  const std::string stream = sse(
      {R"({"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]})",
       R"({"choices":[{"index":0,"delta":{"content":"x","role":"assistant"},"finish_reason":"stop","content_filter_results":{}}],"created":5,"id":"c","model":"m","object":"chat.completion.chunk","usage":null})",
       R"({"choices":[],"created":5,"id":"c","model":"m","object":"chat.completion.chunk","usage":{"prompt_tokens":1}})"});
  const ApiRecord record = recorded(stream).value();
  const std::vector<json> events = events_in(record.events(kStamp, true));
  EXPECT_EQ(events[0], events_in(stream)[0]);
  EXPECT_EQ(events[1]["id"], kStamp.id);
  EXPECT_EQ(record.model(), "m");
  EXPECT_EQ(whole_of(record)["prompt_filter_results"][0]["prompt_index"], 0);
}

TEST(StreamRecorderProperty, DamagedStreamsAreRefusedOrRoundTrip) {
  const auto samples = sample_streams();
  testing::for_each_seed(3'000, [&](Rng& rng) {
    const AnswerSample& sample = samples[rng.below(samples.size())];
    std::string bytes = sample.text;
    for (std::uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(128));
    }
    const auto record = recorded(bytes, sample.operation);
    if (!record.has_value()) return;
    const std::string again = record->events(kStamp, false);
    (void)events_in(again);
    if (record->has_body()) (void)whole_of(*record);
    ASSERT_EQ(ApiRecord::parse(record->serialize()).value().events(kStamp, false), again);
  });
}

}  // namespace
}  // namespace afterimage
