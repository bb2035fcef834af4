// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

/// The address of a server and the target of a request to it.
struct Url {
  std::string host;    // a name or an address; without the brackets of IPv6
  std::string port;    // "80" or "443" if the URL names none
  std::string target;  // path and query, at least "/"
  bool tls = false;    // https

  bool operator==(const Url&) const = default;
};

/// Parses an http or https URL.
///
/// Errors   kInvalidArgument: not of the form http[s]://host[:port][/path][?query] in visible
///          ASCII, or it contains user information.
/// Threads  Any.
Result<Url> parse_url(std::string_view text);

}  // namespace afterimage
