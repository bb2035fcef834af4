// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/load/answer_timing.h"
#include "bench/load/load_report.h"
#include "bench/load/load_trace.h"
#include "bench/load/load_traffic.h"
#include "bench/load/pictures.h"
#include "bench/load/request_bodies.h"
#include "foundation/media/decode.h"
#include "foundation/text/data_url.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using json = nlohmann::json;

constexpr std::string_view kHeader =
    R"({"afterimage_load":1,"seed":7,"system_words":10,"question_words":5,"answer_words":6})"
    "\n";

Result<LoadTrace> parse_lines(std::string_view lines) {
  const std::string text = std::string(kHeader) + std::string(lines);
  return parse_load_trace(std::as_bytes(std::span(text)));
}

TEST(LoadTrace, ReadsWhatTheDocumentationSays) {
  const auto trace = parse_lines(
      R"({"at_ms":0,"session":4,"system":2,"text":1,"max_tokens":16,"pictures":[{"id":3,"side":64}]}
{"at_ms":12.5,"session":5,"text":0,"max_tokens":8}
)");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->seed, 7U);
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->requests[0].system, 2U);
  EXPECT_EQ(trace->requests[0].pictures, std::vector<LoadPicture>({{.id = 3, .side = 64}}));
  EXPECT_EQ(trace->requests[1].at, 12'500us);
}

TEST(LoadTrace, RejectsTheWholeForOneBadLine) {
  const struct {
    const char* line;
    const char* says;
  } kCases[] = {
      {R"({"at_ms":0,"session":0,"text":0,"max_tokens":1,"size":1})",
       "line 2: unknown field \"size\""},
      {R"({"at_ms":-1,"session":0,"text":0,"max_tokens":1})", "\"at_ms\" is not a time"},
      {R"({"at_ms":"1","session":0,"text":0,"max_tokens":1})", "\"at_ms\" is not a time"},
      {R"({"at_ms":0,"session":0,"text":0,"max_tokens":0})",
       "\"max_tokens\" is not a whole number between 1"},
      {R"({"at_ms":0,"session":0,"max_tokens":1})", "\"text\" is missing"},
      {R"({"at_ms":0,"session":4294967296,"text":0,"max_tokens":1})", "\"session\" is not a whole"},
      {R"({"at_ms":0,"session":0,"text":0,"max_tokens":1,"pictures":[{"id":1,"side":7}]})",
       "\"side\" is not"},
      {R"({"at_ms":0,"session":0,"text":0,"max_tokens":1,"pictures":{}})", "not a list"},
      {R"([])", "not a JSON object"},
      {R"({)", "line 2: "},
      {"", "there are no requests"},
      {R"({"at_ms":5,"session":0,"text":0,"max_tokens":1}
{"at_ms":4,"session":0,"text":0,"max_tokens":1})",
       "line 3: \"at_ms\" is earlier"},
      {R"({"at_ms":5,"session":0,"system":1,"text":0,"max_tokens":1}
{"at_ms":6,"session":0,"text":0,"max_tokens":1})",
       "session 0 has the system prompts 1 and 0"},
      {R"({"at_ms":0,"session":0,"text":0,"max_tokens":1,"pictures":[{"id":1,"side":8},{"id":1,"side":9}]})",
       "picture 1 has the sides 8 and 9"},
  };
  for (const auto& c : kCases) {
    const auto trace = parse_lines(c.line);
    ASSERT_FALSE(trace.has_value()) << c.line;
    EXPECT_THAT(trace.error().message, HasSubstr(c.says));
  }
  const std::string other = R"({"afterimage_load":2})";
  EXPECT_EQ(parse_load_trace(std::as_bytes(std::span(other))).error().code,
            ErrorCode::kUnsupported);
}

LoadTraffic random_traffic(Rng& rng) {
  LoadTraffic traffic;
  traffic.requests = static_cast<std::uint32_t>(1 + rng.below(400));
  traffic.images = static_cast<std::uint32_t>(1 + rng.below(50));
  traffic.skew = 2 * rng.uniform();
  traffic.new_images = rng.uniform();
  traffic.images_per_task = static_cast<std::uint32_t>(rng.below(4));
  traffic.agents = static_cast<std::uint32_t>(1 + rng.below(4));
  traffic.turns = 1 + 4 * rng.uniform();
  traffic.repeats = rng.chance(0.5) ? rng.uniform() : 0;
  traffic.systems = static_cast<std::uint32_t>(rng.below(4));
  traffic.rate = 0.1 + 100 * rng.uniform();
  traffic.seed = rng.next();
  return traffic;
}

TEST(LoadTrafficProperty, GivesTheSameValidTraceForASeed) {
  testing::for_each_seed(50, [](Rng& rng) {
    const LoadTraffic traffic = random_traffic(rng);
    const LoadTrace trace = generate_load(traffic).value();
    EXPECT_EQ(trace.requests.size(), traffic.requests);
    EXPECT_EQ(trace, generate_load(traffic).value());
    const std::string text = to_text(trace);
    const auto read = parse_load_trace(std::as_bytes(std::span(text)));
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, trace);
    LoadTraffic other = traffic;
    ++other.seed;
    EXPECT_NE(to_text(generate_load(other).value()), text);
  });
}

