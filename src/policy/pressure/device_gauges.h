// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "policy/pressure/gauge.h"

namespace afterimage {

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

}  // namespace afterimage
