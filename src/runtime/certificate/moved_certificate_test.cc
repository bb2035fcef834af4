// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/certificate/moved_certificate.h"

#include <gtest/gtest.h>

#include <span>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

MovedCertificate certificate() {
  MovedCertificate made{.engine = "reference (full)",
                        .recomputed = TokenCount(4),
                        .tokens = {.requests = 300, .same = 4000, .other = 2, .divergence = 0.125},
                        .tasks = {{.name = "single-hop", .asked = 10, .right = 8, .lost = 1},
                                  {.name = "multi-hop", .asked = 5, .right = 3, .gained = 2}}};
  made.origin.bytes[0] = std::byte(0xAB);
  return made;
}

/// With the digest that its lines have.
std::string resealed(std::string text) {
  text.resize(text.rfind("sha256 "));
  return text + "sha256 " + to_hex(sha256(std::as_bytes(std::span(text)))) + "\n";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = write_certificate(certificate());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return resealed(text.replace(at, from.size(), to));
}

TEST(MovedCertificate, IsReadAsItWasWritten) {
  const std::string text = write_certificate(certificate());
  EXPECT_TRUE(text.starts_with("afterimage moved media 1\norigin ab00")) << text;
  EXPECT_NE(text.find("\ntask multi-hop 5 3 0 2\nsha256 "), std::string::npos) << text;
  EXPECT_EQ(parse_certificate(text).value(), certificate());
  MovedCertificate plain = certificate();
  plain.tasks.clear();
  EXPECT_EQ(parse_certificate(write_certificate(plain)).value(), plain);
}

TEST(MovedCertificate, EveryChangedByteIsFound) {
  const std::string text = write_certificate(certificate());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int flip : {1, 2, 0x20}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_FALSE(parse_certificate(damaged).has_value()) << i;
    }
    EXPECT_FALSE(parse_certificate(std::string_view(text).substr(0, i)).has_value()) << i;
  }
}

TEST(MovedCertificate, RefusesWhatWriteNeverWrites) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"media 1", "media 2"},
           {"origin ab", "origin AB"},
           {"origin ab", "origin  ab"},
           {"engine reference", "engine \x01"},
           {"recomputed 4", "recomputed 04"},
           {"recomputed 4", "recomputed +4"},
           {"recomputed 4", "recomputed 4 "},
           {"recomputed 4", "recomputed 1000001"},
           {"same 4000", "same -1"},
           {"same 4000", "same 18446744073709551615"},
           {"other 2", "other 301"},
           {"other 2\n", "other 2\r\n"},
           {"0.125000000000", "0.125"},
           {"0.125000000000", "-0.125000000000"},
           {"0.125000000000", "nan"},
           {"0.125000000000", "inf"},
           {"task single-hop 10 8 1 0", "task single-hop 10 11 1 0"},
           {"task single-hop 10 8 1 0", "task single-hop 10 8 9 0"},
           {"task single-hop 10 8 1 0", "task single-hop 10 8 1 3"},
           {"task single-hop 10 8 1 0", "task single-hop 10 8 1"},
           {"task single-hop 10 8 1 0", "task single-hop 10 8 1 0 0"},
           {"task single-hop", "task "},
           {"task multi-hop", "task single-hop"},
           {"task multi-hop", "tasks multi-hop"},
       }) {
    EXPECT_FALSE(parse_certificate(changed(from, to)).has_value()) << from << " -> " << to;
  }
  EXPECT_FALSE(parse_certificate(write_certificate(certificate()) + "\n").has_value());
  EXPECT_TRUE(parse_certificate(changed("other 2", "other 300")).has_value());
}

TEST(MovedCertificate, SaysWhatToDo) {
  const auto parsed = parse_certificate("nonsense\n");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kCorruption);
  EXPECT_NE(parsed.error().message.find("line 1"), std::string::npos) << parsed.error().message;
  EXPECT_NE(parsed.error().message.find("afterimage-lab certify"), std::string::npos);
}

TEST(MovedCertificate, HoldsForItsModelAndItsBound) {
  const MovedCertificate made = certificate();
  KvOrigin other = made.origin;
  other.bytes[31] = std::byte(1);
  EXPECT_TRUE(check_certificate(made, made.origin, 0.01).has_value());
  EXPECT_FALSE(check_certificate(made, other, 0.01).has_value());
  EXPECT_FALSE(check_certificate(made, made.origin, 0.001).has_value());
  MovedCertificate few = made;
  few.tokens = {.requests = 10, .same = 100};
  EXPECT_FALSE(check_certificate(few, few.origin, 0.01).has_value())
      << "nothing differed, in too few tokens";
  few.tokens = {};
  EXPECT_FALSE(check_certificate(few, few.origin, 0.99).has_value()) << "nothing was measured";
}

TEST(MovedLoss, IntervalsAreThoseOfTheBooks) {
  const ShareInterval none = TokenLoss{.requests = 9, .same = 100, .other = 0}.share();
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.036995, 1e-5);  // Wilson, 0 of 100
  const ShareInterval some = TokenLoss{.requests = 9, .same = 90, .other = 10}.share();
  EXPECT_NEAR(some.low, 0.055229, 1e-5);
  EXPECT_NEAR(some.high, 0.174367, 1e-5);
  // 100 pairs, 12 lost and 5 gained: (12 - 5) / 102 ± 1.96 sqrt(18 - 49 / 102) / 102.
  const ShareInterval task =
      TaskLoss{.name = "t", .asked = 100, .right = 60, .lost = 12, .gained = 5}.share();
  EXPECT_NEAR(task.value, 0.07, 1e-9);
  EXPECT_NEAR(task.low, -0.011800, 1e-4);
  EXPECT_NEAR(task.high, 0.149054, 1e-4);
}

}  // namespace
}  // namespace afterimage
