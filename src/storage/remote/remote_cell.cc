// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/remote_cell.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "afterimage/digest.h"

namespace afterimage {

/// A sequence of commands on one connection. An error reply ends it.
class RemoteCell::Session {
 public:
  Session(const RemoteCluster& cluster, RespConnection& connection, Duration deadline,
          std::string& refusal)
      : cluster_(cluster), connection_(connection), deadline_(deadline), refusal_(refusal) {}

  [[nodiscard]] bool refused() const { return !refusal_.empty(); }

  Result<RespValue> command(std::initializer_list<std::string_view> parts) {
    auto reply = connection_.ask(parts, deadline_);
    if (reply.has_value() && reply->kind == RespKind::kError) {
      // The connection may still have a WATCH or MULTI open; do not reuse it.
      connection_.abandon();
      refusal_ = reply->text;
    }
    return reply;
  }

  std::unexpected<Error> unexpected_reply() {
    connection_.abandon();
    return fail(ErrorCode::kUnavailable,
                connection_.name() + ": unexpected reply to a command on a shared cell");
  }

  /// The whole value. nullopt: there is none, or the server sent an error reply.
  Result<std::optional<std::string>> get(std::string_view name) {
    const std::string request = resp_command({"GET", name});
    const std::string_view piece = request;
    AFI_TRY_VOID(connection_.send(std::span(&piece, 1), deadline_));
    AFI_TRY(RespHead head, connection_.read_head(deadline_));
    if (head.kind == RespKind::kNil) return std::nullopt;
    if (head.kind == RespKind::kError) {
      connection_.abandon();
      refusal_ = std::move(head.text);
      return std::nullopt;
    }
    if (head.kind != RespKind::kBulk) return unexpected_reply();
    if (head.number > static_cast<std::int64_t>(kMostBytes)) {
      connection_.abandon();
      return fail(ErrorCode::kUnavailable,
                  connection_.name() + ": the key holds a value too large for a shared cell");
    }
    std::string value(static_cast<std::size_t>(head.number), '\0');
    AFI_TRY_VOID(connection_.read_bytes(std::as_writable_bytes(std::span(value)), deadline_));
    AFI_TRY_VOID(connection_.end_bulk(deadline_));
    return value;
  }

  /// Whether the replicas have acknowledged everything written on this connection (WAIT).
  Result<bool> all_acknowledged(std::string_view name, RemoteCluster::Replicas which) {
    if (refused()) return true;
    AFI_TRY(const std::size_t replicas,
            cluster_.replicas_to_await(name, connection_, deadline_, which));
    if (replicas == 0) return true;
    AFI_TRY(const RespValue heard, command({"WAIT", std::to_string(replicas),
                                            milliseconds_text(cluster_.servers().timeout)}));
    if (refused()) return false;
    if (heard.kind != RespKind::kNumber) return unexpected_reply();
    return heard.number >= static_cast<std::int64_t>(replicas);
  }

 private:
  const RemoteCluster& cluster_;
  RespConnection& connection_;
  const Duration deadline_;
  std::string& refusal_;
};

RemoteCell::RemoteCell(RemoteTier& tier, const CellId& id, Duration ttl)
    : cluster_(tier.cluster()),
      name_(std::string(kRemoteKeyPrefix) + "e:" + to_hex(id)),
      ttl_(milliseconds_text(ttl)) {}

Result<void> RemoteCell::with_session(const std::function<Result<void>(Session&)>& what) {
  return cluster_.call(
      name_,
      {.lane = RemoteLane::kControl,
       .time = 6 * cluster_.servers().timeout,
       .ignore_breaker = true},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        Session session(cluster_, connection, deadline, refusal);
        return what(session);
      });
}

Result<std::optional<SharedCell::Value>> RemoteCell::read() {
  std::optional<std::string> found;
  bool all_acknowledged = true;
  AFI_TRY_VOID(with_session([&](Session& server) -> Result<void> {
    AFI_TRY(found, server.get(name_));
    if (server.refused() || !found.has_value()) return {};
    // Sent after the GET: a replica that acknowledges it was this server's replica at the GET.
    AFI_TRY(const RespValue renewed, server.command({"PEXPIRE", name_, ttl_}));
    if (server.refused()) return {};
    if (renewed.kind != RespKind::kNumber) return server.unexpected_reply();
    if (renewed.number != 1) {  // expired in between: nothing was written, so WAIT proves nothing
      found.reset();
      return {};
    }
    AFI_TRY(all_acknowledged, server.all_acknowledged(name_, RemoteCluster::Replicas::kOnline));
    return {};
  }));
  if (!all_acknowledged) {
    cluster_.request_refresh();
    return fail(ErrorCode::kUnavailable,
                "reading a shared cell: not every replica acknowledged; check the replicas");
  }
  if (!found.has_value()) return std::nullopt;
  const auto bytes = std::as_bytes(std::span(*found));
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  return Value{.bytes = std::move(copy), .version = *std::move(found)};
}

Result<bool> RemoteCell::replace(const std::optional<std::string>& expected,
                                 std::span<const std::byte> next) {
  const std::string_view value(reinterpret_cast<const char*>(next.data()), next.size());
  if (value.size() > kMostBytes) {
    return fail(ErrorCode::kLimitExceeded, "a shared cell of " + std::to_string(value.size()) +
                                               " bytes exceeds the limit of " +
                                               std::to_string(kMostBytes));
  }
  bool done = false;
  bool all_acknowledged = true;
  AFI_TRY_VOID(with_session([&](Session& server) -> Result<void> {
    done = false;
    AFI_TRY_VOID(server.command({"WATCH", name_}));
    if (server.refused()) return {};
    AFI_TRY(const auto found, server.get(name_));
    if (server.refused()) return {};
    if (found != expected) {
      AFI_TRY_VOID(server.command({"UNWATCH"}));
      return {};
    }
    AFI_TRY_VOID(server.command({"MULTI"}));
    if (server.refused()) return {};
    AFI_TRY_VOID(server.command({"SET", name_, value, "PX", ttl_}));
    if (server.refused()) return {};
    AFI_TRY(const RespValue reply, server.command({"EXEC"}));
    if (server.refused()) return {};
    if (reply.kind == RespKind::kNil) return {};  // another process replaced it after WATCH
    const RespValue ok{.kind = RespKind::kText, .text = "OK", .number = 0, .items = {}};
    if (reply.kind != RespKind::kList || reply.items != std::vector{ok})
      return server.unexpected_reply();
    done = true;
    AFI_TRY(all_acknowledged, server.all_acknowledged(name_, RemoteCluster::Replicas::kAll));
    return {};
  }));
  if (!all_acknowledged) {
    cluster_.request_refresh();
    return fail(ErrorCode::kUnavailable,
                "replacing a shared cell: not every replica acknowledged; check the replicas");
  }
  return done;
}

}  // namespace afterimage
