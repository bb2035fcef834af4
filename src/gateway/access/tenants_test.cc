// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/tenants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <set>
#include <span>
#include <thread>

#include "caches/identity/fields.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

Secret secret(unsigned n) {
  Secret bytes{};
  bytes[0] = static_cast<std::byte>(n);
  return bytes;
}

std::string sha256_hex(std::string_view key) {
  std::string hex;
  for (const std::byte byte : sha256(std::as_bytes(std::span(key)))) {
    hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return hex;
}

TenantSettings tenant(const std::string& name, const std::string& key) {
  TenantSettings settings;
  settings.name = name;
  settings.key_sha256 = {sha256_hex(key)};
  return settings;
}

/// Tenants with keys that operators made.
struct KeysFixture {
  KeysFixture() { store = KeyStore::open({.file = "/keys.json", .files = &files}, wall).value(); }
  void apply(std::vector<TenantSettings> listed = {}, std::string unknown = "each") {
    tenants = create(std::move(listed), std::move(unknown)).value();
  }
  Result<std::unique_ptr<Tenants>> create(std::vector<TenantSettings> listed,
                                          std::string unknown = "each") {
    TenancySettings settings;
    settings.tenants = std::move(listed);
    settings.unknown_keys = std::move(unknown);
    return Tenants::create(settings, secret(1), clock, store.get());
  }
  std::expected<Tenant, AccessDenied> identify(const std::string& key,
                                               Counting counting = Counting::kCounts) {
    return tenants->identify("Bearer " + key, std::nullopt, "", counting);
  }
  testing::MemoryFiles files;
  ManualClock clock;
  testing::ManualWallClock wall{WallTime(Duration(1'795'564'800s))};  // a day begins
  std::unique_ptr<KeyStore> store;
  std::unique_ptr<Tenants> tenants;
};

struct TenantsFixture {
  explicit TenantsFixture(std::vector<TenantSettings> listed = {}, std::string unknown = "each",
                          Secret root = secret(1)) {
    TenancySettings settings;
    settings.tenants = std::move(listed);
    settings.unknown_keys = std::move(unknown);
    tenants = Tenants::create(settings, root, clock).value();
  }

  std::expected<Tenant, AccessDenied> identify(const std::string& key,
                                               std::string_view name_space = "") {
    return tenants->identify("Bearer " + key, std::nullopt, name_space);
  }
  std::string namespace_of(const std::string& key, std::string_view name_space = "") {
    return identify(key, name_space).value().cache_namespace.text();
  }

  ManualClock clock;
  std::unique_ptr<Tenants> tenants;
};

TEST(Tenants, IdentifiesListedKeys) {
  TenantSettings acme = tenant("acme", "sk-1");
  acme.key_sha256.push_back(sha256_hex("sk-2"));
  std::ranges::transform(acme.key_sha256.back(), acme.key_sha256.back().begin(), [](char c) {
    return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c;
  });
  acme.max_bytes = 5_MiB;
  acme.max_entries = 7;
  acme.match_level = MatchLevel::kExact;
  acme.sampled = "replay";
  TenantsFixture fixture({acme, tenant("other", "sk-3")});
  const Tenant one = fixture.identify("sk-1").value();
  EXPECT_EQ(one.name, "acme");
  EXPECT_EQ(one.max_bytes, 5_MiB);
  EXPECT_EQ(one.max_entries, 7U);
  EXPECT_EQ(one.match_level, MatchLevel::kExact);
  EXPECT_EQ(one.sampled, "replay");
  EXPECT_EQ(fixture.identify("sk-2")->name, "acme");
  EXPECT_EQ(fixture.namespace_of("sk-2"), one.cache_namespace.text());
  EXPECT_EQ(fixture.identify("sk-3")->name, "other");
  EXPECT_EQ(fixture.identify("sk-3")->match_level, std::nullopt);
  EXPECT_NE(fixture.namespace_of("sk-3"), one.cache_namespace.text());
}

TEST(Tenants, ReadsKeysFromTheEnvironment) {
  ::setenv("AFTERIMAGE_TEST_KEY", "sk-env", 1);
  ::setenv("AFTERIMAGE_TEST_EMPTY", "", 1);
  ::setenv("AFTERIMAGE_TEST_BROKEN", "sk env", 1);
  TenantSettings acme;
  acme.name = "acme";
  acme.key_env = {"AFTERIMAGE_TEST_KEY"};
  EXPECT_EQ(TenantsFixture({acme}).identify("sk-env")->name, "acme");
  for (const char* variable :
       {"AFTERIMAGE_TEST_NONE", "AFTERIMAGE_TEST_EMPTY", "AFTERIMAGE_TEST_BROKEN"}) {
    acme.key_env = {variable};
    const ManualClock clock;
    const auto made =
        Tenants::create({.unknown_keys = "each", .tenants = {acme}}, secret(1), clock);
    ASSERT_FALSE(made.has_value()) << variable;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(made.error().message.contains(variable)) << made.error().message;
    EXPECT_FALSE(made.error().message.contains("sk env")) << "no key in a message";
  }
}

TEST(Tenants, RefusesAKeyOfTwoTenants) {
  const ManualClock clock;
  ::setenv("AFTERIMAGE_TEST_SHARED", "sk-1", 1);
  TenantSettings by_name = tenant("b", "sk-9");
  by_name.key_env = {"AFTERIMAGE_TEST_SHARED"};
  for (const TenantSettings& other : {tenant("b", "sk-1"), by_name}) {
    const auto made = Tenants::create(
        {.unknown_keys = "each", .tenants = {tenant("a", "sk-1"), other}}, secret(1), clock);
    ASSERT_FALSE(made.has_value());
    EXPECT_TRUE(made.error().message.contains("tenants a and b have the same key"))
        << made.error().message;
  }
}

TEST(Tenants, ChecksSettingsThatDidNotComeFromAFile) {
  const ManualClock clock;
  TenantSettings bad = tenant("a", "k");
  for (const double quota : {0.0, -1.0, 1e300, 1e-300, std::nan("")}) {
    bad.requests_per_minute = quota;
    EXPECT_FALSE(
        Tenants::create({.unknown_keys = "each", .tenants = {bad}}, secret(1), clock).has_value())
        << quota;
  }
  bad = tenant("a", "k");
  for (const std::string& digest : {std::string(63, 'a'), std::string(64, 'g'), std::string()}) {
    bad.key_sha256 = {digest};
    EXPECT_FALSE(
        Tenants::create({.unknown_keys = "each", .tenants = {bad}}, secret(1), clock).has_value())
        << digest;
  }
}

TEST(Tenants, CanRefuseUnknownKeys) {
  TenantsFixture fixture({tenant("acme", "sk-1")}, "refuse");
  EXPECT_TRUE(fixture.identify("sk-1").has_value());
  const auto unknown = fixture.identify("sk-2");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(unknown.error().message.contains("sk-2"));
  const auto nobody = fixture.tenants->identify(std::nullopt, std::nullopt, "");
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fixture.identify("SK-1").has_value()) << "keys are compared byte for byte";
  EXPECT_FALSE(fixture.identify("sk-1x").has_value());
  EXPECT_FALSE(fixture.identify(sha256_hex("sk-1")).has_value()) << "the digest is not the key";
}

TEST(Tenants, EachUnknownKeyIsItsOwnTenant) {
  TenantsFixture fixture({tenant("acme", "sk-1")});
  std::set<std::string> spaces{fixture.namespace_of("sk-1")};
  for (int i = 0; i < 200; ++i) spaces.insert(fixture.namespace_of(fmt::format("unknown-{}", i)));
  spaces.insert(
      fixture.tenants->identify(std::nullopt, std::nullopt, "").value().cache_namespace.text());
  EXPECT_EQ(spaces.size(), 202U);
  EXPECT_EQ(fixture.namespace_of("unknown-7"), fixture.namespace_of("unknown-7"));
}

TEST(Tenants, NamesOfUnknownKeysRevealNothing) {
  TenantsFixture fixture;
  const Tenant one = fixture.identify("sk-guess-me").value();
  ASSERT_EQ(one.name.size(), 12U);
  EXPECT_TRUE(one.name.starts_with("key-"));
  const std::string digest = sha256_hex("sk-guess-me");
  EXPECT_FALSE(digest.contains(one.name.substr(4)));
  EXPECT_FALSE(one.cache_namespace.text().contains(digest));
  EXPECT_TRUE(one.cache_namespace.text().contains(one.name.substr(4)));
  TenantsFixture elsewhere({}, "each", secret(2));
  EXPECT_NE(elsewhere.identify("sk-guess-me")->name, one.name)
      << "another installation, another name";
  EXPECT_NE(elsewhere.namespace_of("sk-guess-me"), one.cache_namespace.text());
}

TEST(Tenants, NamespaceHoldsAllBitsOfTheKeyDigest) {
  TenantsFixture fixture;
  EXPECT_EQ(fixture.namespace_of("k").size(), std::string_view("key:64::").size() + 64);
}

TEST(Tenants, KeyIsItsHmacUnderADerivedSecret) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const Secret own = hmac_sha256(secret(1), FieldWriter("afterimage.api-key.1").message());
  std::string hex;
  for (const std::byte byte : hmac_sha256(own, sha256(bytes("sk-1")))) {
    hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  EXPECT_EQ(TenantsFixture().namespace_of("sk-1", "n"), "key:64:" + hex + ":n");
}

TEST(Tenants, RequestsWithoutAKeyShareOneTenant) {
  TenantsFixture fixture;
  const Tenant nobody = fixture.tenants->identify(std::nullopt, std::nullopt, "").value();
  EXPECT_EQ(nobody.name, "anonymous");
  for (const char* header : {"", "Bearer", "Bearer ", "bearer   "}) {
    EXPECT_EQ(fixture.tenants->identify(header, std::nullopt, "")->cache_namespace,
              nobody.cache_namespace)
        << header;
    EXPECT_EQ(fixture.tenants->identify(header, "", "")->cache_namespace, nobody.cache_namespace)
        << header;
  }
}

TEST(Tenants, AcceptsTheKeyInEitherHeader) {
  TenantsFixture fixture({tenant("acme", "sk-1")});
  for (const char* header : {"Bearer sk-1", "bearer sk-1", "BEARER  sk-1"}) {
    EXPECT_EQ(fixture.tenants->identify(header, std::nullopt, "")->name, "acme") << header;
    EXPECT_EQ(fixture.tenants->identify(header, "sk-1", "")->name, "acme") << header;
  }
  EXPECT_EQ(fixture.tenants->identify(std::nullopt, "sk-1", "")->name, "acme");
  EXPECT_EQ(fixture.tenants->identify("Bearer", "sk-1", "")->name, "acme");
}

TEST(Tenants, RefusesTwoDifferentKeys) {
  TenantsFixture fixture({tenant("acme", "sk-1"), tenant("other", "sk-2")});
  const auto refused = fixture.tenants->identify("Bearer sk-1", "sk-2", "");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST(Tenants, OtherSchemesAreSeparateCredentials) {
  TenantsFixture fixture({tenant("acme", "dXNlcjpwYXNz")});
  const Tenant basic = fixture.tenants->identify("Basic dXNlcjpwYXNz", std::nullopt, "").value();
  EXPECT_TRUE(basic.name.starts_with("key-")) << "not the Bearer key with the same text";
  EXPECT_NE(basic.cache_namespace,
            fixture.tenants->identify("Digest dXNlcjpwYXNz", std::nullopt, "")->cache_namespace);
  EXPECT_FALSE(fixture.tenants->identify("Bearer Basic dXNlcjpwYXNz", std::nullopt, "").has_value())
      << "else a Bearer key could pose as someone's Basic credential";
  EXPECT_FALSE(fixture.tenants->identify(std::nullopt, "Basic dXNlcjpwYXNz", "").has_value());
}

TEST(Tenants, OnlyTenantsOfAGroupShareANamespace) {
  TenantSettings a = tenant("a", "sk-a");
  TenantSettings b = tenant("b", "sk-b");
  TenantSettings c = tenant("c", "sk-c");
  a.group = b.group = "c";  // same name as the third tenant
  TenantsFixture fixture({a, b, c});
  EXPECT_EQ(fixture.namespace_of("sk-a"), fixture.namespace_of("sk-b"));
  EXPECT_NE(fixture.namespace_of("sk-a"), fixture.namespace_of("sk-c"));
  EXPECT_EQ(fixture.namespace_of("sk-a", "n"), fixture.namespace_of("sk-b", "n"));
  EXPECT_EQ(fixture.identify("sk-a")->name, "a") << "names stay separate";
}

TEST(TenantsProperty, NamespacesNeverCollide) {
  // Also names that settings would refuse: lengths separate the fields whatever they contain.
  const std::vector<std::string> kNames{"a", "b", "a:", ":a", "a:b", "1:a", "a:1:", "key", "x:0:"};
  std::vector<TenantSettings> listed;
  for (const std::string& name : kNames) {
    listed.push_back(tenant(name, "t" + name));
    listed.push_back(tenant("of " + name, "g" + name));
    listed.back().group = name;
  }
  TenantsFixture fixture(listed);
  std::set<std::string> spaces;
  std::size_t count = 0;
  const auto add = [&](const TenantId& id) {
    EXPECT_TRUE(spaces.insert(id.text()).second) << id.text();
    ++count;
  };
  std::vector<std::string> name_spaces = kNames;
  name_spaces.emplace_back();
  for (const std::string& name_space : name_spaces) {
    for (const std::string& name : kNames) {
      add(fixture.identify("t" + name, name_space)->cache_namespace);
      add(fixture.identify("g" + name, name_space)->cache_namespace);
      add(fixture.identify("u" + name, name_space)->cache_namespace);
    }
    add(fixture.tenants->identify(std::nullopt, std::nullopt, name_space)->cache_namespace);
  }
  EXPECT_EQ(spaces.size(), count);
}

// Quotas.

TEST(TenantQuota, RefillsEvenly) {
  TenantSettings acme = tenant("acme", "sk-1");
  acme.requests_per_minute = 4;
  TenantsFixture fixture({acme, tenant("other", "sk-2")});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(fixture.identify("sk-1").has_value()) << i;
  const auto refused = fixture.identify("sk-1");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused.error().message, "tenant acme has used up its request quota; retry in 15 s");
  EXPECT_TRUE(fixture.identify("sk-2").has_value()) << "each tenant has its own quota";
  fixture.clock.advance(15s - 1ns);
  EXPECT_FALSE(fixture.identify("sk-1").has_value());
  fixture.clock.advance(1ns);
  EXPECT_TRUE(fixture.identify("sk-1").has_value());
  EXPECT_FALSE(fixture.identify("sk-1").has_value());
  fixture.clock.advance(1h);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(fixture.identify("sk-1").has_value()) << i;
  EXPECT_FALSE(fixture.identify("sk-1").has_value())
      << "unused requests do not accumulate beyond the burst";
}

TEST(TenantQuota, SupportsLessThanOneRequestPerMinute) {
  TenantSettings acme = tenant("acme", "sk-1");
  acme.requests_per_minute = 0.5;
  TenantsFixture fixture({acme});
  EXPECT_TRUE(fixture.identify("sk-1").has_value());
  fixture.clock.advance(119s);
  EXPECT_FALSE(fixture.identify("sk-1").has_value());
  fixture.clock.advance(1s);
  EXPECT_TRUE(fixture.identify("sk-1").has_value());
}

TEST(TenantQuota, IsSharedByAllKeysAndNamespacesOfATenant) {
  TenantSettings acme = tenant("acme", "sk-1");
  acme.key_sha256.push_back(sha256_hex("sk-2"));
  acme.requests_per_minute = 2;
  TenantsFixture fixture({acme});
  EXPECT_TRUE(fixture.identify("sk-1", "x").has_value());
  EXPECT_TRUE(fixture.identify("sk-2", "y").has_value());
  EXPECT_FALSE(fixture.identify("sk-1", "z").has_value());
  EXPECT_FALSE(fixture.identify("sk-2").has_value());
}

/// The textbook token bucket.
struct ModelBucket {
  std::int64_t capacity;
  Duration per_token;
  Duration missing{0};  // time until it is full again

  bool take() {
    if (missing + per_token > per_token * capacity) return false;
    missing += per_token;
    return true;
  }
  void wait(Duration time) { missing = std::max(missing - time, Duration(0)); }
};

TEST(TenantQuotaProperty, AgreesWithATokenBucket) {
  for_each_seed(100, [](Rng& rng) {
    const auto per_minute = static_cast<std::int64_t>(1 + rng.below(50));
    TenantSettings acme = tenant("acme", "k");
    acme.requests_per_minute = static_cast<double>(per_minute);
    TenantsFixture fixture({acme});
    ModelBucket model{per_minute, Duration((60'000'000'000 + per_minute - 1) / per_minute)};
    for (int step = 0; step < 300; ++step) {
      ASSERT_EQ(fixture.identify("k").has_value(), model.take()) << "step " << step;
      const Duration wait(static_cast<Duration::rep>(
          rng.chance(0.5) ? 0
                          : rng.below(static_cast<std::uint64_t>(2 * model.per_token.count()))));
      fixture.clock.advance(wait);
      model.wait(wait);
    }
  });
}

TEST(TenantQuota, CountsRequestsFromAllThreads) {
  TenantSettings acme = tenant("acme", "sk-1");
  acme.requests_per_minute = 500;
  TenantsFixture fixture({acme});
  std::atomic<int> admitted = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 250; ++i) admitted += fixture.identify("sk-1").has_value() ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(admitted, 500);
}

TEST(TenantsWithKeys, AMadeKeyIsATenantOfItsName) {
  KeysFixture fixture;
  const NewKey made = fixture.store->make("acme", "", {}).value();
  const NewKey grouped = fixture.store->make("b", "public", {}).value();
  fixture.apply({}, "refuse");
  EXPECT_EQ(fixture.identify(made.secret)->name, "acme");
  EXPECT_EQ(fixture.identify(made.secret)->id, "tenant/acme");
  EXPECT_TRUE(fixture.identify(grouped.secret)->shares);
  EXPECT_NE(fixture.identify(made.secret)->account, fixture.identify(grouped.secret)->account);
  EXPECT_FALSE(fixture.identify("afi-" + std::string(64, '0')).has_value());
  EXPECT_FALSE(fixture.identify(made.key.key_sha256).has_value()) << "the hash is not the key";
}

TEST(TenantsWithKeys, TheNamespaceIsThatOfATenantOfTheSettings) {
  KeysFixture fixture;
  const NewKey made = fixture.store->make("acme", "", {}).value();
  fixture.apply();
  EXPECT_EQ(fixture.identify(made.secret)->cache_namespace,
            TenantsFixture({tenant("acme", "sk-1")}).identify("sk-1")->cache_namespace);
}

TEST(TenantsWithKeys, DisabledKeysAreRefusedWith401) {
  KeysFixture fixture;
  const NewKey made = fixture.store->make("acme", "", {}).value();
  fixture.store->set_disabled("acme", true).value();
  fixture.apply();
  const auto denied = fixture.identify(made.secret);
  ASSERT_FALSE(denied.has_value()) << "and it is no unlisted key either";
  EXPECT_EQ(denied.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(denied.error().message.contains("disabled"));
}

TEST(TenantsWithKeys, AReplacedKeyHoldsUntilItsGraceEnds) {
  KeysFixture fixture;
  const NewKey old = fixture.store->make("acme", "", {}).value();
  const NewKey next = fixture.store->rotate("acme", 60s).value();
  fixture.apply();
  EXPECT_EQ(fixture.identify(old.secret)->name, "acme");
  EXPECT_EQ(fixture.identify(next.secret)->name, "acme");
  fixture.wall.set(fixture.wall.now() + 60s - 1ns);
  EXPECT_TRUE(fixture.identify(old.secret).has_value());
  fixture.wall.set(fixture.wall.now() + 1ns);
  EXPECT_FALSE(fixture.identify(old.secret).has_value());
  EXPECT_TRUE(fixture.identify(next.secret).has_value());
}

TEST(TenantsWithKeys, BudgetsSayWhenToRetryAndGoOnOverReloads) {
  KeysFixture fixture;
  const NewKey made =
      fixture.store
          ->make("acme", "", std::vector<std::string>{"2 requests/day", "2 requests/minute"})
          .value();
  fixture.apply();
  EXPECT_TRUE(fixture.identify(made.secret).has_value());
  EXPECT_TRUE(fixture.identify(made.secret, Counting::kDoesNotCount).has_value());
  fixture.apply();
  EXPECT_TRUE(fixture.identify(made.secret).has_value());
  const auto denied = fixture.identify(made.secret);
  ASSERT_FALSE(denied.has_value());
  EXPECT_EQ(denied.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(denied.error().retry_after, Duration(24h));
  EXPECT_TRUE(denied.error().is_budget);
  EXPECT_EQ(denied.error().message,
            "the API key acme has used up its budget of 2 requests/day; it is renewed in 86400 s, "
            "at 2026-11-26T00:00:00Z");
  fixture.wall.set(fixture.wall.now() + 24h);
  EXPECT_TRUE(fixture.identify(made.secret).has_value());
}

TEST(TenantsWithKeys, TenantsOfTheSettingsHaveBudgetsToo) {
  KeysFixture fixture;
  TenantSettings acme = tenant("acme", "sk-1");
  acme.budgets = {"1 requests/minute"};
  fixture.apply({acme});
  EXPECT_TRUE(fixture.identify("sk-1").has_value());
  EXPECT_FALSE(fixture.identify("sk-1").error().is_budget) << "of a minute: a rate limit";
}

TEST(TenantsWithKeys, ANameMayNotBeInTheSettingsToo) {
  KeysFixture fixture;
  fixture.store->make("acme", "", {}).value();
  const auto made = fixture.create({tenant("acme", "sk-1")});
  ASSERT_FALSE(made.has_value());
  EXPECT_TRUE(made.error().message.contains("rename the tenant")) << made.error().message;
}

TEST(TenantsWithKeys, UnlistedKeysHaveNoAccount) {
  KeysFixture fixture;
  fixture.apply();
  EXPECT_EQ(fixture.identify("sk-any")->account, nullptr);
  EXPECT_TRUE(fixture.store->accounts().empty());
}

}  // namespace
}  // namespace afterimage
