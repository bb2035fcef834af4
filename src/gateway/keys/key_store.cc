// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/keys/key_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "afterimage/digest.h"
#include "afterimage/secret.h"
#include "foundation/crypto/sha256.h"
#include "gateway/config/tenant_name.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxFile = 64_MiB;
constexpr std::string_view kPrefix = "afi-";
constexpr std::size_t kMaxGivenBudgets = 32;

std::unexpected<Error> refused(ErrorCode code, std::string message) {
  return fail(code, std::move(message));
}

/// As they are stored: two texts of the same budget are one.
Result<std::vector<std::string>> checked_budgets(std::span<const std::string> given) {
  if (given.size() > kMaxGivenBudgets) {
    return refused(ErrorCode::kInvalidArgument, "too many budgets: at most 32");
  }
  std::vector<std::string> budgets;
  for (const std::string& text : given) {
    AFI_TRY(const Budget budget, parse_budget(text));
    budgets.push_back(to_text(budget));
  }
  return budgets;
}

Result<std::string> random_key() {
  AFI_TRY(const Secret secret, random_secret());
  return std::string(kPrefix) + to_hex(secret);
}

std::string usage_file(const std::string& file) { return file + ".usage"; }

}  // namespace

std::string key_sha256(std::string_view key) {
  return to_hex(sha256(std::as_bytes(std::span(key.data(), key.size()))));
}

Result<std::unique_ptr<KeyStore>> KeyStore::open(const Options& options, const WallClock& wall) {
  std::unique_ptr<KeyStore> store(new KeyStore(options, wall));
  if (!store->is_enabled()) return store;
  AFI_TRY_VOID(options.files->check_replaceable(options.file));
  AFI_TRY_VOID(store->reload());
  AFI_TRY_VOID(store->read_usage());
  return store;
}

