// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/http/url.h"
#include "foundation/telemetry/span_exporter.h"

namespace afterimage {

/// Where traces go.
struct OtlpTarget {
  Url url;                                     // with the path of traces
  std::map<std::string, std::string> headers;  // that the collector wants
};

/// `endpoint` is a base URL ("http://127.0.0.1:4318"), or ends with /v1/traces. `headers` is
/// "name=value,name=value" with percent-encoded values, as in OTEL_EXPORTER_OTLP_HEADERS.
///
/// Errors   kInvalidArgument: neither. The message repeats no header.
/// Threads  Any.
[[nodiscard]] Result<OtlpTarget> otlp_target(const std::string& endpoint, std::string_view headers);

/// One POST; blocks for at most five seconds.
[[nodiscard]] Result<OtlpAnswer> post_otlp(const OtlpTarget& target, std::string body);

}  // namespace afterimage
