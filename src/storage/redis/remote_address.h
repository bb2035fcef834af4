// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "storage/redis/slots.h"

namespace afterimage {

/// The parts of a URL of servers, as other clients write it:
///
///   redis://[user@]host[:port][,host[:port]…][/database]
///   unix://[user@]/path[?db=database]                     (or redis+unix://)
///   redis+sentinel://[user@]host[:port][,…]/name[/database]
///
/// rediss:// and rediss+sentinel:// are the same over TLS. A password in the URL is refused: other
/// users can read command lines and settings files. It comes through the environment.
struct RemoteUrl {
  bool tls = false;
  std::string user;
  std::vector<RemoteAddress> servers;  // of a Sentinel URL: the Sentinels
  std::string sentinel_name;  // what the Sentinels call the servers; empty: no Sentinel URL
  std::uint32_t database = 0;
};
/// kInvalidArgument: not such a URL; the message says what to write instead and never repeats the
/// text, which may hold a password.
Result<RemoteUrl> parse_remote_url(std::string_view text);

/// Characters that a host name or an address may have; what servers say of other servers is checked
/// with it before it is resolved.
[[nodiscard]] bool is_host(std::string_view host);

/// A resolved address for connect().
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  bool operator==(const SocketAddress& other) const;
};
/// All addresses of a name, in the resolver's order; at least one. The path of a socket is its own.
/// kUnavailable: the name does not exist or the resolver failed. Resolving a host name may take
/// seconds; a numeric address is immediate.
Result<std::vector<SocketAddress>> resolve(const RemoteAddress& address);

}  // namespace afterimage
