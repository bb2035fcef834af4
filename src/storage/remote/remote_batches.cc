// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Several commands of one request in one round trip.
#include <algorithm>
#include <map>
#include <utility>

#include "foundation/platform/fault_points.h"
#include "storage/memory/checksum.h"
#include "storage/remote/manifest.h"
#include "storage/remote/remote_entries.h"

namespace afterimage {

RemoteEntries::Claimed RemoteEntries::claim_and_fetch(const LeaseCommand& lease,
                                                      std::span<const TierKey> keys,
                                                      MemoryBudget& budget) {
  // The first group goes with the lease.
  std::vector<std::vector<TierKey>> groups(1);
  std::map<const void*, std::size_t> group_of{{cluster_.reachable(lease.name), 0}};
  for (const TierKey& key : keys) {
    const void* const server = cluster_.reachable(manifest_name(key));
    if (server == nullptr) continue;
    const auto [group, is_new] = group_of.try_emplace(server, groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(key);
  }
  std::vector<Claimed> all(groups.size());
  parallel_for(groups.size(), [&](std::size_t i) {
    all[i] = claim_and_fetch_there(i == 0 ? &lease : nullptr, groups[i], budget);
  });
  Claimed claimed = std::move(all.front());
  for (std::size_t i = 1; i < all.size(); ++i) {
    for (auto& found : all[i].found) claimed.found.push_back(std::move(found));
  }
  return claimed;
}

RemoteEntries::Claimed RemoteEntries::claim_and_fetch_there(const LeaseCommand* lease,
                                                            std::span<const TierKey> keys,
                                                            MemoryBudget& budget) {
  std::string commands = lease == nullptr ? "" : lease->command;
  for (const TierKey& key : keys) commands += resp_command({"GET", manifest_name(key)});
  const std::string name = lease == nullptr ? manifest_name(keys.front()) : lease->name;
  Claimed claimed;
  // As long as for a connection: a claim that is given up costs a call of the model.
  const Duration time = std::max(servers_.timeout, servers_.connect_timeout);
  // Of an exchange that fails, what was answered before counts: a granted lease is held.
  static_cast<void>(cluster_.call(
      name, {.lane = RemoteLane::kLease, .time = time},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        claimed = {};
        const std::string_view piece = commands;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        bool is_first = true;
        const auto refused = [&](RespHead& head) {
          if (head.kind != RespKind::kError || !std::exchange(is_first, false)) return false;
          refusal = std::move(head.text);
          connection.abandon();  // the other replies are still to come
          return true;
        };
        if (lease != nullptr) {
          AFI_TRY(RespHead head, connection.read_head(deadline));
          if (refused(head)) return {};
          if (!AFI_GUARD("turn.reply",
                         head.kind == RespKind::kNil || head.kind == RespKind::kText)) {
            connection.abandon();
            return fail(ErrorCode::kCorruption, connection.name() + ": unexpected reply to SET NX");
          }
          claimed.granted = AFI_GUARD("turn.free", head.kind == RespKind::kText);
          is_first = false;
        }
        for (const TierKey& key : keys) {
          AFI_TRY(RespHead head, connection.read_head(deadline));
          if (refused(head)) return {};
          is_first = false;
          AFI_TRY_VOID(read_found(connection, head, key, budget, deadline, claimed));
        }
        return {};
      }));
  return claimed;
}

/// `deadline` is extended by the time that the value may take.
Result<void> RemoteEntries::read_found(RespConnection& connection, const RespHead& head,
                                       const TierKey& key, MemoryBudget& budget, Duration& deadline,
                                       Claimed& into) const {
  if (head.kind == RespKind::kError) return {};
  if (head.kind == RespKind::kNil) {
    into.found.emplace_back(key, std::nullopt);
    return {};
  }
  if (!AFI_GUARD("remote.get.reply", head.kind == RespKind::kBulk)) {
    connection.abandon();
    return fail(ErrorCode::kCorruption, connection.name() + ": unexpected reply");
  }
  AFI_TRY(Fetched fetched, read_manifest(connection, head, budget, deadline));
  deadline += servers_.time_for(Bytes(static_cast<std::uint64_t>(head.number))) - servers_.timeout;
  const RemoteManifest& manifest = fetched.manifest;
  const std::span<const std::byte> value = std::as_const(*fetched.value).bytes();
  const bool is_whole =
      manifest.value_is_inline() && AFI_GUARD("remote.key", manifest.key == key) &&
      AFI_GUARD("remote.value.checksum", Checksum::of(value) == manifest.sums.front());
  if (!is_whole) return {};
  into.found.emplace_back(
      key,
      TierEntry{.meta = std::move(fetched.manifest.meta), .bytes = value, .memory = fetched.value});
  return {};
}

std::vector<Result<void>> RemoteEntries::send_all(std::span<const ToSend> entries) {
  std::vector<Result<void>> results(entries.size());
  std::vector<std::size_t> alone;
  std::map<const void*, std::vector<std::size_t>> by_server;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool in_chunks = Bytes(entries[i].value.size()) > options_.chunk;
    const void* const server =
        in_chunks ? nullptr : cluster_.reachable(manifest_name(entries[i].key));
    // Of a server that cannot be reached send() says what is wrong.
    (server == nullptr ? alone : by_server[server]).push_back(i);
  }
  std::vector<std::span<const std::size_t>> groups;
  for (const auto& [server, places] : by_server) {
    if (places.size() == 1) alone.push_back(places.front());
    if (places.size() > 1) groups.emplace_back(places);
  }
  std::vector<std::vector<std::size_t>> refused(groups.size());
  parallel_for(groups.size(),
               [&](std::size_t i) { refused[i] = send_there(entries, groups[i], results); });
  for (const auto& places : refused) alone.insert(alone.end(), places.begin(), places.end());
  for (const std::size_t i : alone) {
    results[i] = send(entries[i].key, entries[i].meta, entries[i].value);
  }
  return results;
}

