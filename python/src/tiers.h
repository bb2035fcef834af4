// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/disk_tier.h"
#include "afterimage/encrypted_tier.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/shared_store.h"
#include "afterimage/tier.h"
#include "caches/invalidation/invalidation_log.h"
#include "foundation/platform/files.h"
#include "foundation/platform/workers.h"
#include "storage/encryption/encrypted_cell.h"
#include "storage/encryption/encrypted_files.h"
#include "storage/memory/file_cell.h"
#include "storage/remote/remote_cell.h"

namespace afterimage::python {

/// A tier with everything it uses. Entries read from it keep it alive, even past close().
struct TierStore {
  explicit TierStore(Bytes memory) : memory(memory) {}

  SystemClock clock;
  MemoryBudget memory;
  std::string folder;                   // of the disk
  Duration ttl{0};                      // of entries on the servers
  std::optional<std::string> key_file;  // entries are encrypted with the keys in it
  std::unique_ptr<DiskTier> disk;
  std::unique_ptr<SharedStore> shared;
  std::unique_ptr<EncryptedTier> encrypted;
  std::vector<std::shared_ptr<TierStore>> stacked;
  std::unique_ptr<TierStack> stack;
  Tier* tier = nullptr;  // disk, shared, encrypted or stack
  /// Kinds of caches that record their invalidations in this disk's folder: one of each at a time.
  std::mutex mutex;
  std::set<std::string, std::less<>> recorded;
  Workers readers{kReaders - 1, 1024};  // of several entries at once, beside the calling thread

  static constexpr unsigned kReaders = 4;
  /// An entry of exactly the target's size. False: a miss; the target may have been changed.
  bool read_into(const TierKey& key, std::span<std::byte> target);
};
using TierPtr = std::shared_ptr<TierStore>;

struct DiskLimits {
  Bytes capacity;
  Duration put_timeout = std::chrono::milliseconds(10);  // for space in the write buffers
  Duration flush_interval = std::chrono::seconds(1);     // see DiskTierOptions
};
Result<TierPtr> open_disk_store(const std::string& folder, const DiskLimits& limits, Bytes memory,
                                const std::optional<std::string>& key_file);
/// The store of a Python Tier. Raises TypeError for other objects, InvalidArgument if it is closed.
TierPtr tier_store_of(nanobind::handle object);

/// The arguments of a cache that name what is below it. Both are absent: nothing is.
struct BelowArgs {
  std::optional<std::string> disk;
  std::uint64_t disk_bytes = 0;
  TierPtr tier;
  Duration put_timeout = std::chrono::milliseconds(10);  // of the disk
};
/// nullptr: nothing. kInvalidArgument: both are given.
Result<TierPtr> open_below(const BelowArgs& args, Bytes memory);

/// From 0 to a century, or an InvalidArgument exception that names the argument.
Duration checked_seconds(double seconds, const char* what);
/// 32 bytes, or an InvalidArgument exception.
Secret secret_of(const nanobind::bytes& bytes);

/// Where a cache records the invalidations of its entries in a tier: with servers, in a cell that
/// all processes with the same secret share; otherwise in a file beside the disk's entries.
///
/// Errors   open: kInvalidArgument: several disks or several servers in one stack, because an entry
///          invalidated in one combination would be found in another; or another cache of this kind
///          uses the disk. kNotFound, kUnavailable, kInvalidArgument: the encryption keys.
class InvalidationPlace {
 public:
  /// `kind` names the cache: "answers", "prefixes", "encodings".
  static Result<std::unique_ptr<InvalidationPlace>> open(TierPtr below, std::string kind,
                                                         const Secret& root);
  ~InvalidationPlace();
  InvalidationPlace(const InvalidationPlace&) = delete;
  InvalidationPlace& operator=(const InvalidationPlace&) = delete;

  /// The tier, for entries that are replaced under their key.
  [[nodiscard]] Tier& tier() { return *tier_; }
  /// Encrypted like the disk's entries.
  [[nodiscard]] Files& files() { return encrypted_files_ ? *encrypted_files_ : plain_files(); }
  /// Empty: there is no disk.
  [[nodiscard]] const std::string& file() const { return file_; }
  /// nullptr: there are no servers, and the file has the list.
  [[nodiscard]] InvalidationLog* log() { return log_.get(); }
  /// The tier that all processes see, for entries that they change: the servers' if there are any.
  [[nodiscard]] Tier& shared_tier();
  /// A small value there, encrypted like the entries. `domain` names it to all processes, `name` is its
  /// file on a disk.
  Result<SharedCell*> shared_value(std::string_view domain, const std::string& name,
                                   const Secret& root);
  /// nullptr: there are none.
  [[nodiscard]] RemoteTier* servers() {
    return servers_ == nullptr ? nullptr : &servers_->shared->remote_tier();
  }

 private:
  InvalidationPlace(TierPtr below, std::string kind)
      : below_(std::move(below)), kind_(std::move(kind)) {}
  Result<void> find_leaves(const TierPtr& store);
  Result<void> use_disk();
  Result<void> use_servers(const Secret& root);
  [[nodiscard]] Files& plain_files() { return files_; }

  const TierPtr below_;
  const std::string kind_;
  std::vector<TierPtr> leaves_;  // disks and servers, the nearest first
  TierPtr disk_;                 // nullptr: none
  TierPtr servers_;              // nullptr: none
  bool recorded_ = false;        // in disk_
  std::unique_ptr<TierStack> stack_;
  Tier* tier_ = nullptr;
  SystemFiles files_;
  std::unique_ptr<EncryptedFiles> encrypted_files_;
  std::string file_;
  std::vector<std::unique_ptr<SharedCell>> values_;
  std::unique_ptr<InvalidationLog> log_;
};

}  // namespace afterimage::python
