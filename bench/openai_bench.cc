// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// What does the gateway spend on parsing a request and on replaying an answer?
#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/random.h"
#include "foundation/text/data_url.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"
#include "gateway/openai/testing/fed_recorder.h"
#include "gateway/openai/testing/record_of.h"

namespace afterimage {
namespace {

constexpr std::size_t kBodies = 64;  // varied: no perfect branch prediction
const ResponseStamp kStamp{.id = "chatcmpl-0123456789abcdef01234567", .created = 1'800'000'000};

std::string words(Rng& rng, std::size_t size) {
  constexpr std::string_view kLetters = "etaoin shrdlu cmfwyp";
  std::string text;
  while (text.size() < size) text.push_back(kLetters[rng.below(kLetters.size())]);
  return text;
}

/// 500 bytes: a system prompt, a question, sampling.
std::vector<std::string> small_requests() {
  Rng rng(1);
  std::vector<std::string> bodies;
  for (std::size_t i = 0; i < kBodies; ++i) {
    bodies.push_back(
        R"({"model":"gpt-4o-mini","messages":[{"role":"system","content":")" + words(rng, 150) +
        R"("},{"role":"user","content":")" + words(rng, 200) +
        R"("}],"temperature":0,"max_tokens":256,"stream":true,"stream_options":{"include_usage":true}})");
  }
  return bodies;
}

/// 1 MiB: an image as a data URL, and a question.
std::string request_with_picture() {
  Rng rng(2);
  std::vector<std::byte> picture(768 << 10U);
  for (std::byte& byte : picture) byte = static_cast<std::byte>(rng.below(256));
  return R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
         encode_base64(picture) +
         R"("}},{"type":"text","text":"What is this?"}]}],"temperature":0})";
}

/// An answer of that many bytes of text.
std::string whole_answer(std::size_t size) {
  Rng rng(3);
  return testing::record_of(ApiOperation::kChat, {.text = words(rng, size),
                                                  .finish_reason = "stop",
                                                  .model = "gpt-4o-mini",
                                                  .prompt_tokens = TokenCount(100),
                                                  .output_tokens = TokenCount(100)})
      .body(kStamp);
}

/// The events of an answer of that many tokens.
std::string stream_of(std::int64_t tokens) {
  Rng rng(4);
  const std::string head =
      R"(data: {"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06","choices":[{"index":0,"delta":)";
  const std::string tail = "}]}\n\n";
  std::string text = head + R"({"role":"assistant","content":""},"finish_reason":null)" + tail;
  for (std::int64_t i = 0; i < tokens; ++i) {
    text += head + R"({"content":")" + words(rng, 4) + R"("},"finish_reason":null)" + tail;
  }
  return text + head + R"({},"finish_reason":"stop")" + tail + "data: [DONE]\n\n";
}

void BM_ReadSmallRequest(benchmark::State& state) {
  const std::vector<std::string> bodies = small_requests();
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(read_api_request(ApiOperation::kChat, bodies[next++ % kBodies]));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bodies[0].size()));
}
BENCHMARK(BM_ReadSmallRequest);

void BM_ReadRequestWithPicture(benchmark::State& state) {
  const std::string body = request_with_picture();
  for (auto _ : state) {
    benchmark::DoNotOptimize(read_api_request(ApiOperation::kChat, body));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
}
BENCHMARK(BM_ReadRequestWithPicture)->Unit(benchmark::kMicrosecond);

/// The limits of reading: every byte is validated as UTF-8 once, or only copied.
void BM_LimitValidateUtf8(benchmark::State& state) {
  const std::string body = request_with_picture();
  for (auto _ : state) benchmark::DoNotOptimize(simdjson::validate_utf8(body));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
}
BENCHMARK(BM_LimitValidateUtf8)->Unit(benchmark::kMicrosecond);

void BM_LimitCopy(benchmark::State& state) {
  const std::string body = request_with_picture();
  std::string to(body.size(), '\0');
  for (auto _ : state) {
    std::memcpy(to.data(), body.data(), body.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
}
BENCHMARK(BM_LimitCopy)->Unit(benchmark::kMicrosecond);

/// The peer: simdjson's DOM of the same body, without decoding base64.
void BM_PeerSimdjsonDocument(benchmark::State& state) {
  const simdjson::padded_string body(request_with_picture());
  simdjson::dom::parser parser;
  for (auto _ : state) benchmark::DoNotOptimize(parser.parse(body).error());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
}
BENCHMARK(BM_PeerSimdjsonDocument)->Unit(benchmark::kMicrosecond);

void BM_DecodeBase64(benchmark::State& state) {
  const std::string text = encode_base64(std::vector<std::byte>(768 << 10U, std::byte{0x5A}));
  for (auto _ : state) benchmark::DoNotOptimize(decode_base64(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(BM_DecodeBase64)->Unit(benchmark::kMicrosecond);

/// A hit: from cached bytes to the response body.
void BM_ParseAndBody(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::string bytes =
      ApiRecord::of_body(ApiOperation::kChat, whole_answer(size)).value().serialize();
  for (auto _ : state) {
    const auto record = ApiRecord::parse(bytes);
    benchmark::DoNotOptimize(record->body(kStamp));
  }
}
BENCHMARK(BM_ParseAndBody)->Arg(500)->Arg(50'000);

void BM_ParseAndEvents(benchmark::State& state) {
  testing::FedRecorder recorder(ApiOperation::kChat);
  recorder.feed(stream_of(state.range(0)));
  const std::string bytes = recorder.finish().value().serialize();
  std::size_t said = 0;
  for (auto _ : state) {
    const auto record = ApiRecord::parse(bytes);
    const std::string events = record->events(kStamp, false);
    said = events.size();
    benchmark::DoNotOptimize(events);
  }
  state.counters["record_bytes"] = static_cast<double>(bytes.size());
  state.counters["stream_bytes"] = static_cast<double>(said);
}
BENCHMARK(BM_ParseAndEvents)->Arg(20)->Arg(500);

/// A miss: an event that passes through.
void BM_RecordEvent(benchmark::State& state) {
  const std::string stream = stream_of(500);
  for (auto _ : state) {
    testing::FedRecorder recorder(ApiOperation::kChat);
    recorder.feed(stream);
    AFI_CHECK(recorder.done());
  }
  state.SetItemsProcessed(state.iterations() * 502);
}
BENCHMARK(BM_RecordEvent)->Unit(benchmark::kMicrosecond);

void BM_RecordWhole(benchmark::State& state) {
  const std::string body = whole_answer(500);
  for (auto _ : state) benchmark::DoNotOptimize(ApiRecord::of_body(ApiOperation::kChat, body));
}
BENCHMARK(BM_RecordWhole);

}  // namespace
}  // namespace afterimage
