// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "storage/redis/slots.h"

namespace afterimage {

/// The parts of redis://[user@]host[:port][,host[:port]…]. A password in the URL is refused:
/// other users can read command lines and settings files. It comes through the environment.
struct RemoteUrl {
  std::string user;
  std::vector<RemoteAddress> servers;
};
/// kInvalidArgument: not such a URL; the message says what to write instead and never repeats the
/// text, which may hold a password.
Result<RemoteUrl> parse_remote_url(std::string_view text);

/// A resolved address for connect().
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  bool operator==(const SocketAddress& other) const;
};
/// All addresses of a name, in the resolver's order; at least one.
/// kUnavailable: the name does not exist or the resolver failed. Resolving a host name may take
/// seconds; a numeric address is immediate.
Result<std::vector<SocketAddress>> resolve(const RemoteAddress& address);

}  // namespace afterimage
