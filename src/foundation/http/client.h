// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <string>

#include "afterimage/result.h"
#include "afterimage/units.h"
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
  Duration deadline = std::chrono::seconds(10);     // for all of it
  Bytes max_answer = 64_MiB;
};

/// One POST over a connection of its own. Any status is an answer; redirections are not followed.
///
/// Errors   kUnavailable: no such host, nobody there, the deadline, a connection that broke off.
///          kCorruption: what was answered is no HTTP. kLimitExceeded: a larger answer.
///          kInvalidArgument: a header that is none.
/// Threads  Any; blocks.
Result<HttpAnswer> http_post(const HttpQuestion& question);

}  // namespace afterimage
