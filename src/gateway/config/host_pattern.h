// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/http/url.h"

namespace afterimage {

/// The one spelling of a host that all of its spellings have: names in lower case, numeric
/// addresses as the system prints them.
///
/// Errors   kInvalidArgument: neither a name of DNS (labels of letters, digits, '-' and '_') nor a
///          numeric address in its usual form. Not taken, since resolvers disagree on them: a dot
///          at the end, percent signs, numbers such as 0x7f000001, 017700000001 or 127.1, zones of
///          IPv6, and anything that is not ASCII (a name in another script is written as xn--…).
/// Threads  Any.
[[nodiscard]] Result<std::string> canonical_host(std::string_view host);

/// Whether a canonical host is a numeric address.
[[nodiscard]] bool is_numeric_host(std::string_view host);

/// As parse_url(), and besides: the host is canonical, no port has zeros before it, and brackets
/// stand around IPv6 and nothing else.
[[nodiscard]] Result<Url> canonical_url(std::string_view address);

/// Which hosts an operator means: "images.example.org", "*.example.org" (all below it, but not
/// itself), "10.0.0.7:8080", "[::1]:8080". Without a port:
/// the usual one only, 80 or, with https, 443.
struct HostPattern {
  bool below = false;  // "*."
  std::string host;    // canonical
  std::string port;    // empty: the usual one

  bool operator==(const HostPattern&) const = default;
};

/// Errors   kInvalidArgument, and what would be one.
[[nodiscard]] Result<HostPattern> parse_host_pattern(std::string_view text);

/// `url.host` is canonical.
[[nodiscard]] bool matches(const HostPattern& pattern, const Url& url);

}  // namespace afterimage
