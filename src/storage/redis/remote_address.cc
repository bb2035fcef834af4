// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_address.h"

#include <netdb.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "storage/redis/whole_number.h"

namespace afterimage {
namespace {

constexpr std::uint16_t kServerPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::uint32_t kMaxDatabase = 1'000'000;

struct Scheme {
  std::string_view prefix;
  bool tls;
  enum class Kind : unsigned char { kServers, kSocket, kSentinels } kind;
};
constexpr std::array<Scheme, 6> kSchemes{{{"redis://", false, Scheme::Kind::kServers},
                                          {"rediss://", true, Scheme::Kind::kServers},
                                          {"unix://", false, Scheme::Kind::kSocket},
                                          {"redis+unix://", false, Scheme::Kind::kSocket},
                                          {"redis+sentinel://", false, Scheme::Kind::kSentinels},
                                          {"rediss+sentinel://", true, Scheme::Kind::kSentinels}}};

std::string_view form_of(Scheme::Kind kind) {
  switch (kind) {
    case Scheme::Kind::kSocket:
      return "unix:///path, or unix:///path?db=1";
    case Scheme::Kind::kSentinels:
      return "redis+sentinel://host:26379,host:26379,…/name, as the Sentinels name the primary";
    case Scheme::Kind::kServers:
      break;
  }
  return "redis://host:port, or redis://user@host:port,host:port,…";
}

std::unexpected<Error> invalid_url(std::string_view what,
                                   Scheme::Kind kind = Scheme::Kind::kServers) {
  return fail(ErrorCode::kInvalidArgument,
              std::string(what) + ": write " + std::string(form_of(kind)));
}

Result<std::uint16_t> port_of(std::string_view text) {
  const auto port = whole_number<std::uint16_t>(text).value_or(0);
  if (port == 0) return invalid_url("the port must be a number from 1 to 65535");
  return port;
}

Result<RemoteAddress> address_of(std::string_view text, std::uint16_t default_port) {
  RemoteAddress address{.host = {}, .port = default_port};
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

Result<std::vector<RemoteAddress>> addresses_of(std::string_view text, std::uint16_t default_port) {
  std::vector<RemoteAddress> addresses;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    AFI_TRY(RemoteAddress address, address_of(text.substr(0, comma), default_port));
    addresses.push_back(std::move(address));
    if (comma == text.size()) return addresses;
    text.remove_prefix(comma + 1);
  }
}

/// Takes "user@" off the text.
Result<std::string> take_user(std::string_view& text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos) return std::string();
  const std::string_view user = text.substr(0, at);
  if (user.contains(':')) {
    return fail(ErrorCode::kInvalidArgument,
                "a redis:// URL must not contain a password, because others can read it here: "
                "remove it and set it in the environment");
  }
  if (!is_host(user)) return invalid_url("'@' has no valid user name before it");
  text.remove_prefix(at + 1);
  return std::string(user);
}

Result<std::uint32_t> database_of(std::string_view text) {
  const auto database = whole_number<std::uint32_t>(text);
  if (database.has_value() && *database <= kMaxDatabase) return *database;
  return invalid_url("the database after '/' must be a number from 0 to 1000000");
}

/// The text after the first `separator`, which is taken off; nullopt: there is none.
std::optional<std::string_view> take_after(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

Result<RemoteUrl> servers_url(std::string_view text, RemoteUrl url) {
  AFI_TRY(url.user, take_user(text));
  if (const auto database = take_after(text, '/'); database.has_value() && !database->empty()) {
    AFI_TRY(url.database, database_of(*database));
  }
  AFI_TRY(url.servers, addresses_of(text, kServerPort));
  return url;
}

Result<RemoteUrl> sentinels_url(std::string_view text, RemoteUrl url) {
  AFI_TRY(url.user, take_user(text));
  auto name = take_after(text, '/');
  if (name.has_value()) {
    if (const auto database = take_after(*name, '/'); database.has_value() && !database->empty()) {
      AFI_TRY(url.database, database_of(*database));
    }
  }
  if (!name.has_value() || !is_host(*name)) {
    return invalid_url("no name of the primary after the Sentinels", Scheme::Kind::kSentinels);
  }
  url.sentinel_name = *name;
  AFI_TRY(url.servers, addresses_of(text, kSentinelPort));
  return url;
}

Result<RemoteUrl> socket_url(std::string_view text, RemoteUrl url) {
  constexpr auto kKind = Scheme::Kind::kSocket;
  if (!text.starts_with('/')) {
    std::string_view before = text.substr(0, std::min(text.find('/'), text.size()));
    text.remove_prefix(before.size());
    AFI_TRY(url.user, take_user(before));
    if (!before.empty()) return invalid_url("a path begins with '/'", kKind);
  }
  if (const auto query = take_after(text, '?')) {
    constexpr std::string_view kDatabase = "db=";
    if (!query->starts_with(kDatabase)) return invalid_url("only db= is read after '?'", kKind);
    AFI_TRY(url.database, database_of(query->substr(kDatabase.size())));
  }
  const bool plain = std::ranges::none_of(text, [](char c) { return c >= '\0' && c < ' '; });
  if (text.size() < 2 || !plain || text.size() >= sizeof(sockaddr_un::sun_path)) {
    return invalid_url("the path of the socket is empty, or longer than 107 bytes", kKind);
  }
  url.servers = {{.host = std::string(text), .port = 0}};
  return url;
}

SocketAddress socket_at(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::size_t size = std::min(path.size(), sizeof at.sun_path - 1);
  std::memcpy(at.sun_path, path.data(), size);
  SocketAddress address;
  std::memcpy(&address.storage, &at, sizeof at);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size + 1);
  return address;
}

}  // namespace

bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return c > ' ' && c < 0x7F && std::string_view("/?#@[],\\").find(c) == std::string_view::npos;
  });
}

Result<RemoteUrl> parse_remote_url(std::string_view text) {
  const auto* const scheme = std::ranges::find_if(
      kSchemes, [&](const Scheme& each) { return text.starts_with(each.prefix); });
  if (scheme == kSchemes.end()) {
    return invalid_url("not a redis:// URL, nor rediss://, redis+sentinel:// or unix://");
  }
  text.remove_prefix(scheme->prefix.size());
  const bool has_query = scheme->kind != Scheme::Kind::kSocket && text.contains('?');
  if (has_query) return invalid_url("nothing is read after '?'; there are settings", scheme->kind);
  RemoteUrl url;
  url.tls = scheme->tls;
  switch (scheme->kind) {
    case Scheme::Kind::kSocket:
      return socket_url(text, std::move(url));
    case Scheme::Kind::kSentinels:
      return sentinels_url(text, std::move(url));
    case Scheme::Kind::kServers:
      break;
  }
  return servers_url(text, std::move(url));
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
}

Result<std::vector<SocketAddress>> resolve(const RemoteAddress& address) {
  if (address.is_socket()) return std::vector{socket_at(address.host)};
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