/// Empty: there is no such file yet.
Result<std::string> KeyStore::read_file(const std::string& path) const {
  const auto bytes = options_.files->read(path, kMaxFile);
  if (!bytes.has_value()) {
    if (bytes.error().code == ErrorCode::kNotFound) return std::string();
    return std::unexpected(bytes.error());
  }
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Result<void> KeyStore::reload() {
  if (!is_enabled()) return {};
  const MutexLock lock(mutex_);
  AFI_TRY(std::string text, read_file(options_.file));
  Keys keys;
  if (!text.empty()) {
    auto read = parse_keys(text);
    if (!read.has_value()) {
      return refused(ErrorCode::kCorruption,
                     fmt::format("{}: {}; correct it, or move it away to begin without keys",
                                 options_.file, read.error().message));
    }
    keys = *std::move(read);
  }
  keys_ = std::move(keys);
  written_ = std::move(text);
  return {};
}

Result<void> KeyStore::read_usage() {
  const std::string path = usage_file(options_.file);
  AFI_TRY(const std::string text, read_file(path));
  if (text.empty()) return {};
  auto usage = parse_usage(text);
  if (!usage.has_value()) {
    return refused(ErrorCode::kCorruption,
                   fmt::format("{}: {}; correct it, or move it away to count all usage from 0",
                               path, usage.error().message));
  }
  const MutexLock lock(accounts_mutex_);
  for (const auto& [name, state] : *usage) accounts_[name] = std::make_shared<Account>(state);
  return {};
}

Result<void> KeyStore::write(const Keys& keys) {
  AFI_TRY(const std::string there, read_file(options_.file));
  if (there != written_) {
    return refused(ErrorCode::kUnavailable,
                   options_.file +
                       " was changed by somebody else: reload the settings (SIGHUP), then try "
                       "again; gateways must not share this file");
  }
  std::string text = print_keys(keys);
  AFI_TRY_VOID(options_.files->replace(options_.file, std::as_bytes(std::span(text))));
  written_ = std::move(text);
  return {};
}

template <typename Change>
Result<ManagedKey> KeyStore::change(std::string_view name, Change made) {
  const MutexLock lock(mutex_);
  Keys keys = keys_;
  const auto it = std::ranges::find(keys, name, &ManagedKey::name);
  if (it == keys.end()) {
    return refused(ErrorCode::kNotFound,
                   fmt::format("there is no key '{}' that was made here: GET /admin/api/keys lists "
                               "them; those of the settings are changed in the settings",
                               name));
  }
  made(*it);
  ManagedKey changed = *it;
  AFI_TRY_VOID(write(keys));
  keys_ = std::move(keys);
  return changed;
}

std::vector<ManagedKey> KeyStore::list() const {
  const MutexLock lock(mutex_);
  return keys_;
}

std::optional<ManagedKey> KeyStore::find(std::string_view name) const {
  const MutexLock lock(mutex_);
  const auto it = std::ranges::find(keys_, name, &ManagedKey::name);
  return it == keys_.end() ? std::nullopt : std::optional(*it);
}

std::int64_t KeyStore::now_s() const {
  const auto now = std::chrono::floor<std::chrono::seconds>(wall_.now());
  return std::max<std::int64_t>(0, now.time_since_epoch().count());
}

Result<NewKey> KeyStore::make(const std::string& name, const std::string& group,
                              std::span<const std::string> budgets) {
  if (!is_enabled()) {
    return refused(ErrorCode::kUnavailable,
                   "no keys can be made: set tenancy.keys_file in the settings, and restart");
  }
  AFI_TRY_VOID(check_tenant_name(name));
  if (!group.empty()) AFI_TRY_VOID(check_name(group));
  NewKey made;
  made.key.name = name;
  made.key.group = group;
  AFI_TRY(made.key.budgets, checked_budgets(budgets));
  AFI_TRY(made.secret, random_key());
  made.key.key_sha256 = key_sha256(made.secret);
  made.key.created_s = now_s();
  const MutexLock lock(mutex_);
  if (keys_.size() >= kMaxManagedKeys) {
    return refused(ErrorCode::kLimitExceeded, "there are too many keys: at most 10000");
  }
  if (std::ranges::count(keys_, name, &ManagedKey::name) != 0) {
    return refused(ErrorCode::kInvalidArgument,
                   fmt::format("there is a key '{}' already: rotate it for a new secret", name));
  }
  Keys keys = keys_;
  keys.push_back(made.key);
  AFI_TRY_VOID(write(keys));
  keys_ = std::move(keys);
  return made;
}

Result<NewKey> KeyStore::rotate(std::string_view name, Duration grace) {
  AFI_TRY(std::string secret, random_key());
  const std::int64_t now = now_s();
  const auto until = std::chrono::ceil<std::chrono::seconds>(grace).count() + now;
  AFI_TRY(ManagedKey key, change(name, [&](ManagedKey& changed) {
            // An earlier one is not accepted any more, whatever its grace was.
            changed.previous_sha256 = grace > Duration(0) ? changed.key_sha256 : "";
            changed.previous_until_s = grace > Duration(0) ? until : 0;
            changed.key_sha256 = key_sha256(secret);
            changed.rotated_s = now;
          }));
  return NewKey{.key = std::move(key), .secret = std::move(secret)};
}

Result<ManagedKey> KeyStore::set_disabled(std::string_view name, bool disabled) {
  return change(name, [&](ManagedKey& key) { key.disabled = disabled; });
}

Result<ManagedKey> KeyStore::set_budgets(std::string_view name,
                                         std::span<const std::string> budgets) {
  AFI_TRY(auto checked, checked_budgets(budgets));
  return change(name, [&](ManagedKey& key) { key.budgets = std::move(checked); });
}

std::shared_ptr<Account> KeyStore::account(std::string_view name) {
  const MutexLock lock(accounts_mutex_);
  const auto it = accounts_.find(name);
  if (it != accounts_.end()) return it->second;
  return accounts_.emplace(std::string(name), std::make_shared<Account>()).first->second;
}

std::map<std::string, std::shared_ptr<Account>, std::less<>> KeyStore::accounts() const {
  const MutexLock lock(accounts_mutex_);
  return accounts_;
}

Result<void> KeyStore::save_usage() {
  if (!is_enabled()) return {};
  const MutexLock lock(saving_);
  SavedUsage usage;
  for (const auto& [name, account] : accounts()) {
    const AccountState state = account->state();
    if (state != AccountState()) usage.emplace(name, state);
  }
  std::string text = print_usage(usage);
  if (text == saved_ || (usage.empty() && saved_.empty())) return {};
  AFI_TRY_VOID(options_.files->replace(usage_file(options_.file), std::as_bytes(std::span(text))));
  saved_ = std::move(text);
  return {};
}

}  // namespace afterimage
