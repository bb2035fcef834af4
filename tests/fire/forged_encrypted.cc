// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Encrypted entries that were changed, moved to another key, or encrypted under another key.
#include "afterimage/encrypted_tier.h"
#include "afterimage/tier.h"
#include "fire/forged_remote.h"
#include "storage/encryption/encrypted_entry.h"

namespace afterimage::fire {
namespace {

using testing::tier_bytes;
using testing::tier_key;

constexpr std::size_t kBytes = 300;

EncryptionKeys keys_of(char digit) {
  return EncryptionKeys::parse(std::string(64, digit), "a test").value();
}

class EncryptionForger {
 public:
  explicit EncryptionForger(Tally& tally) : tally_(tally) {
    sealed_.resize(encrypted_size({}, kBytes));
    const auto done = encrypt_entry(keys_, tier_key(1), {}, tier_bytes(1, kBytes), sealed_);
    count(done.has_value() && opens(keys_, 1), "an encrypted entry does not decrypt");
  }

  void every_bit() {
    for (std::size_t bit = 0; bit < 8 * sealed_.size(); ++bit) {
      const auto flip = [&] { sealed_[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8)); };
      flip();
      refused(keys_, 1,
              "bit " + std::to_string(bit) + " of an encrypted entry was changed, and it decrypts");
      flip();
    }
  }
  void anothers_place() {
    refused(keys_, 2, "an encrypted entry decrypts in another entry's place");
    TierKey other = tier_key(1);
    other.entry_class = EntryClass::kAnswer;
    std::vector<std::byte> opened(sealed_.size() - kEncryptionHeader);
    count(decrypt_entry(keys_, other, sealed_, opened).state != DecryptStatus::kOpened,
          "an encrypted entry decrypts as another class");
  }
  /// Under another key it is a miss; it stays readable with the right key.
  void another_key() {
    refused(keys_of('2'), 1, "an encrypted entry decrypts under another key");
    MemoryBudget memory(1_MiB);
    HostTier below(memory);
    EncryptedTier ours(below, keys_of('1'), memory);
    EncryptedTier others(below, keys_of('2'), memory);
    const auto finds = [&](EncryptedTier& tier) {
      const auto found = tier.get(tier_key(1), memory);
      return found.has_value() && found->has_value();
    };
    count(ours.put(tier_key(1), {}, tier_bytes(1, kBytes)).has_value(), "the put fails");
    count(!finds(others), "an encrypted entry is found under another key");
    const bool there = finds(ours);
    tally_.lost += there ? 0 : 1;
    count(there, "a reader with another key removed an entry");
  }

 private:
  [[nodiscard]] bool opens(const EncryptionKeys& keys, std::uint64_t n) const {
    std::vector<std::byte> opened(sealed_.size() - kEncryptionHeader);
    return decrypt_entry(keys, tier_key(n), sealed_, opened).state == DecryptStatus::kOpened;
  }
  void refused(const EncryptionKeys& keys, std::uint64_t n, const std::string& what) {
    ++tally_.answers;
    const bool opened = opens(keys, n);
    tally_.wrong += opened ? 1 : 0;
    count(!opened, what);
  }
  void count(bool good, const std::string& what) {
    ++tally_.injected;
    tally_.detected += good ? 1 : 0;
    tally_.expect(good, what);
  }

  Tally& tally_;
  EncryptionKeys keys_ = keys_of('1');
  std::vector<std::byte> sealed_;
};

}  // namespace

void forge_encrypted(Tally& tally) {
  EncryptionForger forger(tally);
  forger.every_bit();
  forger.anothers_place();
  forger.another_key();
}

}  // namespace afterimage::fire
