// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/tier.h"
#include "caches/answers/answer_archive.h"
#include "fire/fire.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"
#include "storage/disk/segment_log.h"
#include "testing/fake_block_folder.h"

namespace afterimage::fire {

/// What the seed decides up front; printed when the run fails.
struct SimulatedOptions {
  std::uint64_t seed = 0;
  Bytes capacity = 4_MiB;
  Bytes host = 64_KiB;
  int steps = 0;
  double fault_rate = 0;
  bool hurried = false;  // puts fail at once instead of waiting

  static SimulatedOptions of(std::uint64_t seed);
  [[nodiscard]] std::string text() const;
};

/// Host memory over a disk tier over a failing disk, with an answer cache in both, in one thread
/// and on simulated time: the same seed repeats the same run.
class SimulatedStack {
 public:
  static constexpr std::size_t kKeys = 10;
  static constexpr std::size_t kQuestions = 6;

  /// `trace`: prints every step.
  SimulatedStack(const SimulatedOptions& options, Tally& tally, bool trace = false);
  ~SimulatedStack();
  SimulatedStack(const SimulatedStack&) = delete;
  SimulatedStack& operator=(const SimulatedStack&) = delete;

  /// Faults on: checks that only permitted results are returned.
  void safety();
  /// Faults off: checks that everything that was put is found again.
  void liveness();
  /// Digest of all results: equal digests mean equal runs.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }

 private:
  bool start();
  void stop();
  void step();
  void fault();
  void end_life(bool power_fails);
  void flip();
  void put(std::size_t n);
  void look(std::size_t n, bool must_be_there);
  void erase(std::size_t n);
  bool flush();
  void notice();
  void answer(std::size_t n);
  void ask(std::size_t n);
  void erase_answers();
  void check_accounts();
  /// Adds to the digest, and to the trace.
  void did(std::string_view what, std::size_t n, std::uint64_t outcome);
  void say(const std::string& what);

  const SimulatedOptions options_;
  Tally& tally_;
  const bool trace_;
  Rng rng_;
  testing::FakeDisk disk_;
  ManualClock clock_;
  testing::ManualWallClock wall_{WallTime(std::chrono::hours(24 * 365 * 50))};
  testing::MemoryFiles files_;
  MemoryBudget memory_{4_MiB};
  MemoryBudget room_{4_MiB};
  MemoryBudget answers_room_{1_MiB};
  MemoryBudget host_room_;
  std::unique_ptr<HostTier> host_;
  std::unique_ptr<DiskTier> tier_;
  std::unique_ptr<AnswerCache> answers_;
  std::unique_ptr<AnswerArchive> archive_;
  std::array<testing::KeyState, kKeys> keys_;
  testing::TierOracle oracle_;
  SegmentLogStats stats_;
  std::uint64_t flips_ = 0;  // flipped bits on the disk

  struct BackendRequest {
    std::uint32_t given = 0;                          // versions of the answer
    std::uint32_t gone = 0;                           // erased up to this version
    std::vector<std::pair<Duration, WallTime>> over;  // expiry of each version, on both clocks
  };
  std::array<BackendRequest, kQuestions> asked_;
  std::uint64_t digest_ = 0xCBF29CE484222325U;
  std::uint64_t faults_ = 0;
};

}  // namespace afterimage::fire
