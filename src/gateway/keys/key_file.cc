// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/keys/key_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "gateway/config/tenant_name.h"

namespace afterimage {
namespace {

using KeyJson = nlohmann::ordered_json;

constexpr std::uint64_t kVersion = 1;
constexpr std::int64_t kLatest = 253'402'300'800;  // the year 10000
constexpr std::size_t kMaxBudgets = 32;

std::unexpected<Error> damaged(std::string message) {
  return fail(ErrorCode::kCorruption, std::move(message));
}

/// A document that has the version and one list, and nothing else.
Result<KeyJson> read_list(std::string_view text, std::string_view list) {
  KeyJson root = KeyJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return damaged("this is not a JSON object");
  if (root.value("version", KeyJson()) != kVersion) {
    return damaged(fmt::format("\"version\" is not {}: another version wrote it", kVersion));
  }
  const auto found = root.find(list);
  if (root.size() != 2 || found == root.end() || !found->is_array()) {
    return damaged(fmt::format("it must have \"version\" and a list \"{}\", nothing else", list));
  }
  KeyJson items = std::move(*found);
  return items;
}

/// Reads members of one object and says at the end which were unknown.
class MemberReader {
 public:
  explicit MemberReader(const KeyJson& object) : object_(object) {}

  bool text(const char* name, std::string& value) {
    const KeyJson* const member = take(name);
    if (member == nullptr || !member->is_string()) return false;
    value = member->get<std::string>();
    return true;
  }
  bool number(const char* name, std::uint64_t& value) {
    const KeyJson* const member = take(name);
    if (member == nullptr || !member->is_number_unsigned()) return false;
    value = member->get<std::uint64_t>();
    return true;
  }
  bool seconds(const char* name, std::int64_t& value) {
    std::uint64_t given = 0;
    if (!number(name, given) || given > static_cast<std::uint64_t>(kLatest)) return false;
    value = static_cast<std::int64_t>(given);
    return true;
  }
  bool flag(const char* name, bool& value) {
    const KeyJson* const member = take(name);
    if (member == nullptr || !member->is_boolean()) return false;
    value = member->get<bool>();
    return true;
  }
  const KeyJson* list(const char* name) {
    const KeyJson* const member = take(name);
    return member == nullptr || !member->is_array() ? nullptr : member;
  }
  [[nodiscard]] bool took_all() const { return taken_ == object_.size(); }

 private:
  const KeyJson* take(const char* name) {
    const auto it = object_.find(name);
    if (it == object_.end()) return nullptr;
    ++taken_;
    return &*it;
  }

  const KeyJson& object_;
  std::size_t taken_ = 0;
};

bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<ManagedKey> read_key(const KeyJson& json, std::size_t number) {
  const auto wrong = [&](std::string_view what) {
    return damaged(fmt::format("key {}: {}", number + 1, what));
  };
  if (!json.is_object()) return wrong("it is not an object");
  MemberReader members(json);
  ManagedKey key;
  if (!members.text("name", key.name)) return wrong("it has no \"name\"");
  if (!check_tenant_name(key.name).has_value()) return wrong("its name is not valid");
  const auto wrong_member = [&](std::string_view member) {
    return damaged(fmt::format("key {}: \"{}\" is missing or not valid", key.name, member));
  };
  if (!members.text("group", key.group) ||
      (!key.group.empty() && !check_name(key.group).has_value())) {
    return wrong_member("group");
  }
  if (!members.text("key_sha256", key.key_sha256) || !is_sha256_hex(key.key_sha256)) {
    return wrong_member("key_sha256");
  }
  if (!members.text("previous_sha256", key.previous_sha256) ||
      (!key.previous_sha256.empty() && !is_sha256_hex(key.previous_sha256))) {
    return wrong_member("previous_sha256");
  }
  if (!members.seconds("previous_until", key.previous_until_s)) {
    return wrong_member("previous_until");
  }
  const KeyJson* const budgets = members.list("budgets");
  if (budgets == nullptr || budgets->size() > kMaxBudgets) return wrong_member("budgets");
  for (const KeyJson& budget : *budgets) {
    if (!budget.is_string()) return wrong_member("budgets");
    const auto read = parse_budget(budget.get_ref<const std::string&>());
    if (!read.has_value()) return wrong_member("budgets");
    key.budgets.push_back(to_text(*read));
  }
  if (!members.flag("disabled", key.disabled)) return wrong_member("disabled");
  if (!members.seconds("created", key.created_s)) return wrong_member("created");
  if (!members.seconds("rotated", key.rotated_s)) return wrong_member("rotated");
  if (!members.took_all()) return wrong("it has a member that this version does not know");
  return key;
}

constexpr std::array<std::pair<const char*, std::uint64_t KeyUsage::*>, 7> kTotals{{
    {"requests", &KeyUsage::requests},
    {"prompt_tokens", &KeyUsage::prompt_tokens},
    {"output_tokens", &KeyUsage::output_tokens},
    {"saved_prompt_tokens", &KeyUsage::saved_prompt_tokens},
    {"saved_output_tokens", &KeyUsage::saved_output_tokens},
    {"cost_nano", &KeyUsage::cost_nano},
    {"estimated", &KeyUsage::estimated},
}};

/// [number of the window, requests, tokens, money]; -1: nothing was used yet.
std::optional<WindowUsage> read_window(const KeyJson& json) {
  if (!json.is_array() || json.size() != 1 + kBudgetKinds) return std::nullopt;
  WindowUsage window;
  const bool is_empty = json[0].is_number_integer() && json[0] == -1;
  if (!is_empty && !json[0].is_number_unsigned()) return std::nullopt;
  if (!is_empty) {
    const auto number = json[0].get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(kLatest)) return std::nullopt;
    window.number = static_cast<std::int64_t>(number);
  }
  for (std::size_t i = 0; i < kBudgetKinds; ++i) {
    if (!json[i + 1].is_number_unsigned()) return std::nullopt;
    window.used[i] = json[i + 1].get<std::uint64_t>();
  }
  return window;
}

Result<AccountState> read_account(const KeyJson& json, std::string& name) {
  if (!json.is_object()) return damaged("an account is not an object");
  MemberReader members(json);
  if (!members.text("name", name) || !check_tenant_name(name).has_value()) {
    return damaged("an account has no valid name");
  }
  const auto wrong_member = [&](std::string_view member) {
    return damaged(fmt::format("account {}: \"{}\" is missing or not valid", name, member));
  };
  AccountState state;
  for (const auto& [member, place] : kTotals) {
    if (!members.number(member, state.total.*place)) return wrong_member(member);
  }
  const KeyJson* const windows = members.list("windows");
  if (windows == nullptr || windows->size() != kBudgetWindows) return wrong_member("windows");
  for (std::size_t i = 0; i < kBudgetWindows; ++i) {
    const auto window = read_window((*windows)[i]);
    if (!window.has_value()) return wrong_member("windows");
    state.windows[i] = *window;
  }
  if (!members.took_all()) return wrong_member("of another version");
  return state;
}

}  // namespace

