// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "testing/simulated_cell.h"

namespace afterimage {
namespace {

using testing::SimulatedCell;
using testing::SimulatedServers;

constexpr std::string_view kText = "what was erased, and its words";
const auto kContent = std::as_bytes(std::span(kText));
constexpr TierKey kPlace{.entry_class = EntryClass::kAnswer, .bytes = {std::byte{1}}};
constexpr TierKey kElsewhere{.entry_class = EntryClass::kAnswer, .bytes = {std::byte{2}}};

EncryptionKeys key_of(const std::string& digits) {
  std::string lines;
  for (const char digit : digits) lines += std::string(64, digit) + "\n";
  return EncryptionKeys::parse(lines, "test").value();
}

TEST(EncryptedCell, RoundTripsAndStoresNoPlaintext) {
  SimulatedServers servers;
  SimulatedCell raw(servers);
  EncryptedCell one(raw, kPlace, key_of("1"));
  EncryptedCell other(raw, kPlace, key_of("1"));
  EXPECT_FALSE(one.read().value().has_value());
  ASSERT_TRUE(one.replace(std::nullopt, kContent).value());
  EXPECT_EQ(servers.master->find("erased"), std::string::npos);
  const auto found = other.read().value();
  EXPECT_TRUE(std::ranges::equal(found.value().bytes, kContent));
  EXPECT_FALSE(other.replace(std::nullopt, kContent).value()) << "it is there";
  EXPECT_TRUE(other.replace(found->version, {}).value());
  EXPECT_FALSE(one.replace(found->version, kContent).value()) << "the version has changed";
}

TEST(EncryptedCell, DistinguishesAnotherKeyFromDamage) {
  SimulatedServers servers;
  SimulatedCell raw(servers);
  ASSERT_TRUE(EncryptedCell(raw, kPlace, key_of("1")).replace(std::nullopt, kContent).value());
  EXPECT_EQ(EncryptedCell(raw, kPlace, key_of("2")).read().error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(EncryptedCell(raw, kPlace, key_of("21")).read().has_value())
      << "the old key still decrypts during rotation";
  const std::string good = *servers.master;
  for (const std::string& bad : {good + "x", good.substr(1), std::string(kText), std::string()}) {
    servers.master = bad;
    EncryptedCell cell(raw, kPlace, key_of("1"));
    const auto found = cell.read().value();
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(found->bytes.empty());
    EXPECT_TRUE(cell.replace(found->version, kContent).value()) << "it can be replaced";
  }
}

// Reported as empty, it would be replaced by a new list, and all answers would be lost.
TEST(EncryptedCell, UnreachableIsNotReportedAsEmpty) {
  SimulatedServers servers;
  SimulatedCell raw(servers);
  EncryptedCell cell(raw, kPlace, key_of("1"));
  ASSERT_TRUE(cell.replace(std::nullopt, kContent).value());
  const std::string version = cell.read().value()->version;
  raw.unreachable = true;
  EXPECT_EQ(cell.read().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(cell.replace(version, kContent).error().code, ErrorCode::kUnavailable);
  raw.unreachable = false;
  servers.replicates = false;
  EXPECT_EQ(cell.read().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(cell.replace(version, {}).error().code, ErrorCode::kUnavailable);
}

// Replacing the value by the same content encrypts it again, which changes the version.
TEST(EncryptedCell, RewritingTheSameContentChangesTheVersion) {
  SimulatedServers servers;
  SimulatedCell raw(servers);
  EncryptedCell one(raw, kPlace, key_of("1"));
  ASSERT_TRUE(one.replace(std::nullopt, kContent).value());
  const std::string first = one.read().value()->version;
  ASSERT_TRUE(one.replace(first, kContent).value());
  EXPECT_NE(one.read().value()->version, first);
  EXPECT_FALSE(one.replace(first, {}).value());
}

TEST(EncryptedCell, ReplacesUnderTheFirstKey) {
  SimulatedServers servers;
  SimulatedCell raw(servers);
  ASSERT_TRUE(EncryptedCell(raw, kPlace, key_of("1")).replace(std::nullopt, kContent).value());
  EncryptedCell changing(raw, kPlace, key_of("21"));
  const auto found = changing.read().value();
  EXPECT_TRUE(std::ranges::equal(found.value().bytes, kContent));
  ASSERT_TRUE(changing.replace(found->version, kContent).value());
  EXPECT_TRUE(
      std::ranges::equal(EncryptedCell(raw, kPlace, key_of("2")).read().value()->bytes, kContent));
  EXPECT_FALSE(EncryptedCell(raw, kPlace, key_of("1")).read().has_value());
}

TEST(EncryptedCell, CannotBeMoved) {
  SimulatedServers servers;
  SimulatedCell raw(servers);
  ASSERT_TRUE(EncryptedCell(raw, kElsewhere, key_of("1")).replace(std::nullopt, kContent).value());
  EXPECT_TRUE(EncryptedCell(raw, kPlace, key_of("1")).read().value()->bytes.empty());
}

}  // namespace
}  // namespace afterimage
