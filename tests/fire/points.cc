// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// kill -9 at every named point of the code, on its first, second and further passes; and again
// during the recovery. A point that the run never passes fails it.
#include "fire/tier_life.h"
#include "foundation/platform/fault_points.h"
#include "storage/block_io/block_files.h"

namespace afterimage::fire {
namespace {

using Kind = FaultSite::Kind;
using Action = FaultSite::Action;

constexpr std::uint64_t kSteps = 90;
constexpr Duration kPatience = std::chrono::seconds(60);

class Points {
 public:
  Points(const FireRun& run, Tally& tally)
      : run_(run), tally_(tally), life_(run, run.quick_folder, "points") {
    for (FaultSite* site : FaultSite::all()) {
      // Points between processes belong to the row `leases`.
      if (site->name().starts_with("turn.")) continue;
      if (site->kind() == Kind::kPoint || site->kind() == Kind::kFailingPoint) {
        points_.push_back(site);
      }
    }
  }
  void count_passes() {
    const Shared<std::atomic<std::uint64_t>> passes(2 * points_.size());
    for (const bool evicts : {false, true}) {
      begin(evicts);
      const auto counted = [&](std::size_t seed) {
        Child child([&, seed] {
          std::vector<std::uint64_t> before;
          for (const FaultSite* point : points_) before.push_back(point->passes());
          const int code = life_.live(Rng(seed), kSteps);
          for (std::size_t i = 0; i < points_.size(); ++i) {
            passes[i + (evicts ? points_.size() : 0)] += points_[i]->passes() - before[i];
          }
          return code;
        });
        const ChildEnd end = child.wait(kPatience);
        tally_.expect(end.well(), "without a fault, the child " + end.text());
      };
      counted(run_.seed);
    }
    for (std::size_t i = 0; i < points_.size(); ++i) {
      passes_.emplace_back(passes[i].load(), passes[i + points_.size()].load());
    }
  }
  void run_all() {
    const std::uint64_t most = run_.of(40, 2);
    std::uint64_t places = 0;
    for (std::size_t i = 0; i < points_.size(); ++i, ++places) {
      const bool fails = points_[i]->kind() == Kind::kFailingPoint;
      std::uint64_t met = 0;
      for (const bool evicts : {false, true}) {
        const std::uint64_t passes = evicts ? passes_[i].second : passes_[i].first;
        for (std::uint64_t n = 1; n <= std::min(passes, most); ++n) {
          met += kill_at(*points_[i], n, evicts, Action::kKill);
          if (fails) met += kill_at(*points_[i], n, evicts, Action::kFail);
          if (n == 1) met += kill_at(*points_[i], n, evicts, Action::kSleep);
        }
      }
      // Some points lie on the path of a start that finds data.
      for (std::uint64_t n = 1; n <= std::min<std::uint64_t>(most, 3); ++n) {
        met += kill_while_it_recovers(*points_[i], n);
      }
      // One run may be too quiet to pass a rare point.
      for (int more = 0; met == 0 && more < 16; ++more) {
        ++story_;
        met += kill_at(*points_[i], 1, more % 2 == 0, Action::kKill);
      }
      story_ = run_.seed;
      tally_.expect(met > 0, "the run never passes " + std::string(points_[i]->name()));
      run_.tell(i + 1, points_.size());
    }
    tally_.notes.push_back(std::to_string(places) + " places");
  }

 private:
  void begin(bool evicts) { life_.begin(story_, evicts, DiskBackend::kBest, false); }
  [[nodiscard]] std::string where(const FaultSite& point, std::uint64_t n) const {
    return "at " + std::string(point.name()) + ", " + std::to_string(n) +
           ", --only points --seed " + std::to_string(run_.seed);
  }
  /// Exit code 1: it passed the point.
  std::uint64_t kill_at(FaultSite& point, std::uint64_t n, bool evicts, Action action) {
    begin(evicts);
    return live_and_look(point, n, action, kSteps, where(point, n));
  }
  std::uint64_t kill_while_it_recovers(FaultSite& point, std::uint64_t n) {
    begin(n % 2 == 0);
    // The child starts on a folder that was left mid-operation.
    FaultSite* const earlier = FaultSite::find("batch.submitted");
    Child child([&] {
      earlier->arm(Action::kKill, 9 + n);
      return life_.live(Rng(story_), kSteps);
    });
    static_cast<void>(child.wait(kPatience));
    return live_and_look(point, 1, Action::kKill, 5, "second life, " + where(point, n));
  }
  std::uint64_t live_and_look(FaultSite& point, std::uint64_t n, Action action, std::uint64_t steps,
                              const std::string& where) {
    const Shared<std::atomic<std::uint64_t>> came(1);
    Child child([&] {
      point.arm(action, n);
      const std::uint64_t before = point.passes();
      const int code = life_.live(Rng(story_), steps);
      came[0] = point.passes() - before;
      return action == Action::kFail ? 0 : code;  // a start may fail where a failure is injected
    });
    const ChildEnd end = child.wait(kPatience);
    const bool met = end.killed() || came[0] >= n;
    tally_.expect(end.well() || end.killed(), "the child " + end.text() + ": " + where);
    life_.look(tally_, where);
    if (!met) return 0;
    ++tally_.injected;
    ++tally_.detected;
    return 1;
  }

  const FireRun& run_;
  Tally& tally_;
  TierLife life_;
  std::uint64_t story_ = run_.seed;
  std::vector<FaultSite*> points_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> passes_;
};

}  // namespace

Tally run_points(const FireRun& run) {
  Tally tally;
  Points points(run, tally);
  points.count_passes();
  points.run_all();
  return tally;
}

}  // namespace afterimage::fire