Result<std::vector<ManagedKey>> parse_keys(std::string_view json) {
  AFI_TRY(const KeyJson items, read_list(json, "keys"));
  if (items.size() > kMaxManagedKeys) {
    return damaged(fmt::format("it has more than {} keys", kMaxManagedKeys));
  }
  std::vector<ManagedKey> keys;
  std::set<std::string> names;
  std::set<std::string> hashes;
  for (const KeyJson& item : items) {
    AFI_TRY(ManagedKey key, read_key(item, keys.size()));
    if (!names.insert(key.name).second) return damaged("two keys are named " + key.name);
    if (!hashes.insert(key.key_sha256).second ||
        (!key.previous_sha256.empty() && !hashes.insert(key.previous_sha256).second)) {
      return damaged("key " + key.name + ": another key has the same hash");
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

std::string print_keys(const std::vector<ManagedKey>& keys) {
  KeyJson list = KeyJson::array();
  for (const ManagedKey& key : keys) {
    list.push_back({{"name", key.name},
                    {"group", key.group},
                    {"key_sha256", key.key_sha256},
                    {"previous_sha256", key.previous_sha256},
                    {"previous_until", static_cast<std::uint64_t>(key.previous_until_s)},
                    {"budgets", key.budgets},
                    {"disabled", key.disabled},
                    {"created", static_cast<std::uint64_t>(key.created_s)},
                    {"rotated", static_cast<std::uint64_t>(key.rotated_s)}});
  }
  return KeyJson{{"version", kVersion}, {"keys", std::move(list)}}.dump(1) + "\n";
}

Result<SavedUsage> parse_usage(std::string_view json) {
  AFI_TRY(const KeyJson items, read_list(json, "accounts"));
  SavedUsage usage;
  for (const KeyJson& item : items) {
    std::string name;
    AFI_TRY(const AccountState state, read_account(item, name));
    if (!usage.emplace(name, state).second) return damaged("two accounts are named " + name);
  }
  return usage;
}

std::string print_usage(const SavedUsage& usage) {
  KeyJson list = KeyJson::array();
  for (const auto& [name, state] : usage) {
    KeyJson account{{"name", name}};
    for (const auto& [member, place] : kTotals) account[member] = state.total.*place;
    KeyJson windows = KeyJson::array();
    for (const WindowUsage& window : state.windows) {
      KeyJson numbers = KeyJson::array();
      if (window.number < 0) {
        numbers.push_back(-1);
      } else {
        numbers.push_back(static_cast<std::uint64_t>(window.number));
      }
      for (const std::uint64_t used : window.used) numbers.push_back(used);
      windows.push_back(std::move(numbers));
    }
    account["windows"] = std::move(windows);
    list.push_back(std::move(account));
  }
  return KeyJson{{"version", kVersion}, {"accounts", std::move(list)}}.dump(1) + "\n";
}

}  // namespace afterimage
