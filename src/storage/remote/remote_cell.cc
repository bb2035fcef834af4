// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/remote_cell.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "afterimage/digest.h"

namespace afterimage {
namespace {}  // namespace

/// What is said on one connection, from the first word to the last. A refusal ends it.
class RemoteCell::Conversation {
 public:
  Conversation(RespConnection& connection, Duration deadline, std::string& refusal)
      : connection_(connection), deadline_(deadline), refusal_(refusal) {}

  [[nodiscard]] bool refused() const { return !refusal_.empty(); }

  Result<RespValue> say(std::initializer_list<std::string_view> parts) {
    auto said = connection_.ask(parts, deadline_);
    if (said.has_value() && said->kind == RespKind::kError) {
      // Whatever was begun on this connection is not ended on it.
      connection_.give_up();
      refusal_ = said->text;
    }
    return said;
  }

  std::unexpected<Error> astray() {
    connection_.give_up();
    return fail(ErrorCode::kUnavailable, connection_.name() + ": it answers something else");
  }

  /// The whole value. nullopt: there is none, or the server refused.
  Result<std::optional<std::string>> get(std::string_view name) {
    const std::string command = resp_command({"GET", name});
    const std::string_view piece = command;
    AFI_TRY_VOID(connection_.send(std::span(&piece, 1), deadline_));
    AFI_TRY(RespHead head, connection_.read_head(deadline_));
    if (head.kind == RespKind::kNil) return std::nullopt;
    if (head.kind == RespKind::kError) {
      connection_.give_up();
      refusal_ = std::move(head.text);
      return std::nullopt;
    }
    if (head.kind != RespKind::kBulk) return astray();
    if (head.number > static_cast<std::int64_t>(kMostBytes)) {
      connection_.give_up();
      return fail(ErrorCode::kUnavailable, connection_.name() + ": there is another's value");
    }
    std::string value(static_cast<std::size_t>(head.number), '\0');
    AFI_TRY_VOID(connection_.read_bytes(std::as_writable_bytes(std::span(value)), deadline_));
    AFI_TRY_VOID(connection_.end_bulk(deadline_));
    return value;
  }

  /// Whether so many copies have what was written here, and all before it.
  Result<bool> all_heard(std::size_t replicas, Duration timeout) {
    if (replicas == 0 || refused()) return true;
    AFI_TRY(const RespValue heard,
            say({"WAIT", std::to_string(replicas), milliseconds_text(timeout)}));
    if (refused()) return false;
    if (heard.kind != RespKind::kNumber) return astray();
    return heard.number >= static_cast<std::int64_t>(replicas);
  }

 private:
  RespConnection& connection_;
  const Duration deadline_;
  std::string& refusal_;
};

RemoteCell::RemoteCell(RemoteTier& tier, const CellId& id, Duration ttl)
    : cluster_(tier.cluster()),
      name_(std::string(kRemoteKeyPrefix) + "e:" + to_hex(id)),
      ttl_(milliseconds_text(ttl)) {}

Result<void> RemoteCell::converse(const std::function<Result<void>(Conversation&)>& what) {
  return cluster_.talk(
      name_,
      {.lane = RemoteLane::kControl,
       .time = 5 * cluster_.servers().timeout,
       .despite_breaker = true},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        Conversation conversation(connection, deadline, refusal);
        return what(conversation);
      });
}

Result<std::optional<SharedCell::Value>> RemoteCell::read() {
  const std::size_t replicas = cluster_.replicas(name_);
  std::optional<std::string> found;
  bool all_heard = true;
  AFI_TRY_VOID(converse([&](Conversation& server) -> Result<void> {
    AFI_TRY(found, server.get(name_));
    if (server.refused() || !found.has_value()) return {};
    // After it was read: whoever acknowledges this was a replica of the server's all that while.
    AFI_TRY(const RespValue renewed, server.say({"PEXPIRE", name_, ttl_}));
    if (server.refused()) return {};
    if (renewed.kind != RespKind::kNumber) return server.astray();
    if (renewed.number != 1) {  // gone between, and nothing was written that could be heard of
      found.reset();
      return {};
    }
    AFI_TRY(all_heard, server.all_heard(replicas, cluster_.servers().timeout));
    return {};
  }));
  if (!all_heard) {
    cluster_.look_soon();
    return fail(ErrorCode::kUnavailable, "not every copy of what is shared answers");
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
    return fail(ErrorCode::kLimitExceeded, std::to_string(value.size()) + " bytes are too many");
  }
  const std::size_t replicas = cluster_.replicas(name_);
  bool done = false;
  bool all_heard = true;
  AFI_TRY_VOID(converse([&](Conversation& server) -> Result<void> {
    done = false;
    AFI_TRY_VOID(server.say({"WATCH", name_}));
    if (server.refused()) return {};
    AFI_TRY(const auto found, server.get(name_));
    if (server.refused()) return {};
    if (found != expected) {
      AFI_TRY_VOID(server.say({"UNWATCH"}));
      return {};
    }
    AFI_TRY_VOID(server.say({"MULTI"}));
    if (server.refused()) return {};
    AFI_TRY_VOID(server.say({"SET", name_, value, "PX", ttl_}));
    if (server.refused()) return {};
    AFI_TRY(const RespValue said, server.say({"EXEC"}));
    if (server.refused()) return {};
    if (said.kind == RespKind::kNil) return {};  // somebody else replaced it between
    const RespValue ok{.kind = RespKind::kText, .text = "OK", .number = 0, .items = {}};
    if (said.kind != RespKind::kList || said.items != std::vector{ok}) return server.astray();
    done = true;
    AFI_TRY(all_heard, server.all_heard(replicas, cluster_.servers().timeout));
    return {};
  }));
  if (!all_heard) {
    cluster_.look_soon();
    return fail(ErrorCode::kUnavailable,
                "not every copy of what is shared has heard of what was changed");
  }
  return done;
}

}  // namespace afterimage
