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

/// What redis://[user@]host[:port][,host[:port]…] says. A password is refused: command lines and
/// files of settings are read by others; it comes through the environment.
struct RemoteUrl {
  std::string user;
  std::vector<RemoteAddress> servers;
};
/// kInvalidArgument, with what to write instead; the text is not repeated, since it may hold a
/// password.
Result<RemoteUrl> parse_remote_url(std::string_view text);

/// As the system takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
/// kUnavailable: there is no such name, or nobody knows now. A name may take seconds; an address
/// written in numbers takes no time.
Result<SocketAddress> resolve(const RemoteAddress& address);

}  // namespace afterimage