TEST(LoadTraffic, ArrivesAtItsRate) {
  LoadTraffic traffic{.requests = 20'000, .rate = 50};
  const LoadContent content = count_content(generate_load(traffic).value());
  EXPECT_NEAR(std::chrono::duration<double>(content.length).count(), 400, 12);
}

TEST(LoadTraffic, SharesPicturesAsItIsTold) {
  LoadTraffic traffic{.requests = 5'000, .images = 100, .new_images = 0};
  const LoadContent popular = count_content(generate_load(traffic).value());
  EXPECT_LE(popular.pictures, 100U);
  EXPECT_GT(popular.shared, 80U);
  traffic.new_images = 1;
  traffic.agents = 1;
  const LoadContent fresh = count_content(generate_load(traffic).value());
  EXPECT_EQ(fresh.shared, 0U);
  EXPECT_EQ(fresh.pictures, fresh.sessions);
  traffic.agents = 3;
  traffic.turns = 1;
  const LoadContent tasks = count_content(generate_load(traffic).value());
  EXPECT_NEAR(static_cast<double>(tasks.sessions) / static_cast<double>(tasks.pictures), 3, 0.2);
}

TEST(LoadTraffic, RepeatsSessionsWordForWord) {
  LoadTraffic traffic{.requests = 2'000, .turns = 1, .repeats = 0.5};
  std::map<std::uint32_t, std::vector<LoadPicture>> seen;
  std::size_t repeated = 0;
  const LoadTrace trace = generate_load(traffic).value();
  for (const LoadRequest& request : trace.requests) {
    const auto [at, added] = seen.try_emplace(request.text, request.pictures);
    EXPECT_EQ(at->second, request.pictures);
    repeated += added ? 0 : 1;
  }
  EXPECT_NEAR(static_cast<double>(repeated), 1'000, 100);
}

TEST(LoadTraffic, RefusesWhatMakesNoSense) {
  for (const LoadTraffic& bad :
       {LoadTraffic{.requests = 0}, LoadTraffic{.rate = 0}, LoadTraffic{.images = 0},
        LoadTraffic{.skew = -1}, LoadTraffic{.new_images = 1.1}, LoadTraffic{.agents = 0},
        LoadTraffic{.turns = 0.5}, LoadTraffic{.repeats = -0.1}, LoadTraffic{.least_side = 4},
        LoadTraffic{.least_side = 99, .most_side = 98}, LoadTraffic{.question_words = 0},
        LoadTraffic{.rate = std::nan("")}}) {
    const auto trace = generate_load(bad);
    ASSERT_FALSE(trace.has_value());
    EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(GeneratedPicture, IsAPngOfItsSize) {
  for (const std::uint32_t side : {8U, 31U, 256U, 300U}) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(generated_picture(5, side));
    EXPECT_EQ(*bytes, generated_picture(5, side));
    EXPECT_NE(*bytes, generated_picture(6, side));
    const auto image = decode_image(MediaItem{.files = {bytes}});
    ASSERT_TRUE(image.has_value()) << image.error().message;
    EXPECT_EQ(image->width, side);
    EXPECT_EQ(image->height, side);
  }
}

TEST(RequestBodies, ShowEarlierTurnsAndTheirPictures) {
  const auto trace = parse_lines(
      R"({"at_ms":0,"session":0,"system":1,"text":0,"max_tokens":16,"pictures":[{"id":3,"side":16}]}
{"at_ms":1,"session":1,"text":5,"max_tokens":16,"pictures":[{"id":3,"side":16}]}
{"at_ms":2,"session":0,"system":1,"text":1,"max_tokens":16}
)");
  RequestBodies bodies(*trace, {.model = "m\"", .stream = true});
  const json first = json::parse(*bodies.next());
  const json second = json::parse(*bodies.next());
  const json third = json::parse(*bodies.next());
  EXPECT_EQ(bodies.next(), nullptr);
  EXPECT_EQ(first["model"], "m\"");
  EXPECT_EQ(first["stream"], true);
  ASSERT_EQ(first["messages"].size(), 2U);
  EXPECT_EQ(first["messages"][0]["role"], "system");
  EXPECT_EQ(second["messages"].size(), 1U);
  // The same picture is the same bytes in every session.
  EXPECT_EQ(first["messages"][1]["content"][0], second["messages"][0]["content"][0]);
  ASSERT_EQ(third["messages"].size(), 4U);
  EXPECT_EQ(third["messages"][1], first["messages"][1]);
  EXPECT_EQ(third["messages"][2]["role"], "assistant");
  EXPECT_NE(third["messages"][3], first["messages"][1]);
}

/// Feeds the pieces one millisecond apart.
AnswerTiming timed(std::initializer_list<std::string_view> pieces, bool is_stream = true) {
  AnswerTiming timing(is_stream);
  Duration now = 1ms;
  for (const std::string_view piece : pieces) {
    timing.feed(piece, now);
    now += 1ms;
  }
  return timing;
}

TEST(AnswerTiming, TakesTimesOfTextOnly) {
  AnswerTiming timing =
      timed({"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
             ": comment\n\ndata: {\"choices\":[{\"delta\":{\"con", "tent\":\"a\"}}]}\r\n\r\n",
             "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"b\"}}]}\n\n",
             "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":7,"
             "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
             "data: [DONE]\n\n"});
  EXPECT_TRUE(timing.end()) << timing.failure();
  EXPECT_EQ(timing.first(), 3ms);
  EXPECT_EQ(timing.last(), 4ms);
  EXPECT_EQ(timing.output_tokens(), 7U);
  EXPECT_EQ(timing.cached_tokens(), 4U);
}

TEST(AnswerTiming, DoesNotTakeFailuresForAnswers) {
  const struct {
    std::string_view bytes;
    const char* says;
  } kCases[] = {
      {"", "ended before its [DONE]"},
      {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "ended before its [DONE]"},
      {"data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n", "out of memory"},
      {"data: {\n\ndata: [DONE]\n\n", "not JSON"},
      {"data: [1]\n\ndata: [DONE]\n\n", "not JSON"},
  };
  for (const auto& c : kCases) {
    AnswerTiming timing = timed({c.bytes});
    EXPECT_FALSE(timing.end()) << c.bytes;
    EXPECT_THAT(timing.failure(), HasSubstr(c.says));
  }
  const std::string endless(2 * AnswerTiming::kMostEvent, 'x');
  AnswerTiming timing = timed({endless, "\ndata: [DONE]\n"});
  EXPECT_FALSE(timing.end());
}

LoadSample answered(Duration due, Duration first, Duration last, std::uint64_t tokens) {
  return {.due = due,
          .sent = due,
          .first = due + first,
          .last = due + last,
          .end = due + last,
          .outcome = LoadOutcome::kAnswered,
          .status = 200,
          .output_tokens = tokens};
}

TEST(LoadReport, CountsGoodAnswersAndFailures) {
  LoadTrace trace;
  trace.requests.resize(5);
  LoadResult result;
  result.samples = {answered(0s, 100ms, 600ms, 6),     // 100 ms a token
                    answered(1s, 100ms, 1'100ms, 6),   // 200 ms a token
                    answered(2s, 300ms, 800ms, 6),     // late first token
                    answered(3s, 100ms, 1'000ms, 10),  // good
                    {.due = 3s, .sent = 3s, .end = 4s, .outcome = LoadOutcome::kStatus}};
  result.samples[3].cache = CacheWord::kHit;
  result.failures["503: busy"] = 1;
  const LoadReport report =
      load_report(trace, result, {.first_token = 200ms, .per_token = 100ms, .latency = 1'050ms}, 0);
  EXPECT_EQ(report.answered, 4U);
  EXPECT_EQ(report.good, 2U);
  EXPECT_EQ(report.refused, 1U);
  EXPECT_DOUBLE_EQ(report.seconds, 4);
  EXPECT_DOUBLE_EQ(report.answered_per_s, 1);
  EXPECT_EQ(report.first_token.p50, 100ms);
  EXPECT_EQ(report.first_token.most, 300ms);
  EXPECT_EQ(report.hit_latency.count, 1U);
  EXPECT_THAT(to_table(report), HasSubstr("0.50 requests/s (40.0 % of all)"));
  EXPECT_EQ(json::parse(to_json(report))["good"], 2);
  EXPECT_EQ(json::parse(to_json(report))["hits"], 1);
  EXPECT_THAT(to_html(report), HasSubstr("503: busy"));
  // The first two fifths are warm-up.
  EXPECT_EQ(load_report(trace, result, {}, 0.4).requests, 3U);
}

TEST(LoadReport, LatencyCountsFromWhenARequestWasDue) {
  LoadTrace trace;
  trace.requests.resize(1);
  LoadResult result;
  result.samples = {answered(1s, 100ms, 200ms, 2)};
  result.samples[0].due = 0s;
  const LoadReport report = load_report(trace, result, {}, 0);
  EXPECT_EQ(report.latency.p50, 1'200ms);
  EXPECT_EQ(report.first_token.p50, 1'100ms);
  EXPECT_EQ(report.late.p50, 1s);
  EXPECT_THAT(to_table(report), HasSubstr("The client sent 1 %"));
}

TEST(LoadReport, QuantilesAreExact) {
  std::vector<Duration> values;
  for (int i = 100; i > 0; --i) values.push_back(std::chrono::milliseconds(i));
  const LoadTimes times = times_of(values);
  EXPECT_EQ(times.p50, 50ms);
  EXPECT_EQ(times.p99, 99ms);
  EXPECT_EQ(times.most, 100ms);
  EXPECT_EQ(times_of({3ms}).p99, 3ms);
  EXPECT_EQ(times_of({}).count, 0U);
}

}  // namespace
}  // namespace afterimage