std::vector<std::size_t> RemoteEntries::send_there(std::span<const ToSend> entries,
                                                   std::span<const std::size_t> places,
                                                   std::vector<Result<void>>& results) {
  std::string commands;
  for (const std::size_t i : places) {
    const auto [key, meta, value] = entries[i];
    auto manifest = new_manifest(key, meta, value);
    if (!manifest.has_value()) return {places.begin(), places.end()};
    manifest->sums.push_back(Checksum::of(value));
    const std::vector<std::byte> head = encode_manifest(*manifest);
    const RespAround frame = resp_set(manifest_name(key), head.size() + value.size(), options_.ttl);
    commands += frame.before;
    for (const std::span<const std::byte> part : {std::span(head), value}) {
      commands.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    commands += frame.after;
  }
  std::vector<std::size_t> refused;
  std::size_t answered = 0;
  const auto done = cluster_.call(
      manifest_name(entries[places.front()].key),
      {.lane = RemoteLane::kData, .time = servers_.time_for(Bytes(commands.size()))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        refused.clear();
        answered = 0;
        const std::string_view piece = commands;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        for (const std::size_t i : places) {
          AFI_TRY(RespHead head, connection.read_head(deadline));
          const bool is_error = head.kind == RespKind::kError;
          if (is_error && answered == 0) {
            refusal = std::move(head.text);
            connection.abandon();  // the other replies are still to come
            return {};
          }
          const bool is_done = head.kind == RespKind::kText && head.text == "OK";
          if (!AFI_GUARD("remote.set.reply", is_error || is_done)) {
            connection.abandon();
            return fail(ErrorCode::kCorruption, connection.name() + ": unexpected reply");
          }
          if (is_error) refused.push_back(i);
          ++answered;
        }
        return {};
      });
  if (done.has_value()) return refused;
  for (const std::size_t i : places.subspan(answered)) results[i] = std::unexpected(done.error());
  return refused;
}

}  // namespace afterimage
