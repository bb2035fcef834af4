// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "afterimage/encrypted_tier.h"
#include "testing/temporary_folder.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::tier_key;

const std::string kOne(64, '1');
const std::string kTwo(64, '2');

Secret entry_key(const EncryptionKeys& keys, const EncryptionKeyId& id, const TierKey& key) {
  Secret secret{};
  EXPECT_TRUE(keys.entry_key(id, key, secret));
  return secret;
}

TEST(EncryptionKeys, TheFirstEncryptsAndAllDecrypt) {
  const auto old = EncryptionKeys::parse(kOne, "old").value();
  const auto both =
      EncryptionKeys::parse("# new\n" + kTwo + "\n\n  " + kOne + "\r\n", "both").value();
  EXPECT_NE(both.id(), old.id());
  EXPECT_EQ(entry_key(both, old.id(), tier_key(1)), entry_key(old, old.id(), tier_key(1)));
  Secret none{};
  EXPECT_FALSE(old.entry_key(both.id(), tier_key(1), none));
}

TEST(EncryptionKeys, EveryEntryHasItsOwnKey) {
  const auto keys = EncryptionKeys::parse(kOne, "test").value();
  const Secret one = entry_key(keys, keys.id(), tier_key(1));
  EXPECT_NE(one, entry_key(keys, keys.id(), tier_key(2)));
  EXPECT_NE(one, entry_key(keys, keys.id(), tier_key(1, EntryClass::kAnswer)));
}

// tests/golden/encrypted_entry.py: existing entries must stay readable.
TEST(EncryptionKeys, HaveTheirGoldenVector) {
  const auto keys = EncryptionKeys::parse(kOne, "test").value();
  TierKey key{.entry_class = EntryClass::kEncoderOutput};
  key.bytes.fill(std::byte{0x22});
  EXPECT_EQ(to_hex(entry_key(keys, keys.id(), key)),
            "eacd72c46cab12be5caef1d30a46bfd5ebcbd7b122204571cbb70851bfdff1c1");
}

TEST(EncryptionKeys, RefusesMalformedListsWithoutRepeatingThem) {
  std::string many;
  for (std::size_t i = 0; i <= EncryptionKeys::kMost; ++i) many += kOne + "\n";
  for (const std::string& text : {std::string(), std::string("# nothing\n"), kOne + "1",
                                  "g" + kOne.substr(1), kOne + "\n" + "password", many}) {
    const auto keys = EncryptionKeys::parse(text, "the file");
    ASSERT_FALSE(keys.has_value()) << text;
    EXPECT_EQ(keys.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(keys.error().message, HasSubstr("the file"));
    EXPECT_THAT(keys.error().message, Not(HasSubstr("1111")));
    EXPECT_THAT(keys.error().message, Not(HasSubstr("password")));
  }
}

TEST(EncryptionKeys, RefusesAFileThatOthersMayRead) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("keys");
  EXPECT_EQ(EncryptionKeys::read(path).error().code, ErrorCode::kNotFound);
  std::ofstream(path) << kOne << "\n";
  for (const mode_t mode : {0644U, 0640U, 0604U, 0620U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto keys = EncryptionKeys::read(path);
    ASSERT_FALSE(keys.has_value()) << mode;
    EXPECT_THAT(keys.error().message, HasSubstr("chmod 600"));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const std::string mounted = folder.file("mounted");
  std::filesystem::create_symlink(path, mounted);
  EXPECT_EQ(EncryptionKeys::read(mounted).value().id(),
            EncryptionKeys::parse(kOne, "").value().id());
  EXPECT_FALSE(EncryptionKeys::read(folder.path()).has_value());
  std::ofstream(path) << std::string(5'000, '#');
  EXPECT_EQ(EncryptionKeys::read(path).error().code, ErrorCode::kInvalidArgument);
}

TEST(EncryptionKeys, ReadFromTheEnvironment) {
  ASSERT_EQ(::setenv("AFTERIMAGE_TEST_KEYS", (kTwo + "," + kOne).c_str(), 1), 0);
  const auto keys = EncryptionKeys::from_environment("AFTERIMAGE_TEST_KEYS").value();
  EXPECT_EQ(keys.id(), EncryptionKeys::parse(kTwo, "").value().id());
  ASSERT_EQ(::unsetenv("AFTERIMAGE_TEST_KEYS"), 0);
  EXPECT_FALSE(EncryptionKeys::from_environment("AFTERIMAGE_TEST_KEYS").has_value());
}

}  // namespace
}  // namespace afterimage
