// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/host_pattern.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxHostBytes = 253;  // RFC 1035 2.3.4, without the root
constexpr std::size_t kMaxLabelBytes = 63;
constexpr std::size_t kMaxNumericBytes = 45;  // IPv6 with an IPv4 tail

std::optional<std::string> canonical_address(std::string_view host) {
  if (host.empty() || host.size() > kMaxNumericBytes || host.contains('\0')) return std::nullopt;
  const int family = host.contains(':') ? AF_INET6 : AF_INET;
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (::inet_pton(family, std::string(host).c_str(), bytes.data()) != 1) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr) return std::nullopt;
  return text.data();
}

bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabelBytes && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, [](char c) {
           return ascii::is_letter(c) || ascii::is_digit(c) || c == '-' || c == '_';
         });
}

/// The "ends in a number" rule of the WHATWG URL standard: browsers and resolvers read such a host
/// as an address, so it must not pass as a name.
bool ends_in_a_number(std::string_view last_label) {
  if (std::ranges::all_of(last_label, ascii::is_digit)) return true;
  const std::string lower = ascii::lowered(last_label);
  return lower.starts_with("0x") && std::ranges::all_of(lower.substr(2), [](char c) {
           return ascii::is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

bool is_dns_name(std::string_view host) {
  if (host.empty() || host.size() > kMaxHostBytes) return false;
  std::string_view label;
  for (std::string_view rest = host;;) {
    const std::size_t dot = rest.find('.');
    label = rest.substr(0, dot);
    if (!is_label(label)) return false;
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  return !ends_in_a_number(label);
}

struct HostAndPort {
  std::string_view host;
  std::string_view port;
};

/// nullopt: misplaced brackets or an invalid port.
std::optional<HostAndPort> split_host_and_port(std::string_view text) {
  HostAndPort parts;
  const bool bracketed = text.starts_with('[');
  const std::size_t end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == std::string_view::npos) return std::nullopt;
  parts.host = bracketed ? text.substr(1, end - 1) : text.substr(0, end);
  if (bracketed != parts.host.contains(':')) return std::nullopt;
  const std::string_view after = text.substr(end + (bracketed ? 1 : 0));
  if (after.empty()) return parts;
  const std::string_view port = after.substr(1);
  parts.port = port;
  std::uint16_t number = 0;
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool whole = stop == port.data() + port.size();
  if (after.front() != ':' || error != std::errc() || !whole || number == 0) {
    return std::nullopt;
  }
  return parts;
}

}  // namespace

Result<std::string> canonical_host(std::string_view host) {
  if (auto address = canonical_address(host); address.has_value()) return *std::move(address);
  if (is_dns_name(host)) return ascii::lowered(host);
  return fail(ErrorCode::kInvalidArgument,
              "the host is neither a DNS name nor an IP address: write images.example.org "
              "(international names as xn--…, no dot at the end) or 192.0.2.1");
}

bool is_numeric_host(std::string_view host) { return canonical_address(host).has_value(); }

Result<Url> canonical_url(std::string_view address) {
  AFI_TRY(Url url, parse_url(address));
  const bool bracketed = address.starts_with("http://[") || address.starts_with("https://[");
  if (bracketed != url.host.contains(':')) {
    return fail(ErrorCode::kInvalidArgument, "brackets are allowed around IPv6 addresses only");
  }
  AFI_TRY(url.host, canonical_host(url.host));
  url.port.erase(0, url.port.find_first_not_of('0'));
  if (url.port.empty()) return fail(ErrorCode::kInvalidArgument, "port 0 is not a port");
  return url;
}

Result<HostPattern> parse_host_pattern(std::string_view text) {
  const bool below = text.starts_with("*.");
  const auto parts = split_host_and_port(text.substr(below ? 2 : 0));
  if (parts.has_value()) {
    auto host = canonical_host(parts->host);
    if (host.has_value() && !(below && is_numeric_host(*host))) {
      std::string_view port = parts->port;
      port.remove_prefix(std::min(port.find_first_not_of('0'), port.size()));
      return HostPattern{.below = below, .host = *std::move(host), .port = std::string(port)};
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not a host pattern: write images.example.org, *.example.org or "
                          "images.example.org:8080",
                          text));
}

bool matches(const HostPattern& pattern, const Url& url) {
  const std::string_view default_port = url.tls ? "443" : "80";
  if (pattern.port.empty() ? url.port != default_port : pattern.port != url.port) return false;
  if (!pattern.below) return pattern.host == url.host;
  std::string_view host = url.host;
  if (!host.ends_with(pattern.host)) return false;
  host.remove_suffix(pattern.host.size());
  return host.size() > 1 && host.ends_with('.');
}

}  // namespace afterimage
