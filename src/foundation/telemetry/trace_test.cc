// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

namespace afterimage {
namespace {

using nlohmann::json;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";

TEST(TraceParent, ReadsTheSpecificationsExample) {
  const std::string text = "00-" + kTrace + "-" + kSpan + "-01";
  const auto context = parse_traceparent(text);
  ASSERT_TRUE(context.has_value());
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(to_text(context->trace), kTrace);
  EXPECT_EQ(traceparent(*context), text);
  EXPECT_FALSE(parse_traceparent("00-" + kTrace + "-" + kSpan + "-00")->sampled);
  EXPECT_TRUE(parse_traceparent("00-" + kTrace + "-" + kSpan + "-ff")->sampled);
}

TEST(TraceParent, LaterVersionsMayBeLonger) {
  EXPECT_TRUE(
      parse_traceparent("cc-" + kTrace + "-" + kSpan + "-01-what-the-future-holds").has_value());
  EXPECT_TRUE(parse_traceparent("01-" + kTrace + "-" + kSpan + "-01").has_value());
  EXPECT_FALSE(parse_traceparent("cc-" + kTrace + "-" + kSpan + "-01.x").has_value());
}

TEST(TraceParent, RefusesEverythingElse) {
  for (const std::string& text :
       {std::string(), "00-" + kTrace + "-" + kSpan, "00-" + kTrace + "-" + kSpan + "-1",
        "ff-" + kTrace + "-" + kSpan + "-01", "00-" + kTrace + "-" + kSpan + "-01-x",
        "00-" + std::string(32, '0') + "-" + kSpan + "-01",
        "00-" + kTrace + "-" + std::string(16, '0') + "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + kSpan + "-01",
        "00_" + kTrace + "-" + kSpan + "-01", "0g-" + kTrace + "-" + kSpan + "-01",
        "00-" + kTrace + "-" + kSpan + "-0g", " 00-" + kTrace + "-" + kSpan + "-01",
        "00-" + kTrace + "-" + kSpan + "-01, 00-" + kTrace + "-" + kSpan + "-01"}) {
    EXPECT_FALSE(parse_traceparent(text).has_value()) << text;
  }
}

Span sample_span() {
  Span span{.trace = parse_traceparent("00-" + kTrace + "-" + kSpan + "-01")->trace,
            .id = parse_traceparent("00-" + kTrace + "-" + kSpan + "-01")->span,
            .name = "chat m\xff",
            .kind = SpanKind::kClient,
            .begin = WallTime(Duration(1'795'507'200'123'456'789)),
            .end = WallTime(Duration(1'795'507'200'223'456'789))};
  span.attributes = {{"text", std::string("é\n\"")},
                     {"whole", std::int64_t{9'007'199'254'740'993}},
                     {"part", 0.5},
                     {"flag", true},
                     {"list", std::vector<std::string>{"stop"}}};
  return span;
}

TEST(OtlpTraces, FollowsTheProtocolsJson) {
  const json root = json::parse(otlp_traces({sample_span()}, "afterimage", "0.1.0"));
  const json& traced = root["resourceSpans"][0];
  EXPECT_EQ(traced["resource"]["attributes"][0],
            json::parse(R"({"key":"service.name","value":{"stringValue":"afterimage"}})"));
  const json& span = traced["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(span["traceId"], kTrace) << "hex, and not base64 as in other protobuf JSON";
  EXPECT_EQ(span["spanId"], kSpan);
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_EQ(span["kind"], 3) << "enums are numbers";
  EXPECT_EQ(span["startTimeUnixNano"], "1795507200123456789") << "64-bit numbers are texts";
  EXPECT_EQ(span["endTimeUnixNano"], "1795507200223456789");
  EXPECT_EQ(span["attributes"][1]["value"], json::parse(R"({"intValue":"9007199254740993"})"));
  EXPECT_EQ(span["attributes"][2]["value"], json::parse(R"({"doubleValue":0.5})"));
  EXPECT_EQ(span["attributes"][3]["value"], json::parse(R"({"boolValue":true})"));
  EXPECT_EQ(span["attributes"][4]["value"],
            json::parse(R"({"arrayValue":{"values":[{"stringValue":"stop"}]}})"));
  EXPECT_FALSE(span.contains("status"));
}

TEST(OtlpTraces, AnErrorIsTheStatus) {
  Span span = sample_span();
  span.error = "it broke";
  span.parent = span.id;
  span.end = span.begin - Duration(1);
  const json said =
      json::parse(otlp_traces({span}, "a", "b"))["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(said["status"], json::parse(R"({"code":2,"message":"it broke"})"));
  EXPECT_EQ(said["parentSpanId"], kSpan);
  EXPECT_EQ(said["endTimeUnixNano"], said["startTimeUnixNano"])
      << "the end is not before the beginning";
}

TEST(OtlpTraces, ReadsHowManyWereRejected) {
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}})"), 3U);
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":4}})"), 4U);
  for (const char* text :
       {"", "{}", "[]", "<html>", R"({"partialSuccess":{}})", R"({"partialSuccess":[]})",
        R"({"partialSuccess":{"rejectedSpans":"-3"}})",
        R"({"partialSuccess":{"rejectedSpans":"99999999999999999999"}})"}) {
    EXPECT_EQ(rejected_spans(text), 0U) << text;
  }
}

TEST(SpanIds, AreNeverTheSameTwice) {
  SpanIds ids(7);
  std::vector<std::vector<TraceId>> made(4);
  std::vector<std::thread> threads;
  for (auto& mine : made) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) mine.push_back(ids.trace());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<TraceId> all;
  for (const auto& mine : made) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4000U);
  EXPECT_NE(SpanIds(8).trace(), SpanIds(7).trace());
}

}  // namespace
}  // namespace afterimage
