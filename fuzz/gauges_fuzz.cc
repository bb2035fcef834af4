// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Whatever the kernel's files contain, a gauge gives a plausible reading or an error: never more
// used than total memory, never a stall outside 0 to 1. The files follow one another, each ended by
// a NUL; files after the end of the input are missing.
#include <cstdint>
#include <iterator>
#include <string>

#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "foundation/platform/testing/memory_files.h"
#include "fuzz_input.h"
#include "policy/pressure/linux_gauges.h"

using namespace afterimage;

namespace {

constexpr const char* kPaths[] = {
    "/proc/meminfo",
    "/proc/pressure/memory",
    "/proc/self/cgroup",
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.high",
    "/sys/fs/cgroup/memory.stat",
    "/sys/fs/cgroup/memory.pressure",
    "/sys/fs/cgroup/memory.usage_in_bytes",
    "/sys/fs/cgroup/memory.limit_in_bytes",
};

void check(const Result<GaugeReading>& reading) {
  if (!reading.has_value()) {
    AFI_CHECK(!reading.error().message.empty());
    return;
  }
  AFI_CHECK(reading->total > 0_B && reading->used <= reading->total);
  AFI_CHECK(reading->stall >= 0 && reading->stall <= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  testing::MemoryFiles files;
  for (const char* path : kPaths) {
    if (input.empty()) break;
    const std::string_view text = input.until('\0');
    AFI_CHECK(files.replace(path, std::as_bytes(std::span(text))).has_value());
  }
  check(ProcGauge(files).read());
  check(CgroupGauge(files).read());
  check(CgroupV1Gauge(files).read());
  if (const auto host = open_host_gauge(files)) check((*host)->read());
  return 0;
}
