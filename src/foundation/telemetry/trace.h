// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "afterimage/clock.h"

namespace afterimage {

using TraceId = std::array<std::byte, 16>;
using SpanId = std::array<std::byte, 8>;

/// Which trace a request belongs to, and the span that asks: W3C Trace Context, "traceparent".
struct TraceContext {
  TraceId trace{};
  SpanId span{};
  bool sampled = false;

  bool operator==(const TraceContext&) const = default;
};

/// Reads "00-<32 hex>-<16 hex>-<2 hex>", or a later version that begins like it. nullopt: anything
/// else, upper-case digits and ids of zeros included, as the specification demands: a new trace
/// begins then.
/// Threads  Any.
[[nodiscard]] std::optional<TraceContext> parse_traceparent(std::string_view text);
/// What parse_traceparent() reads, in version 00.
[[nodiscard]] std::string traceparent(const TraceContext& context);
/// 32 hex digits.
[[nodiscard]] std::string to_text(const TraceId& id);

enum class SpanKind : unsigned char { kInternal = 1, kServer = 2, kClient = 3 };  // as OTLP counts

using AttributeValue =
    std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;

/// One step of a request, when it is over.
struct Span {
  TraceId trace{};
  SpanId id{};
  std::optional<SpanId> parent = std::nullopt;
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  WallTime begin{};
  WallTime end{};
  std::vector<std::pair<std::string, AttributeValue>> attributes = {};
  /// Why it failed; empty: it did not.
  std::string error = {};
};

/// The body of a POST of OTLP/HTTP to /v1/traces: an ExportTraceServiceRequest in the protocol's JSON.
/// Text that is not UTF-8 is replaced.
/// Threads  Any.
[[nodiscard]] std::string otlp_traces(const std::vector<Span>& spans, std::string_view service,
                                      std::string_view version);
/// How many spans a response to it says were rejected (partialSuccess); 0 if it says nothing.
[[nodiscard]] std::uint64_t rejected_spans(std::string_view response);

/// Ids that nobody else has, without a lock.
/// Threads  Any.
class SpanIds {
 public:
  /// `seed`: unpredictable, or processes would share ids.
  explicit SpanIds(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] TraceId trace();
  [[nodiscard]] SpanId span();

 private:
  std::uint64_t next();
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> count_ = 0;
};

}  // namespace afterimage
