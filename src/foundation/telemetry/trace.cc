// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "foundation/platform/random.h"

namespace afterimage {
namespace {

using TraceJson = nlohmann::ordered_json;

// "00-" trace "-" span "-" flags
constexpr std::size_t kTraceAt = 3;
constexpr std::size_t kSpanAt = 36;
constexpr std::size_t kFlagsAt = 53;
constexpr std::size_t kLength = 55;
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr int kErrorStatus = 2;  // STATUS_CODE_ERROR

std::string lower_hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kHexDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kHexDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

/// False: a character that is not a lower-case hex digit.
bool read_hex(std::string_view text, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t high = kHexDigits.find(text[2 * i]);
    const std::size_t low = kHexDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::string nanoseconds(WallTime at) {
  return std::to_string(std::max<std::int64_t>(0, at.time_since_epoch().count()));
}

struct ValueWriter {
  TraceJson operator()(const std::string& value) const { return {{"stringValue", value}}; }
  // 64-bit numbers are texts: JSON's numbers hold 53 bits.
  TraceJson operator()(std::int64_t value) const { return {{"intValue", std::to_string(value)}}; }
  TraceJson operator()(double value) const { return {{"doubleValue", value}}; }
  TraceJson operator()(bool value) const { return {{"boolValue", value}}; }
  TraceJson operator()(const std::vector<std::string>& values) const {
    TraceJson list = TraceJson::array();
    for (const std::string& value : values) list.push_back({{"stringValue", value}});
    return {{"arrayValue", {{"values", std::move(list)}}}};
  }
};

TraceJson attribute(std::string_view key, const AttributeValue& value) {
  return {{"key", key}, {"value", std::visit(ValueWriter{}, value)}};
}

TraceJson span_json(const Span& span) {
  TraceJson attributes = TraceJson::array();
  for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
  TraceJson json{{"traceId", lower_hex(span.trace)}, {"spanId", lower_hex(span.id)}};
  if (span.parent.has_value()) json["parentSpanId"] = lower_hex(*span.parent);
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = nanoseconds(span.begin);
  json["endTimeUnixNano"] = nanoseconds(std::max(span.begin, span.end));
  json["attributes"] = std::move(attributes);
  if (!span.error.empty()) json["status"] = {{"code", kErrorStatus}, {"message", span.error}};
  return json;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  if (text.size() < kLength || text[2] != '-' || text[kSpanAt - 1] != '-' ||
      text[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  std::array<std::byte, 1> version{};
  if (!read_hex(text.substr(0, 2), version) || version[0] == std::byte{0xff}) return std::nullopt;
  const bool is_first = version[0] == std::byte{0};
  if (text.size() > kLength && (is_first || text[kLength] != '-')) return std::nullopt;
  TraceContext context;
  std::array<std::byte, 1> flags{};
  if (!read_hex(text.substr(kTraceAt), context.trace) ||
      !read_hex(text.substr(kSpanAt), context.span) || !read_hex(text.substr(kFlagsAt), flags) ||
      is_zero(context.trace) || is_zero(context.span)) {
    return std::nullopt;
  }
  context.sampled = (flags[0] & std::byte{1}) != std::byte{0};
  return context;
}

std::string traceparent(const TraceContext& context) {
  return "00-" + lower_hex(context.trace) + "-" + lower_hex(context.span) +
         (context.sampled ? "-01" : "-00");
}

std::string to_text(const TraceId& id) { return lower_hex(id); }

std::string otlp_traces(const std::vector<Span>& spans, std::string_view service,
                        std::string_view version) {
  TraceJson list = TraceJson::array();
  for (const Span& span : spans) list.push_back(span_json(span));
  const TraceJson resource{
      {"attributes", TraceJson::array({attribute("service.name", std::string(service)),
                                       attribute("service.version", std::string(version))})}};
  const TraceJson scope{{"name", "afterimage"}, {"version", version}};
  const TraceJson scoped{{"scope", scope}, {"spans", std::move(list)}};
  const TraceJson traced{{"resource", resource}, {"scopeSpans", TraceJson::array({scoped})}};
  const TraceJson root{{"resourceSpans", TraceJson::array({traced})}};
  return root.dump(-1, ' ', false, TraceJson::error_handler_t::replace);
}

std::uint64_t rejected_spans(std::string_view response) {
  const TraceJson said = TraceJson::parse(response, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return 0;
  const TraceJson partial = said.value("partialSuccess", TraceJson());
  if (!partial.is_object()) return 0;
  const TraceJson count = partial.value("rejectedSpans", TraceJson());
  if (count.is_number_unsigned()) return count.get<std::uint64_t>();
  if (!count.is_string()) return 0;
  const auto& text = count.get_ref<const std::string&>();
  const bool digits = !text.empty() && text.size() < 19 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::stoull(text) : 0;
}

/// Never 0, which stands for no id.
std::uint64_t SpanIds::next() {
  const std::uint64_t made = Rng(seed_ + count_.fetch_add(1) * 0x9E3779B97F4A7C15ULL).next();
  return made == 0 ? 1 : made;
}

SpanId SpanIds::span() {
  SpanId id{};
  const std::uint64_t bits = next();
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(bits >> (8 * i));
  return id;
}

TraceId SpanIds::trace() {
  TraceId id{};
  std::ranges::copy(span(), id.begin());
  std::ranges::copy(span(), id.begin() + 8);
  return id;
}

}  // namespace afterimage
