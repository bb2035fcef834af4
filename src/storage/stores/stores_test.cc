// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/stores/stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "testing/temporary_folder.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;

struct Fixture {
  SystemClock clock;
  testing::TemporaryFolder folder;
  std::vector<std::string> degraded;

  StoresOptions options() {
    StoresOptions options;
    options.disk_capacity = 64_MiB;
    options.on_degraded = [this](std::string_view store, const Error& error) {
      degraded.push_back(std::string(store) + ": " + error.message);
    };
    return options;
  }
  StoresOptions on_disk() {
    StoresOptions options = this->options();
    options.disk = folder.path() + "/disk";
    return options;
  }
  std::string file(const std::string& name, const std::string& text) const {
    const std::string path = folder.path() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0600);
    return path;
  }
  [[nodiscard]] bool disk_contains(const std::string& text) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      if (bytes.find(text) != std::string::npos) return true;
    }
    return false;
  }
};

/// Stores 64 KiB that begin with `text`.
Result<void> put(Tier& tier, std::uint64_t n, const std::string& text) {
  std::vector<std::byte> bytes(64 * 1024);
  std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin());
  return tier.put(testing::tier_key(n), {}, bytes);
}

TEST(Stores, WithoutAnyThereIsNoTierAndARandomSecret) {
  Fixture f;
  const auto stores = Stores::open(f.options(), f.clock).value();
  EXPECT_EQ(stores->tier(), nullptr);
  EXPECT_EQ(stores->replaceable_tier(), nullptr);
  EXPECT_EQ(stores->leases(), nullptr);
  EXPECT_NE(stores->secret(), Stores::open(f.options(), f.clock).value()->secret());
}

TEST(Stores, ADiskKeepsItsSecretAndItsEntries) {
  Fixture f;
  Secret secret{};
  {
    const auto stores = Stores::open(f.on_disk(), f.clock).value();
    secret = stores->secret();
    ASSERT_TRUE(put(*stores->tier(), 1, "x").has_value());
    ASSERT_TRUE(stores->tier()->flush().has_value());
  }
  const auto stores = Stores::open(f.on_disk(), f.clock).value();
  EXPECT_EQ(stores->secret(), secret);
  EXPECT_TRUE(stores->tier()->holds(testing::tier_key(1)));
  EXPECT_TRUE(f.degraded.empty());
}

TEST(Stores, AFolderThatCannotBeUsedIsReportedAndLeftOut) {
  Fixture f;
  StoresOptions options = f.options();
  options.disk = f.file("plain", "not a folder");
  const auto stores = Stores::open(options, f.clock);
  ASSERT_TRUE(stores.has_value());
  EXPECT_EQ((*stores)->tier(), nullptr);
  ASSERT_EQ(f.degraded.size(), 1U);
  EXPECT_THAT(f.degraded[0], HasSubstr("disk: "));
}

TEST(Stores, KeysThatCannotBeReadEndItBeforeAnythingIsStored) {
  Fixture f;
  StoresOptions options = f.on_disk();
  options.encrypt_key_file = f.folder.path() + "/none";
  EXPECT_FALSE(Stores::open(options, f.clock).has_value());
  options.encrypt_key_file = f.file("short", "abc");
  EXPECT_FALSE(Stores::open(options, f.clock).has_value());
  EXPECT_FALSE(std::filesystem::exists(options.disk));
  options.encrypt_key_env = "AFTERIMAGE_NO_SUCH_VARIABLE";
  EXPECT_THAT(Stores::open(options, f.clock).error().message, HasSubstr("name only one"));
}

TEST(Stores, WithKeysNothingIsStoredInTheClear) {
  const std::string text(64, 'Q');
  for (const bool encrypted : {false, true}) {
    Fixture f;
    StoresOptions options = f.on_disk();
    if (encrypted) options.encrypt_key_file = f.file("key", std::string(64, 'a') + "\n");
    {
      const auto stores = Stores::open(options, f.clock).value();
      ASSERT_TRUE(put(*stores->tier(), 1, text).has_value());
      ASSERT_TRUE(stores->tier()->flush().has_value());
      ASSERT_TRUE(stores->files()
                      .replace(options.disk + "/list", std::as_bytes(std::span(text)))
                      .has_value());
    }
    EXPECT_EQ(f.disk_contains(text), !encrypted);
  }
}

TEST(Stores, ServersThatDoNotAnswerAreReportedAndTriedAgain) {
  Fixture f;
  StoresOptions options = f.options();
  options.secret_file = f.file("secret", std::string(32, 's'));
  options.remote =
      SharedStoreOptions{.url = "redis://127.0.0.1:1", .timeout = std::chrono::milliseconds(20)};
  const auto stores = Stores::open(options, f.clock);
  ASSERT_TRUE(stores.has_value());
  EXPECT_NE((*stores)->tier(), nullptr);
  EXPECT_NE((*stores)->leases(), nullptr);
  ASSERT_EQ(f.degraded.size(), 1U);
  EXPECT_THAT(f.degraded[0], HasSubstr("remote: "));
  EXPECT_EQ((*stores)->secret()[0], std::byte{'s'});
}

TEST(Stores, TheSharedSecretIsUsedForTheFolderToo) {
  Fixture f;
  StoresOptions options = f.on_disk();
  options.secret_file = f.file("secret", std::string(32, 's'));
  EXPECT_EQ(Stores::open(options, f.clock).value()->secret()[31], std::byte{'s'});
  options.secret_file = f.folder.path() + "/none";
  EXPECT_FALSE(Stores::open(options, f.clock).has_value());
}

TEST(SharedSecret, IsRequiredByARemoteTier) {
  const auto refused = check_shared_secret("redis://a", "");
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.contains("head -c 32 /dev/urandom"));
  EXPECT_TRUE(check_shared_secret("redis://a", "/etc/afterimage/secret").has_value());
  EXPECT_TRUE(check_shared_secret("", "").has_value());
}

}  // namespace
}  // namespace afterimage
