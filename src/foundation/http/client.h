// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <string>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/http/tls.h"
#include "foundation/http/url.h"

namespace afterimage {

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

struct HttpQuestion {
  Url url;
  std::string body;
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers = {};  // e.g. Authorization
  Duration deadline = std::chrono::seconds(10);     // for the whole call
  Bytes max_answer = 64_MiB;
  std::shared_ptr<const TlsTrust> trust = nullptr;  // nullptr: the system's authorities
};

/// Sends one POST, or one GET without the body, over a new connection and waits for the response. Any
/// status is a response, not an error; redirects are not followed.
///
/// Errors   kUnavailable: no such host, nothing is listening, or the connection broke. kTimeout: the
///          deadline passed. kCorruption: the response is not valid HTTP. kLimitExceeded: the
///          response is larger than max_answer. kInvalidArgument: an invalid request header.
/// Threads  Any; blocks.
Result<HttpAnswer> http_post(const HttpQuestion& question);
Result<HttpAnswer> http_get(const HttpQuestion& question);

}  // namespace afterimage
