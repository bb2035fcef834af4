// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "foundation/platform/mutex.h"
#include "gateway/keys/key_file.h"

namespace afterimage {

/// A key that was made just now: the only time that its secret is known.
struct NewKey {
  ManagedKey key;
  std::string secret;  // "afi-" and 64 hex digits
};

/// The API keys that operators make while the gateway runs, and the usage of all keys and tenants.
///
/// Keys     Only hashes are kept: in memory, in the file, in every answer. A key is 256 random bits, so
///          that its hash need not be slow. Names are never used again: the cached content and the
///          usage of a name belong to who had it.
/// Files    `file` is replaced atomically at every change, before the change has an effect; the usage
///          lies beside it, in `file`.usage. A file that another process changed meanwhile is not
///          overwritten.
/// Errors   open: kCorruption: a file that cannot be read as what it should be. make, rotate, …:
///          kInvalidArgument: a name or a budget that is not valid, or taken; kNotFound: no such key;
///          kUnavailable: the file cannot be written, or there is none; kLimitExceeded: too many keys.
/// Threads  Any.
/// Source   src/gateway/keys/DESIGN.md; docs/formats/api-keys.md.
class KeyStore {
 public:
  struct Options {
    std::string file;        // empty: no keys can be made, and usage lasts as long as the process
    Files* files = nullptr;  // outlives it; needed with `file`
  };
  /// `wall` outlives it.
  static Result<std::unique_ptr<KeyStore>> open(const Options& options, const WallClock& wall);

  [[nodiscard]] std::vector<ManagedKey> list() const;
  /// The key of this name.
  [[nodiscard]] std::optional<ManagedKey> find(std::string_view name) const;
  Result<NewKey> make(const std::string& name, const std::string& group,
                      std::span<const std::string> budgets);
  /// The new key holds at once, the old one for `grace` more.
  Result<NewKey> rotate(std::string_view name, Duration grace);
  Result<ManagedKey> set_disabled(std::string_view name, bool disabled);
  Result<ManagedKey> set_budgets(std::string_view name, std::span<const std::string> budgets);
  /// Reads the file again: an operator may have edited it.
  Result<void> reload();

  /// The account of a key or tenant, which is made if there is none. Its budgets are its owner's to set.
  [[nodiscard]] std::shared_ptr<Account> account(std::string_view name);
  /// All accounts, by name.
  [[nodiscard]] std::map<std::string, std::shared_ptr<Account>, std::less<>> accounts() const;
  /// Writes the usage, if it has changed since it was written.
  Result<void> save_usage();
  /// Whether keys can be made.
  [[nodiscard]] bool is_enabled() const { return !options_.file.empty(); }
  [[nodiscard]] WallTime now() const { return wall_.now(); }

 private:
  KeyStore(Options options, const WallClock& wall) : options_(std::move(options)), wall_(wall) {}

  using Keys = std::vector<ManagedKey>;
  [[nodiscard]] Result<std::string> read_file(const std::string& path) const;
  Result<void> write(const Keys& keys) AFI_REQUIRES(mutex_);
  /// The change of one key: made in a copy, written, and then in force.
  template <typename Change>
  Result<ManagedKey> change(std::string_view name, Change made);
  Result<void> read_usage();
  [[nodiscard]] std::int64_t now_s() const;

  const Options options_;
  const WallClock& wall_;
  mutable Mutex mutex_;
  Keys keys_ AFI_GUARDED_BY(mutex_);
  std::string written_ AFI_GUARDED_BY(mutex_);  // the file as this process knows it
  mutable Mutex accounts_mutex_;
  std::map<std::string, std::shared_ptr<Account>, std::less<>> accounts_
      AFI_GUARDED_BY(accounts_mutex_);
  Mutex saving_;  // one writer of the usage file at a time
  std::string saved_ AFI_GUARDED_BY(saving_);
};

/// The SHA-256 of a key, as hex.
[[nodiscard]] std::string key_sha256(std::string_view key);

}  // namespace afterimage
