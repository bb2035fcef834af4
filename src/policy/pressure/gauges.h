// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/pressure.h"
#include "afterimage/result.h"

namespace afterimage {

/// kCorruption: impossible numbers: no memory, more used than the total, or a stall that is not
/// between 0 and 1.
Result<GaugeReading> checked(const GaugeReading& reading, std::string_view gauge);

/// Several gauges of memories in which the same bytes lie, as a machine and a control group: its
/// reading is that of the memory with the least left.
///
/// Errors   Any gauge's: the one that cannot be read may be the tightest.
class TightestGauge final : public PressureGauge {
 public:
  /// Requires at least one.
  explicit TightestGauge(std::vector<std::shared_ptr<PressureGauge>> gauges);
  /// Those of all, joined by "+".
  [[nodiscard]] std::string_view name() const override { return name_; }
  Result<GaugeReading> read() override;

 private:
  std::vector<std::shared_ptr<PressureGauge>> gauges_;
  std::string name_;
};

/// The memory of an NVIDIA GPU, read through NVML, which is loaded at run time: it is not needed to
/// build or link. Memory that the driver reserves for itself is not part of the total.
///
/// Errors   open: kUnavailable: no library, no driver or no such device; the message says which.
///          read: kUnavailable: the driver returned an error.
/// Source   NVML API reference, nvmlDeviceGetMemoryInfo_v2.
class NvmlGauge final : public PressureGauge {
 public:
  static Result<std::unique_ptr<NvmlGauge>> open(std::uint32_t device,
                                                 const std::string& library = "libnvidia-ml.so.1");
  ~NvmlGauge() override;
  [[nodiscard]] std::string_view name() const override { return "nvml"; }
  Result<GaugeReading> read() override;

 private:
  struct Calls;
  NvmlGauge(std::unique_ptr<Calls> calls, void* device);
  std::unique_ptr<Calls> calls_;
  void* device_;
};

/// The memory of an AMD GPU, read through ROCm SMI, which is also loaded at run time.
///
/// Errors   As NvmlGauge.
/// Source   rocm_smi.h: rsmi_dev_memory_total_get, rsmi_dev_memory_usage_get.
class RocmGauge final : public PressureGauge {
 public:
  static Result<std::unique_ptr<RocmGauge>> open(std::uint32_t device,
                                                 const std::string& library = "librocm_smi64.so");
  ~RocmGauge() override;
  [[nodiscard]] std::string_view name() const override { return "rocm"; }
  Result<GaugeReading> read() override;

 private:
  struct Calls;
  RocmGauge(std::unique_ptr<Calls> calls, std::uint32_t device);
  std::unique_ptr<Calls> calls_;
  std::uint32_t device_;
};

/// What an operator's list of gauges names.
struct NamedGauges {
  std::shared_ptr<PressureGauge> host;    // nullptr: none of host memory
  std::shared_ptr<PressureGauge> device;  // nullptr: none of a GPU's memory
};

}  // namespace afterimage
