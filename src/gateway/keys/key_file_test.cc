// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/keys/key_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

ManagedKey random_managed_key(Rng& rng, std::size_t number) {
  ManagedKey key{.name = "k" + std::to_string(number),
                 .group = rng.chance(0.5) ? "g" : "",
                 .key_sha256 = fmt::format("{:064x}", 2 * number + 1)};
  if (rng.chance(0.5)) {
    key.previous_sha256 = fmt::format("{:064x}", 2 * number + 2);
    key.previous_until_s = static_cast<std::int64_t>(rng.below(1ULL << 34U));
  }
  if (rng.chance(0.5)) key.budgets = {"1000 requests/day", "19.5 money/month"};
  key.disabled = rng.chance(0.5);
  key.created_s = static_cast<std::int64_t>(rng.below(1ULL << 34U));
  key.rotated_s = static_cast<std::int64_t>(rng.below(1ULL << 34U));
  return key;
}

TEST(KeyFileProperty, RoundTrips) {
  for_each_seed(100, [](Rng& rng) {
    std::vector<ManagedKey> keys;
    for (std::uint64_t i = rng.below(5); i > 0; --i) keys.push_back(random_managed_key(rng, i));
    ASSERT_EQ(parse_keys(print_keys(keys)).value(), keys);
    SavedUsage usage;
    for (std::uint64_t i = rng.below(5); i > 0; --i) {
      AccountState& state = usage["k" + std::to_string(i)];
      state.total.requests = rng();
      state.total.cost_nano = rng();
      if (rng.chance(0.8))
        state.windows[1] = {.number = static_cast<std::int64_t>(rng.below(99999)),
                            .used = {rng(), 2, 3}};
    }
    ASSERT_EQ(parse_usage(print_usage(usage)).value(), usage);
  });
}

TEST(KeyFile, EveryPrefixIsRefused) {
  Rng rng(1);
  const std::string whole = print_keys({random_managed_key(rng, 1), random_managed_key(rng, 2)});
  const std::size_t end = whole.find_last_of('}');
  for (std::size_t size = 0; size <= end; ++size) {
    ASSERT_FALSE(parse_keys(whole.substr(0, size)).has_value()) << whole.substr(0, size);
  }
}

TEST(KeyFile, RefusesWhatItDoesNotWrite) {
  const std::string good = print_keys({{.name = "a", .key_sha256 = std::string(64, 'a')}});
  ASSERT_TRUE(parse_keys(good).has_value());
  const struct {
    const char* from;
    const char* to;
    const char* why;
  } kCases[] = {
      {"\"version\": 1", "\"version\": 2", "another version"},
      {"\"version\": 1", "\"version\": \"1\"", "another version"},
      {"\"name\": \"a\"", "\"name\": \"a b\"", "its name is not valid"},
      {"\"name\": \"a\"", "\"name\": \"key-1\"", "its name is not valid"},
      {"\"name\": \"a\"", "\"name\": 1", "no \"name\""},
      {"aaaa\"", "aaaA\"", "\"key_sha256\" is missing or not valid"},
      {"aaaa\"", "aaa\"", "\"key_sha256\" is missing or not valid"},
      {"\"group\": \"\"", "\"group\": \" \"", "\"group\""},
      {"\"disabled\": false", "\"disabled\": 0", "\"disabled\""},
      {"\"created\": 0", "\"created\": -1", "\"created\""},
      {"\"created\": 0", "\"created\": 1e300", "\"created\""},
      {"\"created\": 0", "\"created\": 18446744073709551615", "\"created\""},
      {"\"budgets\": []", "\"budgets\": [\"5\"]", "\"budgets\""},
      {"\"budgets\": []", "\"budgets\": [], \"more\": 1", "does not know"},
      {"\"rotated\": 0", "\"rotatad\": 0", "\"rotated\""},
      {"\"previous_sha256\": \"\"", "\"previous_sha256\": \"x\"", "\"previous_sha256\""},
  };
  for (const auto& c : kCases) {
    std::string text = good;
    const std::size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, std::string_view(c.from).size(), c.to);
    const auto read = parse_keys(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_TRUE(read.error().message.contains(c.why)) << read.error().message;
    EXPECT_FALSE(read.error().message.contains("aaaa")) << "hashes are not repeated";
  }
}

TEST(KeyFile, RefusesNamesAndHashesThatAreThereTwice) {
  const std::string one(64, 'a');
  const std::string two(64, 'b');
  EXPECT_FALSE(
      parse_keys(print_keys({{.name = "a", .key_sha256 = one}, {.name = "a", .key_sha256 = two}}))
          .has_value());
  EXPECT_FALSE(
      parse_keys(print_keys({{.name = "a", .key_sha256 = one}, {.name = "b", .key_sha256 = one}}))
          .has_value());
  EXPECT_FALSE(parse_keys(print_keys({{.name = "a", .key_sha256 = one, .previous_sha256 = one}}))
                   .has_value());
}

TEST(UsageFile, RefusesWhatItDoesNotWrite) {
  SavedUsage usage;
  usage["a"].total.requests = 7;
  const std::string good = print_usage(usage);
  ASSERT_TRUE(parse_usage(good).has_value());
  for (const auto& [from, to] :
       std::map<std::string, std::string>{{"\"requests\": 7", "\"requests\": -7"},
                                          {"\"requests\": 7", "\"requests\": 7.5"},
                                          {"\"name\": \"a\"", "\"name\": \"\""},
                                          {"\"windows\"", "\"window\""},
                                          {"-1", "-2"},
                                          {"-1", "null"}}) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    EXPECT_FALSE(parse_usage(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace afterimage
