// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/sentinels.h"

#include <string>
#include <utility>

#include "storage/redis/remote_node.h"
#include "storage/redis/whole_number.h"

namespace afterimage {
namespace {

/// How long a Sentinel that failed is not waited for.
constexpr Duration kRetryAfter = std::chrono::seconds(5);

std::unexpected<Error> unexpected_answer(const RespValue& reply) {
  return fail(ErrorCode::kUnavailable,
              reply.kind == RespKind::kError
                  ? "SENTINEL GET-MASTER-ADDR-BY-NAME failed: " + reply.text
                  : "not an answer of a Sentinel: name Sentinels, or write redis:// for a server");
}

/// The field of a flat list of names and values.
std::uint64_t epoch_in(const RespValue& details) {
  std::uint64_t epoch = 0;
  for (std::size_t i = 0; i + 1 < details.items.size(); i += 2) {
    if (details.items[i].text != "config-epoch") continue;
    epoch = whole_number<std::uint64_t>(details.items[i + 1].text).value_or(0);
  }
  return epoch;
}

}  // namespace

Result<SentinelAnswer> sentinel_answer(const RespValue& address, const RespValue& details) {
  if (address.kind == RespKind::kNil) {
    return fail(ErrorCode::kNotFound, "the Sentinel watches nothing of this name");
  }
  const bool is_pair = address.kind == RespKind::kList && address.items.size() == 2 &&
                       address.items[0].kind == RespKind::kBulk &&
                       address.items[1].kind == RespKind::kBulk;
  if (!is_pair) return unexpected_answer(address);
  const std::string& host = address.items[0].text;
  const auto port = whole_number<std::uint16_t>(address.items[1].text).value_or(0);
  if (!is_host(host) || port == 0) return unexpected_answer(address);
  return SentinelAnswer{.primary = {.host = host, .port = port}, .epoch = epoch_in(details)};
}

Sentinels::Sentinels(const RemoteServers& servers, const Clock& clock)
    : servers_(servers), clock_(clock) {
  for (const RemoteAddress& address : servers.seeds) {
    sentinels_.push_back({.address = address, .connection = nullptr});
  }
}

Result<std::unique_ptr<RespConnection>> Sentinels::connect(const RemoteAddress& address) {
  AFI_TRY(const auto found, servers_.resolve(address));
  Result<std::unique_ptr<RespConnection>> connection =
      fail(ErrorCode::kUnavailable, address.text() + ": has no address");
  for (const SocketAddress& at : found) {
    connection =
        connect_to_sentinel(address, at, servers_, clock_, clock_.now() + servers_.connect_timeout);
    if (connection.has_value()) break;
  }
  return connection;
}

Result<SentinelAnswer> Sentinels::ask(Sentinel& sentinel) {
  if (sentinel.connection == nullptr || !sentinel.connection->usable()) {
    AFI_TRY(sentinel.connection, connect(sentinel.address));
  }
  RespConnection& connection = *sentinel.connection;
  const Duration deadline = clock_.now() + 2 * servers_.timeout;
  // While a failover is being completed, SENTINEL MASTER still names the old primary, so it is asked for
  // its epoch alone. Before the address: an address that is newer than its epoch does no harm.
  const std::string commands =
      resp_command({"SENTINEL", "MASTER", servers_.sentinel_name}) +
      resp_command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", servers_.sentinel_name});
  const std::string_view piece = commands;
  AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
  AFI_TRY(const RespValue details, connection.read_value(deadline));
  AFI_TRY(const RespValue address, connection.read_value(deadline));
  auto answer = sentinel_answer(address, details);
  if (answer.has_value()) return answer;
  return fail(answer.error().code,
              connection.name() + ": '" + servers_.sentinel_name + "': " + answer.error().message);
}

Result<SentinelAnswer> Sentinels::ask_all(bool retry_failed) {
  Result<SentinelAnswer> best = fail(ErrorCode::kUnavailable, "no Sentinel answers");
  for (Sentinel& sentinel : sentinels_) {
    if (!retry_failed && clock_.now() < sentinel.retry_at) continue;
    auto answer = ask(sentinel);
    if (!answer.has_value()) {
      sentinel.connection.reset();
      sentinel.retry_at = clock_.now() + kRetryAfter;
      if (!best.has_value()) best = std::unexpected(std::move(answer.error()));
    } else if (!best.has_value() || answer->epoch > best->epoch) {
      best = *std::move(answer);
    }
  }
  return best;
}

Result<RemoteAddress> Sentinels::primary() {
  auto best = ask_all(false);
  if (!best.has_value()) best = ask_all(true);
  if (!best.has_value()) return fail(ErrorCode::kUnavailable, best.error().message);
  return std::move(best->primary);
}

}  // namespace afterimage
