// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "afterimage/pressure.h"
#include "foundation/platform/files.h"
#include "policy/pressure/gauges.h"

namespace afterimage {

/// The machine's memory: MemTotal and MemAvailable of /proc/meminfo, stalls of
/// /proc/pressure/memory. Wrong inside a container with a memory limit: use CgroupGauge there.
///
/// Source   proc(5); Documentation/accounting/psi.rst.
class ProcGauge final : public PressureGauge {
 public:
  /// `files` outlives the gauge; `proc` is the folder.
  explicit ProcGauge(const Files& files, std::string proc = "/proc");
  [[nodiscard]] std::string_view name() const override { return "proc"; }
  Result<GaugeReading> read() override;

 private:
  const Files& files_;
  std::string proc_;
};

/// The memory of a control group, version 2: memory.current against memory.high or memory.max,
/// whichever is less, and memory.pressure. Memory that the kernel can drop at once (unused page
/// cache, inactive_file in memory.stat) does not count as used.
///
/// Errors   kUnavailable also when the group has no limit: the machine's memory is the limit then.
/// Source   Documentation/admin-guide/cgroup-v2.rst.
class CgroupGauge final : public PressureGauge {
 public:
  explicit CgroupGauge(const Files& files, std::string group = "/sys/fs/cgroup");
  [[nodiscard]] std::string_view name() const override { return "cgroup"; }
  Result<GaugeReading> read() override;

 private:
  const Files& files_;
  std::string group_;
};

/// The same for version 1: memory.usage_in_bytes against memory.limit_in_bytes, less
/// total_inactive_file of memory.stat. Stalls are not measured per group.
///
/// Source   Documentation/admin-guide/cgroup-v1/memory.rst.
class CgroupV1Gauge final : public PressureGauge {
 public:
  explicit CgroupV1Gauge(const Files& files, std::string group = "/sys/fs/cgroup/memory");
  [[nodiscard]] std::string_view name() const override { return "cgroup v1"; }
  Result<GaugeReading> read() override;

 private:
  const Files& files_;
  std::string group_;
};

/// open_host_gauge() that reads through `files`; `root` is prepended to all paths, for tests.
Result<std::unique_ptr<PressureGauge>> open_host_gauge(const Files& files,
                                                       const std::string& root = "");
/// Opens a list such as "auto,nvml:0", with paths below `root`: "auto" (open_host_gauge), "host" (the machine), "cgroup" (the
/// control group of this process with the smallest limit), a folder (open_group_gauge), "nvml:N" (an
/// NVIDIA GPU). Of several for one kind of memory the tightest wins. Empty: no gauge.
///
/// Errors   kInvalidArgument: another word, also "rocm:N", since no entry lies in an AMD GPU's
///          memory; kUnavailable: a gauge cannot be opened.
Result<NamedGauges> open_gauges(std::string_view list, const Files& files,
                                const std::string& root = "");
/// The gauge of this process's control group with the smallest limit. kUnavailable: none has one.
Result<std::unique_ptr<PressureGauge>> open_own_group_gauge(const Files& files,
                                                            const std::string& root = "");
/// The gauge of the control group in a folder, version 1 or 2. kUnavailable: it is not a control
/// group, or it has no limit.
Result<std::unique_ptr<PressureGauge>> open_group_gauge(const Files& files,
                                                        const std::string& folder);

}  // namespace afterimage
