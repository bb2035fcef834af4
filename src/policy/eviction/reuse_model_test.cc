// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/reuse_model.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

std::size_t bin_at(double age) {
  std::size_t bin = 0;
  while (ReuseModel::begin_of(bin + 1) <= age) ++bin;
  return bin;
}

/// Members of the class reach the given age, at which a part of them is reused.
void live(ReuseModel& model, ReuseModel::Class which, double age, double reused, int members) {
  const std::size_t last = bin_at(age);
  for (int member = 0; member < members; ++member) {
    for (std::size_t bin = 0; bin < last; ++bin) {
      model.observe(which, bin, ReuseModel::begin_of(bin + 1) - ReuseModel::begin_of(bin), 0);
    }
    model.observe(which, last, age - ReuseModel::begin_of(last), reused);
  }
}

TEST(ReuseModel, WithoutObservationsItIsAnLru) {
  ReuseModel model;
  const auto unknown = model.classify(std::array<std::uint64_t, 2>{7, 8});
  for (std::size_t bin = 1; bin < ReuseModel::kBins; ++bin) {
    EXPECT_LT(model.index(unknown, bin), model.index(unknown, bin - 1)) << bin;
  }
}

// A rate without age cannot express this: an entry is worth more just before its usual reuse than
// when it is new, and little once that time has passed.
TEST(ReuseModel, WorthRisesTowardsTheUsualReuseAndFallsAfterIt) {
  ReuseModel model;
  const auto regular = model.classify(std::array<std::uint64_t, 1>{1});
  live(model, regular, 100, 1, 200);
  model.fade();
  model.estimate();
  EXPECT_GT(model.index(regular, bin_at(90)), 3 * model.index(regular, bin_at(10)));
  EXPECT_GT(model.index(regular, bin_at(10)), 3 * model.index(regular, bin_at(300)));
}

TEST(ReuseModel, AClassWithFewObservationsResemblesTheOneItRefines) {
  ReuseModel model;
  const auto known = model.classify(std::array<std::uint64_t, 2>{1, 10});
  live(model, known, 50, 1, 500);
  model.fade();
  model.estimate();
  const auto fresh = model.classify(std::array<std::uint64_t, 2>{1, 11});
  const auto stranger = model.classify(std::array<std::uint64_t, 2>{2, 20});
  EXPECT_NE(fresh, known);
  EXPECT_NEAR(model.index(fresh, bin_at(45)) / model.index(known, bin_at(45)), 1, 0.1);
  EXPECT_GT(model.index(fresh, bin_at(45)), 5 * model.index(stranger, bin_at(45)));
}

TEST(ReuseModel, AClassWithManyObservationsIsItself) {
  ReuseModel model;
  const auto reused = model.classify(std::array<std::uint64_t, 2>{1, 10});
  const auto dead = model.classify(std::array<std::uint64_t, 2>{1, 11});
  live(model, reused, 50, 1, 200);
  live(model, dead, 50, 0, 200);
  model.fade();
  model.estimate();
  EXPECT_GT(model.index(reused, bin_at(45)), 20 * model.index(dead, bin_at(45)));
}

TEST(ReuseModel, OldObservationsFade) {
  ReuseModel model;
  const auto kind = model.classify(std::array<std::uint64_t, 1>{1});
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

}  // namespace
}  // namespace afterimage
