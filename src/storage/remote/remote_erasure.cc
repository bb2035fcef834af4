// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Finds entries by their labels, which only their manifests have, and erases them.
#include <utility>

#include "storage/remote/manifest.h"
#include "storage/remote/remote_entries.h"

namespace afterimage {
namespace {

constexpr std::string_view kNamesPerCall = "256";
/// Enough of most manifests.
constexpr std::size_t kBeginning = 512;

std::unexpected<Error> unexpected_listing(RespConnection& connection) {
  connection.abandon();
  return fail(ErrorCode::kUnavailable,
              connection.name() + ": unexpected reply to SCAN or GETRANGE");
}

std::string getrange(const std::string& name, std::size_t bytes) {
  return resp_command({"GETRANGE", name, "0", std::to_string(bytes - 1)});
}

Result<std::vector<std::byte>> read_range(RespConnection& connection, Duration deadline) {
  AFI_TRY(const RespHead head, connection.read_head(deadline));
  if (head.kind != RespKind::kBulk || head.number > static_cast<std::int64_t>(kLongestManifest)) {
    return unexpected_listing(connection);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(head.number));
  AFI_TRY_VOID(connection.read_bytes(bytes, deadline));
  AFI_TRY_VOID(connection.end_bulk(deadline));
  return bytes;
}

/// Some names of manifests, and where the server goes on.
struct Page {
  std::string cursor;
  std::vector<std::string> names;
};

Result<Page> next_page(RespConnection& connection, const std::string& cursor, Duration deadline) {
  AFI_TRY(RespValue reply,
          connection.ask({"SCAN", cursor, "MATCH", kManifestPattern, "COUNT", kNamesPerCall},
                         deadline));
  if (reply.kind == RespKind::kError) {
    return fail(ErrorCode::kUnavailable, connection.name() + ": error reply: " + reply.text);
  }
  const bool well_formed = reply.kind == RespKind::kList && reply.items.size() == 2 &&
                           reply.items[0].kind == RespKind::kBulk &&
                           reply.items[1].kind == RespKind::kList;
  if (!well_formed) return unexpected_listing(connection);
  Page page{.cursor = std::move(reply.items[0].text), .names = {}};
  for (RespValue& name : reply.items[1].items) page.names.push_back(std::move(name.text));
  return page;
}

}  // namespace

/// A manifest that is damaged matches. One that is gone does not.
Result<bool> RemoteEntries::matches(RespConnection& connection, const std::string& name,
                                    std::span<const std::byte> beginning, const EntryFilter& filter,
                                    Duration deadline) const {
  if (beginning.empty()) return false;
  auto found = manifest_labels(beginning);
  if (!found.has_value()) return true;
  std::vector<std::byte> more;
  if (!found->labels.has_value()) {
    const std::string command = getrange(name, found->needed);
    const std::string_view piece = command;
    AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
    AFI_TRY(more, read_range(connection, deadline));
    if (more.empty()) return false;
    found = manifest_labels(more);
  }
  return !found.has_value() || !found->labels.has_value() || filter.matches(*found->labels);
}

Result<std::vector<TierKey>> RemoteEntries::find_matching(RemoteNode& server,
                                                          const EntryFilter& filter) {
  std::vector<TierKey> keys;
  std::string cursor = "0";
  const auto page = [&](RespConnection& connection, Duration deadline) -> Result<bool> {
    AFI_TRY(Page listed, next_page(connection, cursor, deadline));
    std::string commands;
    for (const std::string& name : listed.names) commands += getrange(name, kBeginning);
    const std::string_view piece = commands;
    if (!commands.empty()) AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
    std::vector<std::vector<std::byte>> beginnings;
    for (std::size_t i = 0; i < listed.names.size(); ++i) {
      AFI_TRY(beginnings.emplace_back(), read_range(connection, deadline));
    }
    for (std::size_t i = 0; i < listed.names.size(); ++i) {
      const auto key = key_of_manifest(listed.names[i]);
      if (!key.has_value()) continue;
      AFI_TRY(const bool matching,
              matches(connection, listed.names[i], beginnings[i], filter, deadline));
      if (matching) keys.push_back(*key);
    }
    cursor = std::move(listed.cursor);
    return true;
  };
  do {
    AFI_TRY_VOID(server.call(RemoteLane::kData, servers_.time_for(1_MiB), true, page));
  } while (cursor != "0");
  return keys;
}

Result<EntryCount> RemoteEntries::erase_matching(
    const EntryFilter& filter, const std::function<void(const TierKey&)>& erased) {
  AFI_TRY(const auto servers, cluster_.masters());
  EntryCount count;
  Result<void> failed;
  for (const auto& server : servers) {
    const auto keys = find_matching(*server, filter);
    if (!keys.has_value()) {
      failed = std::unexpected(keys.error());
      continue;
    }
    for (const TierKey& key : *keys) {
      const auto was_there = erase(key);
      if (!was_there.has_value()) {
        failed = std::unexpected(was_there.error());
      } else if (*was_there) {
        count += EntryCount(1);
      }
      erased(key);
    }
  }
  AFI_TRY_VOID(failed);
  return count;
}

}  // namespace afterimage
