// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/http/url.h"

namespace afterimage {

/// The canonical spelling of a host: DNS names in lower case, numeric addresses as inet_ntop()
/// prints them.
///
/// Errors   kInvalidArgument: neither a DNS name (labels of letters, digits, '-' and '_') nor a
///          numeric address in its usual form. Refused because resolvers disagree on them: a dot
///          at the end, percent signs, numbers such as 0x7f000001, 017700000001 or 127.1, IPv6
///          zones, and anything that is not ASCII (write international names as xn--…).
/// Threads  Any.
[[nodiscard]] Result<std::string> canonical_host(std::string_view host);

/// True if a canonical host is a numeric address.
[[nodiscard]] bool is_numeric_host(std::string_view host);

/// Like parse_url(), with a canonical host and a port without leading zeros. Brackets are allowed
/// around IPv6 addresses only.
///
/// Errors   kInvalidArgument: parse_url() or canonical_host() refuses the address, port 0, brackets
///          around anything else.
[[nodiscard]] Result<Url> canonical_url(std::string_view address);

/// A pattern for hosts in the settings: "images.example.org", "*.example.org" (every subdomain, but
/// not example.org itself), "10.0.0.7:8080", "[::1]:8080". Without a port, only the default port
/// matches: 80, or 443 with https.
struct HostPattern {
  bool below = false;  // starts with "*.": matches subdomains only
  std::string host;    // canonical
  std::string port;    // empty: the default port of the URL's scheme

  bool operator==(const HostPattern&) const = default;
};

/// Errors   kInvalidArgument: not such a pattern; the message shows valid ones.
[[nodiscard]] Result<HostPattern> parse_host_pattern(std::string_view text);

/// `url.host` must be canonical.
[[nodiscard]] bool matches(const HostPattern& pattern, const Url& url);

}  // namespace afterimage
