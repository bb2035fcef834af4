// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/reuse_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace afterimage {
namespace {

std::size_t bin_at(double age) {
  std::size_t bin = 0;
  while (ReuseModel::begin_of(bin + 1) <= age) ++bin;
  return bin;
}

ReuseModel::Traits traits(std::uint8_t value) {
  ReuseModel::Traits made;
  made.values[1] = value;
  return made;
}

/// Members of the class reach the given age, at which a part of them is reused.
void live(ReuseModel& model, ReuseModel::Class which, double age, double reused, int members) {
  const std::size_t last = bin_at(age);
  for (int member = 0; member < members; ++member) {
    for (std::size_t bin = 0; bin < last; ++bin) model.outlived(which, bin);
    model.observe(which, last, age - ReuseModel::begin_of(last), reused);
  }
}

TEST(ReuseModel, WithoutObservationsItIsAnLru) {
  ReuseModel model;
  const auto unknown = model.classify({.common = std::array<std::uint64_t, 2>{7, 8}});
  for (std::size_t bin = 1; bin < ReuseModel::kBins; ++bin) {
    EXPECT_LT(model.index(unknown, bin), model.index(unknown, bin - 1)) << bin;
  }
}

// A rate without age cannot express this: an entry is worth more just before its usual reuse than
// when it is new, and little once that time has passed.
TEST(ReuseModel, WorthRisesTowardsTheUsualReuseAndFallsAfterIt) {
  ReuseModel model;
  const auto regular = model.classify({.common = std::array<std::uint64_t, 1>{1}});
  live(model, regular, 100, 1, 200);
  model.fade();
  model.estimate();
  EXPECT_GT(model.index(regular, bin_at(90)), 3 * model.index(regular, bin_at(10)));
  EXPECT_GT(model.index(regular, bin_at(10)), 3 * model.index(regular, bin_at(300)));
}

TEST(ReuseModel, AClassWithFewObservationsResemblesTheOneItRefines) {
  ReuseModel model;
  const auto known = model.classify({.common = std::array<std::uint64_t, 2>{1, 10}});
  live(model, known, 50, 1, 500);
  model.fade();
  model.estimate();
  const auto fresh = model.classify({.common = std::array<std::uint64_t, 2>{1, 11}});
  const auto stranger =
      model.classify({.common = std::array<std::uint64_t, 2>{2, 20}}, {.kind = 1});
  EXPECT_NE(fresh, known);
  EXPECT_NEAR(model.index(fresh, bin_at(45)) / model.index(known, bin_at(45)), 1, 0.1);
  EXPECT_GT(model.index(fresh, bin_at(45)), 5 * model.index(stranger, bin_at(45)));
}

TEST(ReuseModel, AClassWithManyObservationsIsItself) {
  ReuseModel model;
  const auto reused = model.classify({.common = std::array<std::uint64_t, 2>{1, 10}}, traits(10));
  const auto dead = model.classify({.common = std::array<std::uint64_t, 2>{1, 11}}, traits(11));
  for (int member = 0; member < 200; ++member) {
    live(model, reused, 50, 1, 1);
    live(model, dead, 50, 0, 1);
  }
  model.fade();
  model.estimate();
  EXPECT_GT(model.index(reused, bin_at(45)), 20 * model.index(dead, bin_at(45)));
}

// Both branches refine the same common table, and the traits are the same.
TEST(ReuseModel, EachBranchTellsClassesApart) {
  using Branch = std::array<std::uint64_t, 1>;
  for (const bool first : {true, false}) {
    ReuseModel model;
    const auto classify = [&](std::uint64_t feature) {
      const Branch tells{feature};
      const Branch same{7};
      const std::array<std::uint64_t, 1> common{1};
      if (first) return model.classify({.common = common, .branches = {tells, same}});
      return model.classify({.common = common, .branches = {same, tells}});
    };
    const auto reused = classify(10);
    const auto dead = classify(11);
    for (int member = 0; member < 200; ++member) {
      live(model, reused, 50, 1, 1);
      live(model, dead, 50, 0, 1);
    }
    model.fade();
    model.estimate();
    EXPECT_GT(model.index(reused, bin_at(45)), 2 * model.index(dead, bin_at(45))) << first;
  }
}

// A client that varies what it can must not fill the memory.
TEST(ReuseModel, TablesAreBoundedAndThenClassesShareThem) {
  ReuseModel model;
  std::uint64_t feature = 0;
  while (model.tables() < ReuseModel::kMostTables) {
    model.classify({.common = std::array<std::uint64_t, 2>{1, ++feature}});
  }
  const auto late = model.classify({.common = std::array<std::uint64_t, 2>{1, feature + 1}});
  const auto later = model.classify({.common = std::array<std::uint64_t, 2>{1, feature + 2}});
  EXPECT_EQ(model.tables(), ReuseModel::kMostTables);
  EXPECT_EQ(late, later);
  live(model, late, 50, 1, 200);
  model.fade();
  model.estimate();
  EXPECT_GT(model.index(late, bin_at(45)), 3 * model.index(late, bin_at(300)));
}

TEST(ReuseModel, OldObservationsFade) {
  ReuseModel model;
  const auto kind = model.classify({.common = std::array<std::uint64_t, 1>{1}});
  live(model, kind, 50, 1, 1000);
  model.fade();
  model.estimate();
  const double before = model.index(kind, bin_at(45));
  for (int round = 0; round < 3000; ++round) {
    live(model, kind, 50, 0, 1);
    model.fade();
    model.estimate();
  }
  EXPECT_LT(model.index(kind, bin_at(45)), before / 10);
}

// The table is the same for both: only the regression can tell them apart.
TEST(ReuseModel, ClassesWithOneTableDifferByTheirTraits) {
  ReuseModel model;
  const std::array<std::uint64_t, 1> table{1};
  const auto reused = model.classify({.common = table}, traits(1));
  const auto dead = model.classify({.common = table}, traits(2));
  for (int member = 0; member < 200; ++member) {
    live(model, reused, 50, 1, 1);
    live(model, dead, 50, 0, 1);
  }
  model.fade();
  model.estimate();
  EXPECT_GT(model.index(reused, bin_at(45)), 2 * model.index(dead, bin_at(45)));
}

TEST(ReuseModel, AReleasedClassIsUsedAgainOnlyAfterTheNextEstimate) {
  ReuseModel model;
  const std::array<std::uint64_t, 1> table{1};
  const auto first = model.classify({.common = table}, traits(1));
  EXPECT_EQ(model.classify({.common = table}, traits(1)), first);
  model.release(first);
  EXPECT_EQ(model.classes(), 1U) << "it was asked for twice";
  model.release(first);
  EXPECT_EQ(model.classes(), 0U);
  EXPECT_EQ(model.released(), 1U);
  const auto second = model.classify({.common = table}, traits(2));
  EXPECT_NE(second, first) << "the owner may still rank the first one";
  model.estimate();
  EXPECT_EQ(model.released(), 0U);
  EXPECT_EQ(model.classify({.common = table}, traits(3)), first);
}

TEST(ReuseModel, AClassThatIsUsedAgainForgetsItsIndices) {
  ReuseModel model;
  const auto first = model.classify({.common = std::array<std::uint64_t, 1>{1}}, traits(1));
  live(model, first, 50, 1, 200);
  model.fade();
  model.estimate();
  const double known = model.index(first, bin_at(45));
  model.release(first);
  model.estimate();
  const auto other = model.classify({.common = std::array<std::uint64_t, 1>{2}}, {.kind = 3});
  ASSERT_EQ(other, first);
  EXPECT_LT(model.index(other, bin_at(45)), known / 3);
}

// 40 % of the members are reused after about 100 seconds, the others never.
TEST(ReuseModel, EvidenceMultipliesTheOddsOfReuse) {
  ReuseModel model;
  const std::array<std::uint64_t, 1> feature{1};
  const auto plain = model.classify({.common = feature});
  for (int i = 0; i < 400; ++i) {
    if (i % 5 < 2) {
      live(model, plain, 100, 1, 1);
    } else {
      for (std::size_t bin = 0; bin < ReuseModel::kResolved; ++bin) model.outlived(plain, bin);
    }
  }
  model.fade();
  model.estimate();
  const double p = model.probability(plain);
  ASSERT_GT(p, 0.1);
  ASSERT_LT(p, 0.5);
  const auto likely = model.classify({.common = feature}, {}, 9);     // × 9.5
  const auto unlikely = model.classify({.common = feature}, {}, -9);  // ÷ 9.5
  const double ratio = std::exp(9 * 0.25);
  // Just before the usual reuse the index is near the share reused there: p × L ÷ (p × L + 1 - p).
  const auto weighed = [&](double by) { return p * by / (p * by + 1 - p); };
  const std::size_t before = bin_at(80);
  EXPECT_GT(model.index(likely, before), 1.5 * model.index(plain, before));
  EXPECT_NEAR(model.index(unlikely, 0) / model.index(plain, 0), weighed(1 / ratio) / p, 0.15);
  EXPECT_LT(model.index(unlikely, before), model.index(plain, before) / 4);
  EXPECT_FLOAT_EQ(static_cast<float>(model.probability(likely)), static_cast<float>(p))
      << "the probability is that without the evidence";
}

TEST(ReuseModel, EvidenceChangesNothingWhereReuseIsCertain) {
  ReuseModel model;
  const std::array<std::uint64_t, 1> feature{1};
  live(model, model.classify({.common = feature}), 3, 1, 100'000);
  model.fade();
  model.estimate();
  const auto plain = model.classify({.common = feature});
  for (const int evidence : {-32, 32}) {
    const auto weighed = model.classify({.common = feature}, {}, evidence);
    for (std::size_t bin = 0; bin < ReuseModel::kBins; ++bin) {
      EXPECT_TRUE(std::isfinite(model.index(weighed, bin))) << bin;
      EXPECT_GT(model.index(weighed, bin), 0) << bin;
    }
  }
  EXPECT_GT(model.index(plain, 0), 0);
}

}  // namespace
}  // namespace afterimage
