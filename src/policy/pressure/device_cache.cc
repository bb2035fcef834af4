// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/device_cache.h"

#include <utility>
#include <vector>

#include "afterimage/pressure.h"
#include "policy/pressure/gauges.h"

namespace afterimage {

Result<std::unique_ptr<DeviceCache>> DeviceCache::open(const DeviceCacheOptions& options,
                                                       const Clock& clock) {
  std::unique_ptr<DeviceCache> cache(new DeviceCache(options.capacity));
  AFI_TRY(cache->tier_, DeviceTier::open(options.device, cache->budget_));
  cache->shared_.join(*cache->tier_);
  std::vector<std::shared_ptr<PressureGauge>> gauges{
      std::make_shared<EngineGauge>([&tier = *cache->tier_]() -> Result<GaugeReading> {
        AFI_TRY(const DeviceMemory memory, tier.device_memory());
        return GaugeReading{.total = memory.total, .used = memory.total - memory.free};
      })};
  if (options.gauge != nullptr) gauges.push_back(options.gauge);
  // The heap has nothing to do with the GPU's memory: it is left alone.
  PressureOptions pressure{.gauge = std::make_shared<TightestGauge>(std::move(gauges)),
                           .own_thread = options.own_thread,
                           .return_memory = [] {}};
  pressure.governor.reserve = options.device.keep_free;
  AFI_TRY(cache->pressure_, PressureController::create(pressure, cache->shared_, clock));
  return cache;
}

}  // namespace afterimage
