// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>

#include "afterimage/clock.h"
#include "afterimage/pressure.h"
#include "afterimage/result.h"
#include "storage/device/device_tier.h"

namespace afterimage {

struct DeviceCacheOptions {
  Bytes capacity;            // most that is taken of the GPU's memory
  DeviceTierOptions device;  // keep_free: the governor's reserve, too
  /// Read besides the driver, the tighter of both; nullptr: the driver alone.
  std::shared_ptr<PressureGauge> gauge = nullptr;
  bool own_thread = true;  // see PressureOptions
};

/// Spare memory of a GPU as a tier, with its budget and a governor: what other programs need of it
/// is given back.
///
/// Errors   open: as DeviceTier.
/// Threads  Any.
class DeviceCache {
 public:
  /// `clock` outlives the cache.
  static Result<std::unique_ptr<DeviceCache>> open(const DeviceCacheOptions& options,
                                                   const Clock& clock);

  [[nodiscard]] DeviceTier& tier() { return *tier_; }
  [[nodiscard]] PressureController& pressure() { return *pressure_; }

 private:
  explicit DeviceCache(Bytes capacity) : budget_(capacity) {}

  MemoryBudget budget_;
  std::unique_ptr<DeviceTier> tier_;
  SharedBudget shared_{budget_};
  std::unique_ptr<PressureController> pressure_;  // last: its thread uses the others
};

}  // namespace afterimage
