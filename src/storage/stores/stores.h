// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/clock.h"
#include "afterimage/disk_tier.h"
#include "afterimage/encrypted_tier.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/shared_store.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "foundation/platform/files.h"

namespace afterimage {

struct StoresOptions {
  Tier* nearest = nullptr;  // stacked above the others; outlives the stores. nullptr: none
  std::string disk;         // folder of the disk tier; empty: none
  Bytes disk_capacity = 64_GiB;
  Duration disk_flush_interval = std::chrono::seconds(1);   // DiskTierOptions::flush_interval
  std::optional<SharedStoreOptions> remote = std::nullopt;  // nullopt: no remote tier
  /// File with the secret of all keys, the same in every process that shares the remote tier.
  /// Empty: the disk folder's own secret, or a random one.
  std::string secret_file;
  std::string encrypt_key_file;  // empty, and no variable either: entries are stored in the clear
  std::string encrypt_key_env;   // environment variable with the keys instead of a file
  /// Called for a store that is asked for and not usable now: "disk" (left out) or "remote" (tried
  /// again by itself).
  std::function<void(std::string_view store, const Error& error)> on_degraded;
};

/// Checks that a remote tier, which processes share, comes with the secret that they share.
///
/// Errors   kInvalidArgument: a `remote_url` without a `secret_file`; the message says how to create
///          one.
[[nodiscard]] Result<void> check_shared_secret(const std::string& remote_url,
                                               const std::string& secret_file);

/// The stores below memory, opened and wired: the nearest, disk, then remote, the last two encrypted
/// if there are keys, stacked into one tier. The same for every program that keeps something.
///
/// Errors   open: kInvalidArgument: no usable address of servers; kInvalidArgument, kNotFound,
///          kUnavailable: keys or a secret that are named and cannot be read. Nothing that is to be
///          encrypted is ever stored in the clear. A disk or server that cannot be used is no error.
/// Threads  open: one; then any.
class Stores {
 public:
  /// `clock` outlives the stores.
  static Result<std::unique_ptr<Stores>> open(const StoresOptions& options, const Clock& clock);
  ~Stores();
  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

  /// Under which every key is derived.
  [[nodiscard]] const Secret& secret() const;
  /// All of them, for entries whose key names their content; nullptr: there is none.
  [[nodiscard]] Tier* tier() const;
  /// The same, for entries that are replaced under their key (answers).
  [[nodiscard]] Tier* replaceable_tier() const;
  /// Each alone, encrypted or not; nullptr: there is none.
  [[nodiscard]] Tier* disk() const;
  [[nodiscard]] Tier* remote() const;
  /// Who computes what, among the processes that share the remote tier; nullptr: no remote tier.
  [[nodiscard]] LeaseService* leases() const;

  /// What is behind them, for statistics and for what is shared besides entries; nullptr: none.
  [[nodiscard]] const DiskTier* disk_tier() const;
  [[nodiscard]] SharedStore* shared_store() const;
  /// Files in the disk folder, encrypted like its entries.
  [[nodiscard]] Files& files() const;
  /// Reads the keys again, for one more user of them; nullopt: nothing is encrypted.
  [[nodiscard]] Result<std::optional<EncryptionKeys>> keys() const;

 private:
  struct State;
  explicit Stores(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
