// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/stores/stores.h"

#include <utility>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/tier.h"
#include "foundation/platform/random.h"
#include "storage/encryption/encrypted_files.h"

namespace afterimage {
namespace {

constexpr Bytes kReads = 128_MiB;      // of the disk tier, in flight
constexpr Bytes kEncryption = 64_MiB;  // copies that are being encrypted or decrypted

}  // namespace

Result<void> check_shared_secret(const std::string& remote_url, const std::string& secret_file) {
  if (remote_url.empty() || !secret_file.empty()) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "remote.url: processes share a cache only if they have the same secret: create a file of 32 "
      "bytes that only its owner can read (umask 077; head -c 32 /dev/urandom > FILE), copy it to "
      "every process, and name it with secret_file or --secret-file FILE");
}

/// In order of construction: a member uses those before it.
struct Stores::State {
  State(const StoresOptions& given, const Clock& on) : options(given), clock(on) {}

  Result<void> open_disk();
  Result<void> open_secret();
  Result<void> open_remote();
  [[nodiscard]] Result<std::optional<EncryptionKeys>> keys() const;
  Result<void> encrypt();
  void stack();

  StoresOptions options;
  const Clock& clock;
  SystemFiles files;
  std::unique_ptr<MemoryBudget> in_flight;
  std::unique_ptr<DiskTier> disk;
  std::unique_ptr<SharedStore> remote;
  MemoryBudget encryption{kEncryption};
  std::unique_ptr<EncryptedTier> encrypted_disk;
  std::unique_ptr<EncryptedTier> encrypted_remote;
  std::unique_ptr<EncryptedFiles> encrypted_files;
  Tier* disk_entries = nullptr;
  Tier* remote_entries = nullptr;
  std::unique_ptr<TierStack> tier;
  std::unique_ptr<TierStack> replaceable_tier;
  Secret secret{};
};

Result<void> Stores::State::open_disk() {
  DiskTierOptions how{.flush_interval = options.disk_flush_interval};
  how.log.capacity = options.disk_capacity;
  how.log.append_timeout = std::chrono::seconds(2);
  // Besides the cache's budget: batches exist before anything is cached.
  const Bytes batches(how.log.batch_bytes.value() * how.log.batches);
  in_flight = std::make_unique<MemoryBudget>(batches + kReads);
  AFI_TRY(disk, DiskTier::open(options.disk, how, *in_flight, clock));
  return {};
}

/// A disk that cannot be used is left out: it costs hits and nothing else.
Result<void> Stores::State::open_secret() {
  const auto without_disk = [&](const Error& error) {
    if (options.on_degraded) options.on_degraded("disk", error);
    disk.reset();
  };
  if (!options.disk.empty()) {
    if (const auto opened = open_disk(); !opened.has_value()) without_disk(opened.error());
  }
  // Processes that share a remote tier use the shared secret in their own folders, too.
  if (!options.secret_file.empty()) {
    auto read = secret_in_file(options.secret_file);
    if (!read.has_value()) return fail(ErrorCode::kInvalidArgument, read.error().message);
    secret = *read;
    return {};
  }
  if (disk != nullptr) {
    const auto read = store_secret(options.disk);
    if (read.has_value()) {
      secret = *read;
      return {};
    }
    without_disk(read.error());
  }
  AFI_TRY(secret, random_secret());
  return {};
}

Result<void> Stores::State::open_remote() {
  if (!options.remote.has_value()) return {};
  AFI_TRY(remote, SharedStore::open(*options.remote, clock));
  const std::string reason = remote->tier().stats().degraded_reason;
  if (!reason.empty() && options.on_degraded) {
    options.on_degraded("remote", {ErrorCode::kUnavailable, reason});
  }
  return {};
}

Result<std::optional<EncryptionKeys>> Stores::State::keys() const {
  if (options.encrypt_key_file.empty() && options.encrypt_key_env.empty()) return std::nullopt;
  if (!options.encrypt_key_file.empty() && !options.encrypt_key_env.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "encryption keys come from a file or an environment variable: name only one");
  }
  auto read = options.encrypt_key_env.empty()
                  ? EncryptionKeys::read(options.encrypt_key_file)
                  : EncryptionKeys::from_environment(options.encrypt_key_env);
  if (!read.has_value()) return fail(ErrorCode::kInvalidArgument, read.error().message);
  return std::optional(*std::move(read));
}

/// Keys are not copied in memory: each user reads them once.
Result<void> Stores::State::encrypt() {
  AFI_TRY(auto disk_keys, keys());
  if (!disk_keys.has_value()) return {};
  AFI_TRY(auto file_keys, keys());
  AFI_TRY(auto remote_keys, keys());
  if (disk != nullptr) {
    encrypted_disk = std::make_unique<EncryptedTier>(*disk, *std::move(disk_keys), encryption);
    encrypted_files = std::make_unique<EncryptedFiles>(files, *std::move(file_keys));
  }
  if (remote != nullptr) {
    encrypted_remote =
        std::make_unique<EncryptedTier>(remote->tier(), *std::move(remote_keys), encryption);
  }
  return {};
}

void Stores::State::stack() {
  std::vector<Tier*> all;
  if (options.nearest != nullptr) all.push_back(options.nearest);
  if (disk != nullptr) {
    disk_entries =
        encrypted_disk != nullptr ? static_cast<Tier*>(encrypted_disk.get()) : disk.get();
    all.push_back(disk_entries);
  }
  if (remote != nullptr) {
    remote_entries =
        encrypted_remote != nullptr ? static_cast<Tier*>(encrypted_remote.get()) : &remote->tier();
    all.push_back(remote_entries);
  }
  if (all.empty()) return;
  replaceable_tier = std::make_unique<TierStack>(all, TierStack::Keys::kAreReplaced);
  tier = std::make_unique<TierStack>(std::move(all));
}

Result<std::unique_ptr<Stores>> Stores::open(const StoresOptions& options, const Clock& clock) {
  std::unique_ptr<Stores> stores(new Stores(std::make_unique<State>(options, clock)));
  // Keys are read before anything is opened: bad ones change nothing.
  AFI_TRY_VOID(stores->keys());
  AFI_TRY_VOID(stores->state_->open_secret());
  AFI_TRY_VOID(stores->state_->open_remote());
  AFI_TRY_VOID(stores->state_->encrypt());
  stores->state_->stack();
  return stores;
}

Stores::Stores(std::unique_ptr<State> state) : state_(std::move(state)) {}
Stores::~Stores() = default;

const Secret& Stores::secret() const { return state_->secret; }
Tier* Stores::tier() const { return state_->tier.get(); }
Tier* Stores::replaceable_tier() const { return state_->replaceable_tier.get(); }
Tier* Stores::disk() const { return state_->disk_entries; }
Tier* Stores::remote() const { return state_->remote_entries; }
LeaseService* Stores::leases() const {
  return state_->remote == nullptr ? nullptr : &state_->remote->leases();
}
const DiskTier* Stores::disk_tier() const { return state_->disk.get(); }
SharedStore* Stores::shared_store() const { return state_->remote.get(); }
Files& Stores::files() const {
  return state_->encrypted_files != nullptr ? static_cast<Files&>(*state_->encrypted_files)
                                            : state_->files;
}

Result<std::optional<EncryptionKeys>> Stores::keys() const { return state_->keys(); }

}  // namespace afterimage
