// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/vector_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "caches/similarity/dot.h"
#include "caches/similarity/embedder.h"
#include "testing/seeds.h"

// hnswlib locks rows in an order that two concurrent insertions could invert. VectorIndex never
// runs two at a time (see Threads).
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "detect_deadlocks=0"; }

namespace afterimage {
namespace {

constexpr std::size_t kDimensions = 24;
constexpr std::size_t kAllExact = std::numeric_limits<std::size_t>::max();

Vector random_vector(Rng& rng) {
  Vector vector(kDimensions);
  for (float& x : vector) x = static_cast<float>(rng.normal());
  normalize(vector);
  return vector;
}

/// Clustered vectors, as texts have.
Vector vector_near(Rng& rng, const Vector& centre) {
  Vector vector = centre;
  for (float& x : vector) x += 0.1F * static_cast<float>(rng.normal());
  normalize(vector);
  return vector;
}

VectorIndex make_index(std::size_t exact_rows = kAllExact) {
  return VectorIndex::create({.dimensions = kDimensions, .exact_rows = exact_rows}).value();
}

/// The obvious model: a linear scan.
struct Model {
  std::map<RowId, Vector> rows;

  [[nodiscard]] std::vector<Neighbour> nearest(const Vector& query, std::size_t count) const {
    std::vector<Neighbour> all;
    for (const auto& [row, vector] : rows) {
      all.push_back({row, dot_product()(vector.data(), query.data(), query.size())});
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &Neighbour::similarity);
    all.resize(std::min(count, all.size()));
    return all;
  }
};

TEST(VectorIndex, AnEmptyIndexFindsNothing) {
  const VectorIndex index = make_index();
  Rng rng(1);
  EXPECT_TRUE(index.nearest(random_vector(rng), 5).value().empty());
}

TEST(VectorIndex, FindsAVectorItself) {
  VectorIndex index = make_index();
  Rng rng(1);
  const Vector vector = random_vector(rng);
  const RowId row = index.insert(vector).value();
  const auto found = index.nearest(vector, 5).value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].row, row);
  EXPECT_NEAR(found[0].similarity, 1.0F, 1e-5F);
  EXPECT_TRUE(index.nearest(vector, 0).value().empty());
}

// Seed 17: another number of dimensions ended the whole run.
TEST(VectorIndex, RejectsInvalidVectors) {
  VectorIndex index = make_index();
  Vector vector(kDimensions, 0.0F);
  EXPECT_EQ(index.insert(vector).error().code, ErrorCode::kInvalidArgument);  // a zero vector
  EXPECT_TRUE(index.nearest(vector, 1).has_value());
  vector[0] = 2.0F;
  EXPECT_EQ(index.insert(vector).error().code, ErrorCode::kInvalidArgument);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    vector[0] = bad;
    EXPECT_EQ(index.insert(vector).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(index.nearest(vector, 1).error().code, ErrorCode::kInvalidArgument);
  }
  const Vector longer(kDimensions + 1, 0.2F);
  EXPECT_EQ(index.insert(longer).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(index.nearest(longer, 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(index.size(), 0U);
  EXPECT_EQ(VectorIndex::create({.dimensions = 0}).error().code, ErrorCode::kInvalidArgument);
}

TEST(VectorIndexProperty, ExactSearchAgreesWithALinearScan) {
  testing::for_each_seed(20, [](Rng& rng) {
    VectorIndex index = make_index();
    Model model;
    for (int step = 0; step < 300; ++step) {
      if (rng.chance(0.3) && !model.rows.empty()) {
        auto it = model.rows.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(rng.below(model.rows.size())));
        index.erase(it->first);
        model.rows.erase(it);
      } else {
        const Vector vector = random_vector(rng);
        const RowId row = index.insert(vector).value();
        ASSERT_TRUE(model.rows.emplace(row, vector).second) << "a row that is in use";
      }
      const Vector query = random_vector(rng);
      ASSERT_EQ(index.nearest(query, 7).value(), model.nearest(query, 7)) << "step " << step;
      index.check_invariants();
    }
  });
}

// Most rows are in the graph; erased rows are never found, also after their place is reused.
TEST(VectorIndexProperty, GraphSearchFindsNothingErasedAndHasHighRecall) {
  testing::for_each_seed(3, [](Rng& rng) {
    VectorIndex index = make_index(/*exact_rows=*/50);
    Model model;
    std::vector<Vector> centres;
    for (int i = 0; i < 40; ++i) centres.push_back(random_vector(rng));
    int asked = 0;
    int right = 0;
    for (int step = 0; step < 1500; ++step) {
      const Vector vector = vector_near(rng, centres[rng.below(centres.size())]);
      if (step > 500 && rng.chance(0.45)) {
        auto it = model.rows.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(rng.below(model.rows.size())));
        index.erase(it->first);
        model.rows.erase(it);
      } else {
        model.rows.insert_or_assign(index.insert(vector).value(), vector);
      }
      if (step % 5 != 0) continue;
      const Vector query = vector_near(rng, centres[rng.below(centres.size())]);
      const auto found = index.nearest(query, 3).value();
      for (const Neighbour& one : found) ASSERT_TRUE(model.rows.contains(one.row));
      ++asked;
      right += found.front().row == model.nearest(query, 1).front().row ? 1 : 0;
    }
    index.check_invariants();
    EXPECT_EQ(index.size(), model.rows.size());
    EXPECT_GT(index.rows_in_graph(), index.size() / 2);
    EXPECT_GE(right, asked * 98 / 100) << "of " << asked;
  });
}

TEST(VectorIndex, AnEmptiedIndexFindsNothingAndCanBeRefilled) {
  Rng rng(1);
  VectorIndex index = make_index(/*exact_rows=*/8);
  std::vector<RowId> rows;
  for (int i = 0; i < 64; ++i) rows.push_back(index.insert(random_vector(rng)).value());
  EXPECT_GT(index.rows_in_graph(), 0U);
  for (const RowId row : rows) index.erase(row);
  EXPECT_TRUE(index.nearest(random_vector(rng), 5).value().empty());
  const Vector vector = random_vector(rng);
  const RowId row = index.insert(vector).value();
  EXPECT_EQ(index.nearest(vector, 5).value().front().row, row);
  index.check_invariants();
}

TEST(VectorIndex, ReusesSlots) {
  Rng rng(1);
  for (const std::size_t exact_rows : {std::size_t{8}, kAllExact}) {
    VectorIndex index = make_index(exact_rows);
    for (int i = 0; i < 100; ++i) (void)index.insert(random_vector(rng)).value();
    const Bytes full = index.bytes();
    for (int i = 0; i < 1000; ++i) {
      const Vector vector = random_vector(rng);
      index.erase(index.nearest(vector, 1).value().front().row);
      (void)index.insert(vector).value();
    }
    EXPECT_LE(index.bytes(), full + full);  // at most two graphs of the smallest size
    EXPECT_EQ(index.size(), 100U);
  }
}

}  // namespace
}  // namespace afterimage
