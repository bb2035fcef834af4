// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "storage/redis/connection.h"
#include "storage/redis/slots.h"

/// Whether what a server holds is what its process was given. A server that starts from a snapshot
/// (RDB, AOF, a backup) may hold entries that were erased since, and a list of erasures without
/// them. Its process is another one then: INFO names another run_id, which no snapshot can know. So
/// each server carries a marker: the run ids of the processes, its own and its replicas', whose
/// entries have never been out of memory. A server whose own run id is not in its marker is emptied
/// of our keys before it is used.
///
/// Errors   kUnavailable: the server failed, or refuses a command; the message names it.
/// Threads  Any.
/// Source   docs/decisions/0040-entries-end-with-the-servers-process.md; docs/formats/remote.md.
namespace afterimage {

/// The marker's key: one that the cluster puts into this slot. 0 on standalone servers.
[[nodiscard]] std::string marker_name(std::uint16_t slot);
/// A key in the slot of another key, to try commands with.
[[nodiscard]] std::string scratch_name(std::string_view key);

/// Run ids in the marker; empty: there is none.
Result<std::set<std::string>> read_marker(RespConnection& connection, const std::string& marker,
                                          Duration deadline);
/// Adds run ids to the marker, if one of them is missing, and renews its time to live of a week.
Result<void> extend_marker(RespConnection& connection, const std::string& marker,
                           const std::set<std::string>& runs, Duration deadline);

/// Deletes our keys from `cursor` on ("0": from the start), page by page, until `until`. True: none is
/// left, or another process has finished before (the marker has `run`). False: time is up; `cursor`
/// says where to go on.
Result<bool> delete_our_keys(RespConnection& connection, const std::string& marker,
                             const std::string& run, std::string& cursor, const Clock& clock,
                             Duration until, Duration deadline);

/// The commands that the tier needs and that the server refuses, because they are renamed or not
/// allowed to this user. `again` opens another connection: some servers and proxies close one that
/// sends what they do not know. kTimeout: the server is too slow to tell; nothing is refused then.
inline constexpr int kCommandsTried = 13;
Result<std::vector<std::string>> refused_commands(
    const std::function<Result<std::unique_ptr<RespConnection>>()>& again,
    const std::string& scratch, Duration deadline);

/// An error reply that says "not this command", rather than "not now".
[[nodiscard]] bool is_refusal(std::string_view error);

}  // namespace afterimage
