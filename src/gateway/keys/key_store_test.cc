// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/keys/key_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <span>
#include <thread>

#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

const std::string kFile = "/etc/keys.json";

/// Writes fail while `broken`.
class FragileFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override {
    return files.read(path, limit);
  }
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override {
    if (broken) return fail(ErrorCode::kUnavailable, path + ": no space left on device");
    ++writes;
    return files.replace(path, content);
  }
  Result<void> append(const std::string& path, std::span<const std::byte> content) override {
    return files.append(path, content);
  }
  Result<void> cut(const std::string& path, Bytes size) override { return files.cut(path, size); }
  Result<void> make_folder(const std::string& path) override { return files.make_folder(path); }
  Result<void> empty_folder(const std::string& path, const std::string& kept) override {
    return files.empty_folder(path, kept);
  }
  Result<void> check_replaceable(const std::string& /*path*/) const override { return {}; }
  Result<std::vector<std::string>> list(const std::string& folder) const override {
    return files.list(folder);
  }
  [[nodiscard]] bool is_folder(const std::string& path) const override {
    return files.is_folder(path);
  }
  [[nodiscard]] std::string text(const std::string& path) const {
    const auto bytes = files.read(path, 1_MiB).value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void set(const std::string& path, std::string_view text) {
    files.replace(path, std::as_bytes(std::span(text))).value();
  }

  testing::MemoryFiles files;
  bool broken = false;
  std::atomic<int> writes = 0;
};

struct KeyStoreFixture : ::testing::Test {
  KeyStoreFixture() { restart(); }
  void restart() {
    store.reset();
    store = KeyStore::open({.file = kFile, .files = &files}, wall).value();
  }

