// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similar_page.h"

#include <gtest/gtest.h>

#include <limits>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

constexpr SimilarityKind kClose{.change = WordChange::kNone, .similarity = 0.96F};
constexpr SimilarityKind kFar{
    .change = WordChange::kReplaced, .about_media = true, .similarity = 0.1F};

SimilarPage page() {
  SimilarPage page{.layers = {"text", "picture"}, .epoch = 3, .candidates = {}};
  SimilarCandidate seen{
      .question = "Is it \0red?", .vectors = {{0.6F, 0.8F}, {1.0F}}, .evidence = {}};
  seen.evidence.add(kClose, true);
  seen.evidence.add(kFar, false);
  page.candidates = {seen, {.question = "", .vectors = {{}, {0.0F}}, .evidence = {}}};
  return page;
}

TEST(SimilarPage, IsReadAsItWasWritten) {
  EXPECT_EQ(similar_page_from(to_bytes(page())).value(), page());
  EXPECT_EQ(similar_page_from(to_bytes(SimilarPage())).value(), SimilarPage());
}

TEST(SimilarPage, APartIsNoPage) {
  const auto bytes = to_bytes(page());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = similar_page_from(std::span(bytes).first(size));
    ASSERT_FALSE(part.has_value()) << size;
    EXPECT_EQ(part.error().code, ErrorCode::kCorruption);
  }
}

TEST(SimilarPage, AVectorOfNumbersThatAreNoneIsRefused) {
  SimilarPage broken = page();
  broken.candidates[0].vectors[0][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(similar_page_from(to_bytes(broken)).has_value());
}

TEST(SharedEvidence, IsReadAsItWasWritten) {
  SharedEvidence evidence{.epoch = 7, .table = {}};
  EXPECT_EQ(shared_evidence_from(to_bytes(evidence)).value(), evidence);
  evidence.table.add(kClose, true);
  evidence.table.add(EvidenceTable::index_of(kFar), {.right = 4'000'000'000U, .wrong = 2});
  EXPECT_EQ(shared_evidence_from(to_bytes(evidence)).value(), evidence);
}

TEST(SharedEvidenceProperty, OneFlippedBitIsDetected) {
  SharedEvidence evidence{.epoch = 7, .table = {}};
  evidence.table.add(kClose, true);
  auto bytes = to_bytes(evidence);
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] ^= std::byte{1} << (i % 8);
    ASSERT_FALSE(shared_evidence_from(bytes).has_value()) << "bit " << i;
    bytes[i / 8] ^= std::byte{1} << (i % 8);
  }
}

TEST(SharedEvidence, NothingMayFollowIt) {
  SharedEvidence evidence;
  evidence.table.add(kClose, true);
  auto bytes = to_bytes(evidence);
  bytes.resize(bytes.size() - kDigestBytes);
  // Each with the right checksum.
  const auto checksum = sha256(bytes);
  auto longer = bytes;
  longer.insert(longer.end(), checksum.begin(), checksum.end());
  EXPECT_TRUE(shared_evidence_from(longer).has_value());
  longer = bytes;
  longer.push_back(std::byte{0});
  const auto other = sha256(longer);
  longer.insert(longer.end(), other.begin(), other.end());
  EXPECT_FALSE(shared_evidence_from(longer).has_value());
}

TEST(EvidenceTable, CountsEndAtTheirLargestValue) {
  EvidenceTable table;
  table.add(0, {.right = UINT32_MAX, .wrong = 1});
  table.add(0, {.right = 5, .wrong = 1});
  EXPECT_EQ(table.cells()[0], (Evidence{.right = UINT32_MAX, .wrong = 2}));
  table.add(1, {.right = 1, .wrong = 0});
  EXPECT_EQ(table.total(), (Evidence{.right = UINT32_MAX, .wrong = 2}));
}

}  // namespace
}  // namespace afterimage
