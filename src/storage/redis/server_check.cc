// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/server_check.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "storage/redis/remote_options.h"

namespace afterimage {
namespace {

/// Longer than entries live; renewed at each look.
constexpr std::string_view kMarkerLife = "604800000";  // a week, in milliseconds
/// Run ids of processes that ended stay in a marker; they match nothing.
constexpr std::size_t kMaxRuns = 256;
constexpr std::string_view kKeysPerPage = "512";

std::unexpected<Error> refused(const RespConnection& connection, std::string_view command,
                               const RespValue& reply) {
  return fail(
      ErrorCode::kUnavailable,
      connection.name() + ": " + std::string(command) +
          (reply.kind == RespKind::kError ? " failed: " + reply.text : ": unexpected reply"));
}

std::set<std::string> runs_of(std::string_view text) {
  std::set<std::string> runs;
  while (!text.empty() && runs.size() < kMaxRuns) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) runs.emplace(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return runs;
}

}  // namespace

std::string marker_name(std::uint16_t slot) {
  const std::string prefix = std::string(kRemoteKeyPrefix) + "r:";
  for (std::uint32_t n = 0;; ++n) {
    std::string name = prefix + std::to_string(n);
    if (slot == 0 || slot_of(name) == slot) return name;
  }
}

// In braces: the hash tag, which alone decides the slot.
std::string scratch_name(std::string_view key) {
  return std::string(kRemoteKeyPrefix) + "w{" + std::string(key) + "}";
}

Result<std::set<std::string>> read_marker(RespConnection& connection, const std::string& marker,
                                          Duration deadline) {
  AFI_TRY(const RespValue reply, connection.ask({"GET", marker}, deadline));
  if (reply.kind == RespKind::kNil) return std::set<std::string>();
  if (reply.kind != RespKind::kBulk) return refused(connection, "GET", reply);
  return runs_of(reply.text);
}

Result<void> extend_marker(RespConnection& connection, const std::string& marker,
                           const std::set<std::string>& runs, Duration deadline) {
  AFI_TRY(std::set<std::string> all, read_marker(connection, marker, deadline));
  if (std::ranges::includes(all, runs)) {
    AFI_TRY_VOID(connection.ask({"PEXPIRE", marker, kMarkerLife}, deadline));
    return {};
  }
  if (all.size() + runs.size() > kMaxRuns) all.clear();
  all.insert(runs.begin(), runs.end());
  std::string text;
  for (const std::string& run : all) text += (text.empty() ? "" : " ") + run;
  AFI_TRY(const RespValue reply,
          connection.ask({"SET", marker, text, "PX", kMarkerLife}, deadline));
  if (reply.kind != RespKind::kText) return refused(connection, "SET", reply);
  return {};
}

Result<bool> delete_our_keys(RespConnection& connection, const std::string& marker,
                             const std::string& run, std::string& cursor, const Clock& clock,
                             Duration until, Duration deadline) {
  const std::string pattern = std::string(kRemoteKeyPrefix) + "*";
  do {
    if (clock.now() >= until) return false;
    AFI_TRY(const auto runs, read_marker(connection, marker, deadline));
    if (runs.contains(run)) return true;
    AFI_TRY(RespValue page,
            connection.ask({"SCAN", cursor, "MATCH", pattern, "COUNT", kKeysPerPage}, deadline));
    const bool is_page = page.kind == RespKind::kList && page.items.size() == 2 &&
                         page.items[0].kind == RespKind::kBulk &&
                         page.items[1].kind == RespKind::kList;
    if (!is_page) return refused(connection, "SCAN", page);
    std::string commands;
    for (const RespValue& key : page.items[1].items) commands += resp_command({"DEL", key.text});
    const std::string_view piece = commands;
    if (!commands.empty()) AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
    for (std::size_t i = 0; i < page.items[1].items.size(); ++i) {
      AFI_TRY(const RespHead reply, connection.read_head(deadline));
      if (reply.kind != RespKind::kNumber) {
        return refused(connection, "DEL",
                       {.kind = reply.kind, .text = reply.text, .number = 0, .items = {}});
      }
    }
    cursor = std::move(page.items[0].text);
  } while (cursor != "0");
  return true;
}

bool is_refusal(std::string_view error) {
  const std::string_view code = resp_error_code(error);
  return code == "ERR" || code == "NOPERM";
}

Result<std::vector<std::string>> refused_commands(
    const std::function<Result<std::unique_ptr<RespConnection>>()>& again,
    const std::string& scratch, Duration deadline) {
  using Words = std::vector<std::string_view>;
  // In an order in which each is valid after those before it.
  const std::array<Words, kCommandsTried> commands{
      Words{"INFO", "server"},
      Words{"SET", scratch, "", "PX", "1"},
      Words{"GET", scratch},
      Words{"GETRANGE", scratch, "0", "0"},
      Words{"EXISTS", scratch},
      Words{"PEXPIRE", scratch, "1"},
      Words{"DEL", scratch},
      Words{"SCAN", "0", "MATCH", scratch, "COUNT", "1"},
      Words{"WATCH", scratch},
      Words{"UNWATCH"},
      Words{"WAIT", "0", "1"},
      Words{"MULTI"},
      Words{"EXEC"}};
  std::vector<std::string> refused;
  std::unique_ptr<RespConnection> connection;
  for (const Words& words : commands) {
    // Without MULTI, EXEC is an error for another reason.
    if (words[0] == "EXEC" && !refused.empty() && refused.back() == "MULTI") continue;
    if (connection == nullptr) {
      AFI_TRY(connection, again());
    }
    const std::string command = resp_command(words);
    const std::string_view piece = command;
    const auto sent = connection->send(std::span(&piece, 1), deadline);
    const auto reply = sent.has_value() ? connection->read_value(deadline)
                                        : Result<RespValue>(std::unexpected(sent.error()));
    if (!reply.has_value() && reply.error().code == ErrorCode::kTimeout) {
      return std::unexpected(reply.error());
    }
    if (!reply.has_value() || (reply->kind == RespKind::kError && is_refusal(reply->text))) {
      refused.emplace_back(words[0]);
    }
    if (!reply.has_value()) connection.reset();
  }
  return refused;
}

}  // namespace afterimage
