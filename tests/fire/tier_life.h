// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "afterimage/disk_tier.h"
#include "fire/child.h"
#include "fire/fire.h"
#include "storage/block_io/block_files.h"

namespace afterimage::fire {

/// Sizes around every boundary: a byte, a block and its neighbours, a batch, more than all batches.
inline constexpr std::array<std::size_t, 16> kLifeSizes = {
    1,      1,      4'095,  4'095,  4'096,  4'096,   4'097,     4'097,
    20'000, 20'000, 65'536, 65'536, 65'537, 200'000, 1'048'576, 1'300'000};
inline constexpr std::size_t kLifeKeys = 24;

/// A disk tier in a folder that is used, killed and checked again. The child process records what
/// it did in shared memory.
class TierLife {
 public:
  struct Known {
    std::atomic<std::uint64_t> opened{0};
    std::atomic<std::uint64_t> operations{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> answers{0};
  };

  TierLife(const FireRun& run, const std::string& within, const std::string& name);

  /// Starts over in a new folder. `capacity`: small enough to evict, or not.
  void begin(std::uint64_t seed, bool evicts, DiskBackend backend, bool hurried);
  /// In a child: runs operations until `steps` are done or it is killed. Returns an exit code.
  int live(Rng rng, std::uint64_t steps);
  /// After a child has ended in whatever way: opens the folder and checks every key.
  void look(Tally& tally, const std::string& where);

  [[nodiscard]] Known& known() const { return known_[0]; }
  [[nodiscard]] const std::string& path() const { return folder_.path(); }

 private:
  [[nodiscard]] DiskTierOptions options() const;

  const Clock& clock_;
  FireFolder folder_;
  Shared<testing::KeyState> keys_;
  Shared<Known> known_;
  std::uint64_t seed_ = 0;
  bool evicts_ = false;
  bool hurried_ = false;
  DiskBackend backend_ = DiskBackend::kBest;
};

}  // namespace afterimage::fire
