// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/run_ages.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using Passing = std::pair<std::uint32_t, std::size_t>;  // run, bin

/// The obvious model: each run counts its own bin.
class ModelOfAges {
 public:
  void append(double since, std::uint32_t run) { order_.push_back({since, run, 0}); }
  void remove(std::uint32_t run) {
    std::erase_if(order_, [&](const One& one) { return one.run == run; });
  }
  std::vector<Passing> age(double now) {
    std::vector<Passing> passed;
    for (std::size_t bin = 0; bin + 1 < RunAges::kBins; ++bin) {
      for (One& one : order_) {
        if (one.bin != bin || one.since + ReuseModel::begin_of(bin + 1) > now) continue;
        ++one.bin;
        passed.emplace_back(one.run, bin);
      }
    }
    return passed;
  }
  [[nodiscard]] std::map<std::uint32_t, std::size_t> bins() const {
    std::map<std::uint32_t, std::size_t> bins;
    for (const One& one : order_) bins[one.run] = one.bin;
    return bins;
  }

 private:
  struct One {
    double since;
    std::uint32_t run;
    std::size_t bin;
  };
  std::vector<One> order_;
};

TEST(RunAges, ARunPassesEachBinOnce) {
  RunAges ages;
  ages.append(10, 7, 0);
  std::vector<Passing> passed;
  const auto note = [&](const RunAges::Standing& run, std::size_t bin) {
    passed.emplace_back(run.run, bin);
  };
  const auto soon = [](const RunAges::Standing&, std::size_t) {};
  ages.age(10 + ReuseModel::begin_of(1) - 1e-9, soon, note);
  EXPECT_TRUE(passed.empty());
  ages.age(10 + ReuseModel::begin_of(3), soon, note);
  EXPECT_EQ(passed, (std::vector<Passing>{{7, 0}, {7, 1}, {7, 2}}));
  EXPECT_EQ(ages.bin(0), 3U);
}

TEST(RunAgesProperty, AgreesWithAnObviousModelOfRuns) {
  testing::for_each_seed(4, [](Rng& rng) {
    RunAges ages;
    ModelOfAges model;
    std::map<std::uint32_t, RunAges::Place> places;
    double now = 0;
    std::uint32_t fresh = 0;
    for (int step = 0; step < 4'000; ++step) {
      if (rng.chance(0.3)) now += rng.chance(0.01) ? 500 * rng.uniform() : rng.uniform();
      if (rng.chance(0.55) || places.size() < 3) {
        places[fresh] = ages.append(now, fresh, 0);
        model.append(now, fresh++);
      } else if (places.size() > 40 || rng.chance(0.5)) {
        const auto gone = std::next(places.begin(), static_cast<int>(rng.uniform() * 3));
        ages.remove(gone->second);
        model.remove(gone->first);
        places.erase(gone);
      }
      ages.tidy([&](std::uint32_t run, RunAges::Place place) { places.at(run) = place; });
      std::vector<Passing> passed;
      ages.age(
          now, [](const RunAges::Standing&, std::size_t) {},
          [&](const RunAges::Standing& run, std::size_t bin) {
            passed.emplace_back(run.run, bin);
          });
      ASSERT_EQ(passed, model.age(now)) << "step " << step;
      if (step % 16 != 0) continue;
      const auto bins = model.bins();
      for (const auto& [run, place] : places) {
        ASSERT_EQ(ages.bin(place), bins.at(run)) << "step " << step << ", run " << run;
      }
    }
  });
}

}  // namespace
}  // namespace afterimage
