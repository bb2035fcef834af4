// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

/// Where a server is, and what is asked of it.
struct Url {
  std::string host;    // a name or an address; without the brackets of IPv6
  std::string port;    // "80", or "443", if it is not said
  std::string target;  // path and query, at least "/"
  bool tls = false;    // https

  bool operator==(const Url&) const = default;
};

/// kInvalidArgument: anything that is not http[s]://host[:port][/path][?query] in visible ASCII, or
/// that carries a user's name.
/// Threads  Any.
Result<Url> parse_url(std::string_view text);

}  // namespace afterimage
