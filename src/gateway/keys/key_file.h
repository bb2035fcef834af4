// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "gateway/keys/account.h"

namespace afterimage {

/// An API key that an operator made through the admin API: a tenant with one key.
struct ManagedKey {
  std::string name;
  std::string group;                  // as tenancy.tenants.group; empty: a tenant of its own
  std::string key_sha256;             // 64 lower-case hex digits
  std::string previous_sha256;        // of the key before the last rotation; empty: none
  std::int64_t previous_until_s = 0;  // since 1970: until then it is accepted, too
  std::vector<std::string> budgets;   // as parse_budget() reads them
  bool disabled = false;
  std::int64_t created_s = 0;
  std::int64_t rotated_s = 0;  // 0: never

  bool operator==(const ManagedKey&) const = default;
};

inline constexpr std::size_t kMaxManagedKeys = 10'000;

/// The bytes of tenancy.keys_file: JSON, in docs/formats/api-keys.md. Names, hashes and budgets are
/// checked, and no name or hash may be there twice: who edits the file by hand learns of every
/// mistake at the start and not from a key that is not accepted.
///
/// Errors   kCorruption: anything else than what print_keys() writes, unknown members included. The
///          message says which key and member, and repeats no hash.
/// Threads  Any.
[[nodiscard]] Result<std::vector<ManagedKey>> parse_keys(std::string_view json);
[[nodiscard]] std::string print_keys(const std::vector<ManagedKey>& keys);

/// What each key and each tenant of the settings has used, by name.
using SavedUsage = std::map<std::string, AccountState, std::less<>>;
/// The same for the file beside it.
[[nodiscard]] Result<SavedUsage> parse_usage(std::string_view json);
[[nodiscard]] std::string print_usage(const SavedUsage& usage);

}  // namespace afterimage
