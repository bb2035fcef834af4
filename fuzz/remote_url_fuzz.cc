// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Any text is a URL of servers or an error that does not repeat it. Hosts have no characters that
// end a line of a log, only unix:// names a socket, and a password is never part of a URL.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "storage/redis/remote_address.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto url = parse_remote_url(text);
  if (!url.has_value()) {
    AFI_CHECK(url.error().code == ErrorCode::kInvalidArgument);
    AFI_CHECK(!text.contains("hush") || !url.error().message.contains("hush"));
    return 0;
  }
  AFI_CHECK(!url->servers.empty() && !url->user.contains(':'));
  const bool sentinels =
      text.starts_with("redis+sentinel://") || text.starts_with("rediss+sentinel://");
  const bool socket = text.starts_with("unix://") || text.starts_with("redis+unix://");
  AFI_CHECK(url->sentinel_name.empty() == !sentinels);
  AFI_CHECK(url->tls == text.starts_with("rediss"));
  for (const RemoteAddress& server : url->servers) {
    AFI_CHECK(server.is_socket() || (is_host(server.host) && server.port != 0));
    AFI_CHECK(server.is_socket() == socket);
    AFI_CHECK(std::ranges::none_of(server.text(), [](char c) { return c >= 0 && c < ' '; }));
  }
  if (url->servers.front().is_socket()) AFI_CHECK(resolve(url->servers.front()).has_value());
  return 0;
}
