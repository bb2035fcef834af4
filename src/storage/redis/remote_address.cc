// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_address.h"

#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace afterimage {
namespace {

constexpr std::string_view kScheme = "redis://";

std::unexpected<Error> invalid_url(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, std::string(what) +
                                               ": write redis://host:port, or "
                                               "redis://user@host:port,host:port,…");
}

Result<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) {
    return invalid_url("the port must be a number from 1 to 65535");
  }
  return port;
}

bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return c > ' ' && c < 0x7F && std::string_view("/?#@[],\\").find(c) == std::string_view::npos;
  });
}

Result<RemoteAddress> address_of(std::string_view text) {
  RemoteAddress address;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return invalid_url("'[' has no matching ']'");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    address.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!is_host(address.host)) return invalid_url("a server has no host name, or an invalid one");
  if (port.empty()) return address;
  if (!port.starts_with(':')) return invalid_url("unexpected text after ']'");
  AFI_TRY(address.port, port_of(port.substr(1)));
  return address;
}

}  // namespace

Result<RemoteUrl> parse_remote_url(std::string_view text) {
  if (!text.starts_with(kScheme)) return invalid_url("not a redis:// URL");
  text.remove_prefix(kScheme.size());
  RemoteUrl url;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = text.substr(0, at);
    if (user.contains(':')) {
      return fail(ErrorCode::kInvalidArgument,
                  "a redis:// URL must not contain a password, because others can read it here: "
                  "remove it and set it in the environment");
    }
    if (!is_host(user)) return invalid_url("'@' has no valid user name before it");
    url.user = user;
    text.remove_prefix(at + 1);
  }
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    AFI_TRY(RemoteAddress address, address_of(text.substr(0, comma)));
    url.servers.push_back(std::move(address));
    if (comma == text.size()) return url;
    text.remove_prefix(comma + 1);
  }
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
}

Result<std::vector<SocketAddress>> resolve(const RemoteAddress& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int failed = ::getaddrinfo(address.host.c_str(), port.c_str(), &wanted, &found);
  if (failed != 0) {
    return fail(ErrorCode::kUnavailable, address.text() + ": " + ::gai_strerror(failed));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& next = addresses.emplace_back();
    std::memcpy(&next.storage, each->ai_addr, each->ai_addrlen);
    next.size = each->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace afterimage