  FragileFiles files;
  testing::ManualWallClock wall{WallTime(Duration(1'795'507'200s))};
  std::unique_ptr<KeyStore> store;
};
using KeyStoreTest = KeyStoreFixture;

TEST_F(KeyStoreTest, TheSecretIsShownOnceAndOnlyItsHashIsKept) {
  const NewKey made = store->make("acme", "", std::vector<std::string>{"5 requests/day"}).value();
  EXPECT_EQ(made.secret.size(), 68U);
  EXPECT_TRUE(made.secret.starts_with("afi-"));
  EXPECT_EQ(made.key.key_sha256, key_sha256(made.secret));
  EXPECT_FALSE(files.text(kFile).contains(made.secret));
  EXPECT_FALSE(files.text(kFile).contains(made.secret.substr(4, 16)));
  EXPECT_NE(store->make("other", "", {})->secret, made.secret);
}

TEST_F(KeyStoreTest, KeysSurviveARestart) {
  store->make("acme", "public", std::vector<std::string>{"5 requests/day"}).value();
  store->make("b", "", {}).value();
  store->set_disabled("b", true).value();
  const auto before = store->list();
  restart();
  EXPECT_EQ(store->list(), before);
  EXPECT_TRUE(store->find("b")->disabled);
}

TEST_F(KeyStoreTest, ARotatedKeyIsReplacedAndTheOldOneHoldsForItsGrace) {
  const NewKey first = store->make("acme", "", {}).value();
  const NewKey second = store->rotate("acme", 60s).value();
  EXPECT_EQ(second.key.previous_sha256, first.key.key_sha256);
  EXPECT_EQ(second.key.previous_until_s, first.key.created_s + 60);
  const NewKey third = store->rotate("acme", 0s).value();
  EXPECT_EQ(third.key.previous_sha256, "");
  EXPECT_EQ(store->find("acme")->key_sha256, key_sha256(third.secret));
}

TEST_F(KeyStoreTest, RefusesNamesThatAreTakenOrNotValid) {
  store->make("acme", "", {}).value();
  EXPECT_EQ(store->make("acme", "", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->make("a b", "", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->make("key-1", "", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->make("c", " ", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->make("c", "", std::vector<std::string>{"many"}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->rotate("c", 0s).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->set_disabled("c", true).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->list().size(), 1U);
}

TEST_F(KeyStoreTest, AFailedWriteChangesNothing) {
  store->make("acme", "", {}).value();
  const auto before = store->list();
  files.broken = true;
  EXPECT_FALSE(store->make("b", "", {}).has_value());
  EXPECT_FALSE(store->rotate("acme", 0s).has_value());
  EXPECT_FALSE(store->set_disabled("acme", true).has_value());
  EXPECT_EQ(store->list(), before);
  files.broken = false;
  restart();
  EXPECT_EQ(store->list(), before);
}

TEST_F(KeyStoreTest, AFileThatSomebodyElseChangedIsNotOverwritten) {
  store->make("acme", "", {}).value();
  const std::string theirs = print_keys({{.name = "x", .key_sha256 = std::string(64, 'a')}});
  files.set(kFile, theirs);
  EXPECT_EQ(store->make("b", "", {}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(files.text(kFile), theirs);
  store->reload().value();
  store->make("b", "", {}).value();
  EXPECT_EQ(store->list().size(), 2U);
}

TEST_F(KeyStoreTest, DamagedFilesEndTheStartWithAClearError) {
  files.set(kFile, "{}");
  const auto opened = KeyStore::open({.file = kFile, .files = &files}, wall);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kCorruption);
  EXPECT_TRUE(opened.error().message.contains(kFile)) << opened.error().message;
  files.set(kFile, print_keys({}));
  files.set(kFile + ".usage", "[]");
  EXPECT_EQ(KeyStore::open({.file = kFile, .files = &files}, wall).error().code,
            ErrorCode::kCorruption);
}

TEST_F(KeyStoreTest, ADamagedFileAtReloadKeepsTheKeysThatHold) {
  store->make("acme", "", {}).value();
  files.set(kFile, "{");
  EXPECT_FALSE(store->reload().has_value());
  EXPECT_EQ(store->list().size(), 1U);
}

TEST_F(KeyStoreTest, UsageSurvivesARestart) {
  EXPECT_FALSE(store->account("acme")->admit(wall.now()).has_value());
  store->account("acme")->spend({.prompt_tokens = 7, .cost_nano = 9}, wall.now());
  const AccountState before = store->account("acme")->state();
  store->save_usage().value();
  const int writes = files.writes;
  store->save_usage().value();
  EXPECT_EQ(files.writes, writes) << "nothing has changed";
  restart();
  EXPECT_EQ(store->account("acme")->state(), before);
  const std::vector<Budget> one{parse_budget("1 requests/day").value()};
  store->account("acme")->set_budgets(one);
  EXPECT_TRUE(store->account("acme")->admit(wall.now()).has_value());
}

TEST_F(KeyStoreTest, WithoutAFileNoKeysAreMadeAndUsageIsCounted) {
  const auto plain = KeyStore::open({}, wall).value();
  EXPECT_EQ(plain->make("a", "", {}).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(plain->account("a")->admit(wall.now()).has_value());
  EXPECT_TRUE(plain->save_usage().has_value());
  EXPECT_EQ(plain->account("a")->state().total.requests, 1U);
}

TEST_F(KeyStoreTest, ConcurrentChangesAreAllKept) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string name = "k" + std::to_string(t) + "-" + std::to_string(i);
        EXPECT_TRUE(store->make(name, "", {}).has_value());
        EXPECT_TRUE(store->set_disabled(name, true).has_value());
        store->account(name)->spend({.prompt_tokens = 1}, wall.now());
        EXPECT_TRUE(store->save_usage().has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  restart();
  EXPECT_EQ(store->list().size(), 40U);
  for (const ManagedKey& key : store->list()) EXPECT_TRUE(key.disabled);
  EXPECT_EQ(store->accounts().size(), 40U);
}

}  // namespace
}  // namespace afterimage
