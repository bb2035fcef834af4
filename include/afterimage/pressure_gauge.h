// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/governor.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// What a gauge shows.
struct GaugeReading {
  Bytes total;
  Bytes used;        // by anybody, ourselves included; at most total
  double stall = 0;  // share of the last seconds in which work waited for memory; 0: not measured
};

/// Reads how full a memory is. An extension point: one class a source, held to
/// tests/testing/gauge_conformance.h.
///
/// Errors   kUnavailable: the source is not there, or does not answer now; kCorruption: it answers
///          nonsense. A gauge never makes up a number: who reads it fails closed.
/// Cost     Microseconds to a millisecond: read it on a thread that may wait, not under a lock.
/// Threads  One at a time.
class PressureGauge {
 public:
  virtual ~PressureGauge() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Result<GaugeReading> read() = 0;
};

/// Fails with kCorruption if the numbers cannot be: no memory at all, more used than there is, a
/// stall that is no share.
Result<GaugeReading> checked(const GaugeReading& reading, std::string_view gauge);

/// Reads the gauge for the governor: sets `now`, `sample` and `stall`, with inputs.ledger.used as
/// what is ours of the bytes it shows. A gauge that fails leaves no sample, and its Error is
/// returned for the log; stepping goes on without.
Result<void> take_reading(PressureGauge& gauge, const Clock& clock, GovernorInputs& inputs);

/// Shows what it was told, in order, and the last of it for ever; for tests and drills.
class ScriptedGauge final : public PressureGauge {
 public:
  explicit ScriptedGauge(std::deque<Result<GaugeReading>> readings)
      : readings_(std::move(readings)) {}
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  Result<GaugeReading> read() override;

 private:
  std::deque<Result<GaugeReading>> readings_;
};

/// The engine's own word: it knows its pools better than any driver does.
class EngineGauge final : public PressureGauge {
 public:
  explicit EngineGauge(std::function<Result<GaugeReading>()> ask) : ask_(std::move(ask)) {}
  [[nodiscard]] std::string_view name() const override { return "engine"; }
  Result<GaugeReading> read() override;

 private:
  std::function<Result<GaugeReading>()> ask_;
};

/// The memory of an NVIDIA GPU, through NVML, which is looked for at run time: nothing of it is
/// needed to build or to link. What the driver reserves for itself belongs to nobody's total.
///
/// Errors   open: kUnavailable where there is no library, no driver or no such device; the message
///          says which. read: kUnavailable when the driver refuses.
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

/// The memory of an AMD GPU, through ROCm SMI, likewise.
///
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

/// The memory that this process lives in: of its control groups (/proc/self/cgroup, and those that
/// they lie in) the one with the smallest limit, or the machine if none has a smaller. Looked for
/// once; a limit that changes later is followed, a move to another group is not.
///
/// Errors   kUnavailable: nothing can be read.
Result<std::unique_ptr<PressureGauge>> open_host_gauge();
/// The control group in a folder, of whichever version. kUnavailable: there is none, or it has no
/// limit.
Result<std::unique_ptr<PressureGauge>> open_group_gauge(const std::string& folder);

}  // namespace afterimage
