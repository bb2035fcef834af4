// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_trace.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const std::string kCaller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The spans that were sent when the exporter ended.
struct Spans {
  Spans()
      : exporter(std::make_unique<SpanExporter>(
            SpanExporterOptions{.every = 1h, .seed = 3},
            [this](const std::string& body) -> Result<OtlpAnswer> {
              sent = json::parse(body)["resourceSpans"][0]["scopeSpans"][0]["spans"];
              return OtlpAnswer{.status = 200, .body = "{}"};
            },
            [](std::string_view /*why*/) {})) {}
  json end() {
    exporter.reset();
    return sent;
  }
  json sent;
  std::unique_ptr<SpanExporter> exporter;
};

TEST(TraceContextOf, TwoHeadersAreNone) {
  EXPECT_TRUE(trace_context_of({{"Traceparent", kCaller}}).has_value());
  EXPECT_FALSE(trace_context_of({{"traceparent", kCaller}, {"traceparent", kCaller}}).has_value());
  EXPECT_FALSE(trace_context_of({}).has_value());
}

TEST(RequestTrace, JoinsTheCallersTraceAndPassesItOn) {
  Spans spans;
  HttpHeaders headers{{"traceparent", kCaller}, {"tracestate", "a=b"}};
  {
    RequestTrace trace(
        *spans.exporter,
        {.caller = trace_context_of(headers), .at = WallTime(Duration(1000s)), .clock = 5s});
    const SpanId call = trace.new_span();
    trace.pass_on(headers, call);
    trace.add({.name = "step", .begin = 6s, .end = 7s});
    trace.add({.name = "call", .kind = SpanKind::kClient, .begin = 7s, .end = 8s}, call);
    trace.finish({.name = "request", .kind = SpanKind::kServer, .begin = 5s, .end = 9s});
  }
  const json sent = spans.end();
  ASSERT_EQ(sent.size(), 3U);
  const json& request = sent[2];
  EXPECT_EQ(request["parentSpanId"], "00f067aa0ba902b7");
  for (const json& span : sent) EXPECT_EQ(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(sent[0]["parentSpanId"], request["spanId"]);
  EXPECT_EQ(sent[1]["parentSpanId"], request["spanId"]);
  EXPECT_EQ(sent[0]["startTimeUnixNano"], "1001000000000");
  EXPECT_EQ(headers.find("traceparent"),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-" + sent[1]["spanId"].get<std::string>() + "-01");
  EXPECT_EQ(headers.find("tracestate"), "a=b");
}

TEST(RequestTrace, ATraceThatBeginsHereHasNoParentAndNoState) {
  Spans spans;
  HttpHeaders headers{{"traceparent", "rubbish"}, {"tracestate", "a=b"}};
  {
    RequestTrace trace(*spans.exporter, {});
    trace.pass_on(headers, trace.new_span());
    trace.finish({.name = "request"});
  }
  const json sent = spans.end();
  EXPECT_FALSE(sent[0].contains("parentSpanId"));
  const auto passed = parse_traceparent(headers.find("traceparent").value());
  ASSERT_TRUE(passed.has_value());
  EXPECT_EQ(to_text(passed->trace), sent[0]["traceId"].get<std::string>());
  EXPECT_FALSE(headers.find("tracestate").has_value());
}

}  // namespace
}  // namespace afterimage
