// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::tier_bytes;
using testing::tier_key;
using Ciphertext = std::vector<std::byte>;

const EntryMeta kMeta{.tensors = {{DType::kBF16, Shape{7, 9}}, {DType::kU8, Shape{}}},
                      .cost = Duration(1'234)};

class EncryptedEntry : public ::testing::Test {
 protected:
  Ciphertext encrypt(const TierKey& key, const EntryMeta& meta, std::span<const std::byte> bytes) {
    Ciphertext encrypted(encrypted_size(meta, bytes.size()));
    EXPECT_TRUE(encrypt_entry(keys, key, meta, bytes, encrypted).has_value());
    return encrypted;
  }
  DecryptStatus state_of(const TierKey& key, const Ciphertext& encrypted) {
    std::vector<std::byte> into(
        encrypted.size() < kEncryptionHeader ? 0 : encrypted.size() - kEncryptionHeader);
    return decrypt_entry(keys, key, encrypted, into).state;
  }

  EncryptionKeys keys = EncryptionKeys::parse(std::string(64, '1'), "test").value();
};

TEST_F(EncryptedEntry, RoundTripsExactly) {
  for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 100'000U}) {
    const auto bytes = tier_bytes(size, size);
    for (const EntryMeta& meta : {EntryMeta{}, kMeta}) {
      const Ciphertext encrypted = encrypt(tier_key(1), meta, bytes);
      std::vector<std::byte> into(encrypted.size() - kEncryptionHeader);
      const DecryptedEntry opened = decrypt_entry(keys, tier_key(1), encrypted, into);
      ASSERT_EQ(opened.state, DecryptStatus::kOpened) << size;
      EXPECT_EQ(opened.meta, meta);
      EXPECT_EQ(opened.bytes_begin % 64, 0U);
      EXPECT_TRUE(std::ranges::equal(std::span(into).subspan(opened.bytes_begin), bytes)) << size;
    }
  }
}

TEST_F(EncryptedEntry, EveryFlippedBitIsDetected) {
  const Ciphertext encrypted = encrypt(tier_key(1), kMeta, tier_bytes(1, 100));
  for (std::size_t bit = 0; bit < 8 * encrypted.size(); ++bit) {
    Ciphertext other = encrypted;
    other[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(state_of(tier_key(1), other), DecryptStatus::kOpened) << bit;
  }
  for (std::size_t size = 0; size < encrypted.size(); ++size) {
    EXPECT_NE(state_of(tier_key(1),
                       Ciphertext(encrypted.begin(), encrypted.begin() + static_cast<long>(size))),
              DecryptStatus::kOpened);
  }
  Ciphertext longer = encrypted;
  longer.push_back(std::byte{0});
  EXPECT_EQ(state_of(tier_key(1), longer), DecryptStatus::kDamaged);
}

TEST_F(EncryptedEntry, IsBoundToItsKey) {
  const Ciphertext encrypted = encrypt(tier_key(1), kMeta, tier_bytes(1, 100));
  EXPECT_EQ(state_of(tier_key(2), encrypted), DecryptStatus::kDamaged);
  EXPECT_EQ(state_of(tier_key(1, EntryClass::kAnswer), encrypted), DecryptStatus::kDamaged);
}

TEST_F(EncryptedEntry, ReportsWhyDecryptionFailed) {
  const Ciphertext encrypted = encrypt(tier_key(1), {}, tier_bytes(1, 100));
  EXPECT_EQ(state_of(tier_key(1), tier_bytes(1, 500)), DecryptStatus::kNotEncrypted);
  EXPECT_EQ(state_of(tier_key(1), {}), DecryptStatus::kNotEncrypted);
  keys = EncryptionKeys::parse(std::string(64, '2'), "other").value();
  EXPECT_EQ(state_of(tier_key(1), encrypted), DecryptStatus::kOtherKey);
  keys = EncryptionKeys::parse(std::string(64, '2') + "\n" + std::string(64, '1'), "both").value();
  EXPECT_EQ(state_of(tier_key(1), encrypted), DecryptStatus::kOpened);
}

TEST_F(EncryptedEntry, LeaksNoPlaintextAndNeverRepeats) {
  const std::vector<std::byte> plain(4'096, std::byte{0x41});
  std::set<Ciphertext> all;
  for (int i = 0; i < 20; ++i) {
    const Ciphertext encrypted = encrypt(tier_key(1), kMeta, plain);
    const std::vector<std::byte> run(16, std::byte{0x41});
    EXPECT_TRUE(std::ranges::search(encrypted, run).empty());
    all.insert(Ciphertext(encrypted.begin() + 16, encrypted.begin() + 28));  // nonces
  }
  EXPECT_EQ(all.size(), 20U);
}

// tests/golden/encrypted_entry.py
TEST_F(EncryptedEntry, MatchesItsGoldenVector) {
  const std::string hex =
      "4146495345414c31f720b9b8fdf248ed333333333333333333333333400000008b5f4a8f7bd101bd"
      "06bdd896c074b1ba00000000000000000000000000000000ddab4a086ea61d2e1720fc7255463d6b"
      "9c590b05575db8ea7730cc658ff771f75c9fe8b4dbe6a5b622e35b1e46c99f7d2eae1ec0dd2cd1db"
      "84b170b3ba1104d214909f636db40d774a2b3b50";
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(at, 2), nullptr, 16)));
  }
  TierKey key{.entry_class = EntryClass::kPrefixKv};
  key.bytes.fill(std::byte{0x22});
  std::vector<std::byte> into(bytes.size() - kEncryptionHeader);
  const DecryptedEntry opened = decrypt_entry(keys, key, bytes, into);
  ASSERT_EQ(opened.state, DecryptStatus::kOpened);
  EXPECT_EQ(opened.meta,
            (EntryMeta{.tensors = {{DType::kF16, Shape{2, 3}}}, .cost = Duration(77)}));
  EXPECT_TRUE(std::ranges::equal(std::span(into).subspan(opened.bytes_begin),
                                 std::as_bytes(std::span(std::string_view("twelve bytes")))));
}

}  // namespace
}  // namespace afterimage
