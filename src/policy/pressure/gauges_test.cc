// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/gauges.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "afterimage/pressure.h"
#include "foundation/platform/testing/memory_files.h"
#include "policy/pressure/governor.h"
#include "policy/pressure/linux_gauges.h"
#include "policy/pressure/testing/fake_gpu_memory.h"
#include "policy/pressure/testing/scripted_gauge.h"
#include "testing/gauge_conformance.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
namespace fake_gpu_memory = testing::fake_gpu_memory;
using testing::GaugeConformance;
using testing::GaugeFactory;

/// A gauge and the files that it reads.
template <typename Gauge>
class OnFiles final : public PressureGauge {
 public:
  OnFiles(std::initializer_list<std::pair<std::string, std::string>> content, std::string folder)
      : gauge_(files_, std::move(folder)) {
    for (const auto& [path, text] : content) {
      static_cast<void>(files_.replace(path, std::as_bytes(std::span(text))));
    }
  }
  [[nodiscard]] std::string_view name() const override { return gauge_.name(); }
  Result<GaugeReading> read() override { return gauge_.read(); }

 private:
  testing::MemoryFiles files_;
  Gauge gauge_;
};

constexpr const char* kMeminfo =
    "MemTotal:       16384000 kB\nMemFree:         100000 kB\nMemAvailable:    4096000 kB\n"
    "Buffers:          1000 kB\n";
constexpr const char* kPressure =
    "some avg10=12.50 avg60=3.00 avg300=0.10 total=123456\n"
    "full avg10=1.00 avg60=0.00 avg300=0.00 total=1\n";

Result<GaugeReading> proc(std::string meminfo, std::string pressure = kPressure) {
  return OnFiles<ProcGauge>(
             {{"/p/meminfo", std::move(meminfo)}, {"/p/pressure/memory", std::move(pressure)}},
             "/p")
      .read();
}

Result<GaugeReading> cgroup(std::string current, std::string high, std::string max,
                            std::string stat = "anon 5\ninactive_file 100\n") {
  return OnFiles<CgroupGauge>({{"/g/memory.current", std::move(current)},
                               {"/g/memory.high", std::move(high)},
                               {"/g/memory.max", std::move(max)},
                               {"/g/memory.stat", std::move(stat)}},
                              "/g")
      .read();
}

TEST(ProcGauge, ReadsAvailableMemoryAndStalls) {
  const auto reading = proc(kMeminfo).value();
  EXPECT_EQ(reading.total, Bytes(16'384'000ULL * 1024));
  EXPECT_EQ(reading.used, Bytes(12'288'000ULL * 1024));
  EXPECT_DOUBLE_EQ(reading.stall, 0.125);
}

TEST(ProcGauge, NonsenseIsNoReading) {
  for (const char* meminfo :
       {"", "MemTotal: 16 kB\n", "MemTotal: 16 kB\nMemAvailable: 17 kB\n",
        "MemTotal: 16 MB\nMemAvailable: 1 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n",
        "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "MemTotal: -16 kB\nMemAvailable: 1 kB\n",
        "MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB\n"}) {
    const auto reading = proc(meminfo);
    ASSERT_FALSE(reading.has_value()) << meminfo;
    EXPECT_EQ(reading.error().code, ErrorCode::kCorruption);
  }
  for (const char* pressure : {"", "some avg10=\n", "some avg10=101\n", "some avg10=nan\n"}) {
    EXPECT_FALSE(proc(kMeminfo, pressure).has_value()) << pressure;
  }
}

TEST(CgroupGauge, UsesTheLowerLimitAndIgnoresDroppablePages) {
  EXPECT_EQ(cgroup("500\n", "800\n", "1000\n")->total, 800_B);
  EXPECT_EQ(cgroup("500\n", "max\n", "1000\n")->total, 1000_B);
  EXPECT_EQ(cgroup("500\n", "max\n", "1000\n")->used, 400_B);
  EXPECT_EQ(cgroup("1200\n", "800\n", "max\n")->used, 800_B) << "use may exceed high for a while";
  EXPECT_EQ(cgroup("50\n", "800\n", "max\n")->used, 0_B) << "the files are not read atomically";
}

TEST(CgroupGauge, FailsWithoutALimit) {
  const auto reading = cgroup("500\n", "max\n", "max\n");
  EXPECT_EQ(reading.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(reading.error().message.find("no limit"), std::string::npos);
}

TEST(CgroupGauge, NonsenseIsNoReading) {
  EXPECT_FALSE(cgroup("max\n", "1\n", "1\n").has_value());
  EXPECT_FALSE(cgroup("5x\n", "100\n", "100\n").has_value());
  EXPECT_FALSE(cgroup("5\n", "", "100\n").has_value());
  EXPECT_FALSE(cgroup("5\n", "0\n", "100\n").has_value());
  EXPECT_FALSE(cgroup("5\n", "100\n", "100\n", "anon 5\n").has_value());
}

TEST(CgroupV1Gauge, ReadsUsageAgainstTheLimit) {
  const auto read = [](std::string usage, std::string limit, std::string stat) {
    return OnFiles<CgroupV1Gauge>({{"/g/memory.usage_in_bytes", std::move(usage)},
                                   {"/g/memory.limit_in_bytes", std::move(limit)},
                                   {"/g/memory.stat", std::move(stat)}},
                                  "/g")
        .read();
  };
  const std::string stat = "inactive_file 1\ntotal_inactive_file 100\n";
  EXPECT_EQ(read("500\n", "800\n", stat)->total, 800_B);
  EXPECT_EQ(read("500\n", "800\n", stat)->used, 400_B);
  EXPECT_EQ(read("50\n", "800\n", stat)->used, 0_B) << "the files are not read atomically";
  EXPECT_EQ(read("1200\n", "800\n", stat)->used, 800_B);
  EXPECT_EQ(read("500\n", "9223372036854771712\n", stat).error().code, ErrorCode::kUnavailable);
  for (const char* wrong : {"", "max\n", "8x\n", "0\n"}) {
    EXPECT_FALSE(read("500\n", wrong, stat).has_value()) << wrong;
  }
  EXPECT_FALSE(read("500\n", "800\n", "inactive_file 1\n").has_value());
}

struct HostFiles {
  void put(const std::string& path, std::string_view text) {
    static_cast<void>(files.replace("/r" + path, std::as_bytes(std::span(text))));
  }
  void group(const std::string& folder, const std::string& max) {
    put(folder + "/memory.current", "1000\n");
    put(folder + "/memory.high", "max\n");
    put(folder + "/memory.max", max + "\n");
    put(folder + "/memory.stat", "inactive_file 0\n");
  }
  void group_v1(const std::string& folder, const std::string& limit) {
    put(folder + "/memory.usage_in_bytes", "1000\n");
    put(folder + "/memory.limit_in_bytes", limit + "\n");
    put(folder + "/memory.stat", "total_inactive_file 0\n");
  }
  [[nodiscard]] std::string opened(Bytes& total) const {
    const auto gauge = open_host_gauge(files, "/r");
    if (!gauge.has_value()) return to_string(gauge.error());
    total = (*gauge)->read()->total;
    return std::string((*gauge)->name());
  }
  testing::MemoryFiles files;
};

TEST(OpenHostGauge, ChoosesTheSmallestLimit) {
  const struct {
    const char* name;
    std::function<void(HostFiles&)> machine;
    const char* gauge;
    Bytes total;
  } kCases[] = {
      {"no groups", [](HostFiles&) {}, "proc", Bytes(16'384'000ULL * 1024)},
      {"one of our own",
       [](HostFiles& h) {
         h.put("/proc/self/cgroup", "0::/a/b\n");
         h.group("/sys/fs/cgroup/a/b", "5000");
       },
       "cgroup", 5000_B},
      {"the one around it is smaller",
       [](HostFiles& h) {
         h.put("/proc/self/cgroup", "0::/a/b\n");
         h.group("/sys/fs/cgroup/a/b", "5000");
         h.group("/sys/fs/cgroup/a", "4000");
       },
       "cgroup", 4000_B},
      {"none has a limit",
       [](HostFiles& h) {
         h.put("/proc/self/cgroup", "0::/a\n");
         h.group("/sys/fs/cgroup/a", "max");
       },
       "proc", Bytes(16'384'000ULL * 1024)},
      {"more than the machine has",
       [](HostFiles& h) {
         h.put("/proc/self/cgroup", "0::/a\n");
         h.group("/sys/fs/cgroup/a", "999999999999");
       },
       "proc", Bytes(16'384'000ULL * 1024)},
      {"version 1, in a container: the name is the host's",
       [](HostFiles& h) {
         h.put("/proc/self/cgroup", "9:cpu:/x\n4:memory:/docker/0123\n0::/\n");
         h.group_v1("/sys/fs/cgroup/memory", "6000");
       },
       "cgroup v1", 6000_B},
      {"lines that are none",
       [](HostFiles& h) { h.put("/proc/self/cgroup", "\n:\n4:memory\n0::no-slash\n::\n"); }, "proc",
       Bytes(16'384'000ULL * 1024)},
  };
  for (const auto& c : kCases) {
    HostFiles host;
    host.put("/proc/meminfo", kMeminfo);
    c.machine(host);
    Bytes total;
    EXPECT_EQ(host.opened(total), c.gauge) << c.name;
    EXPECT_EQ(total, c.total) << c.name;
  }
  EXPECT_EQ(open_host_gauge(testing::MemoryFiles(), "/r").error().code, ErrorCode::kUnavailable);
}

TEST(OpenGroupGauge, NamesAFolderThatIsNotAGroup) {
  HostFiles host;
  host.group("/g", "5000");
  EXPECT_EQ((*open_group_gauge(host.files, "/r/g"))->name(), "cgroup");
  const auto wrong = open_group_gauge(host.files, "/r/h");
  EXPECT_EQ(wrong.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(wrong.error().message.find("'/r/h'"), std::string::npos);
}

TEST(OpenGauges, ReadAListAndTheTightestWins) {
  HostFiles host;
  host.put("/proc/meminfo", kMeminfo);
  host.put("/proc/self/cgroup", "0::/a\n");
  host.group("/sys/fs/cgroup/a", "5000");
  host.group("/mine", "400");
  const auto opened = [&](std::string_view list) {
    return open_gauges(list, host.files, "/r").value().host;
  };
  EXPECT_EQ(opened(""), nullptr);
  EXPECT_EQ(opened("auto")->name(), "cgroup");
  EXPECT_EQ(opened("host")->read()->total, Bytes(16'384'000ULL * 1024));
  EXPECT_EQ(opened("cgroup")->read()->total, 5000_B);
  const auto all = opened("host, /mine,cgroup");
  EXPECT_EQ(all->name(), "proc+cgroup+cgroup");
  EXPECT_EQ(all->read()->total, 400_B);
  for (const char* wrong : {"vram", "auto,,host", "nvml", "nvml:", "nvml:x", "nvml:-1", "rocm:0"}) {
    EXPECT_EQ(open_gauges(wrong, host.files, "/r").error().code, ErrorCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_EQ(open_gauges("host,/no/group", host.files, "/r").error().code, ErrorCode::kUnavailable);
  HostFiles bare;
  bare.put("/proc/meminfo", kMeminfo);
  EXPECT_EQ(open_gauges("cgroup", bare.files, "/r").error().code, ErrorCode::kUnavailable);
}

TEST(TightestGauge, ReportsTheMemoryWithTheLeastLeft) {
  const auto says = [](GaugeReading reading) {
    return std::make_shared<testing::ScriptedGauge>(std::deque<Result<GaugeReading>>{reading});
  };
  TightestGauge gauge({says({.total = 64_GiB, .used = 60_GiB, .stall = 0.2}),
                       says({.total = 8_GiB, .used = 3_GiB, .stall = 0.1})});
  EXPECT_EQ(gauge.read()->total, 64_GiB);
  TightestGauge other({says({.total = 64_GiB, .used = 50_GiB, .stall = 0.2}),
                       says({.total = 8_GiB, .used = 3_GiB, .stall = 0.1})});
  EXPECT_EQ(other.read()->used, 3_GiB);
  EXPECT_EQ(other.read()->stall, 0.2) << "the worst of all";
  TightestGauge blind(
      {says({.total = 64_GiB, .used = 60_GiB}),
       std::make_shared<testing::ScriptedGauge>(std::deque<Result<GaugeReading>>{})});
  EXPECT_EQ(blind.read().error().code, ErrorCode::kUnavailable) << "it may be the tightest";
}

class FakeGpu : public ::testing::Test {
 protected:
  FakeGpu() { reset(); }
  ~FakeGpu() override { reset(); }
  static void reset() {
    fake_gpu_memory::set((1_GiB).value(), (64_MiB).value(), (512_MiB).value());
    fake_gpu_memory::fail_reads(0);
    fake_gpu_memory::fail_start(0);
  }
  const std::string library = fake_gpu_memory::library();
};

TEST_F(FakeGpu, NvmlWithoutTheDriversReserve) {
  const auto gauge = NvmlGauge::open(1, library).value();
  EXPECT_EQ(gauge->read()->total, 960_MiB);
  EXPECT_EQ(gauge->read()->used, 448_MiB);
  fake_gpu_memory::set((1_GiB).value(), 0, (1_MiB).value());
  EXPECT_EQ(gauge->read()->used, 1023_MiB);
  fake_gpu_memory::set((1_GiB).value(), (64_MiB).value(), (1_GiB).value());
  EXPECT_EQ(gauge->read().error().code, ErrorCode::kCorruption);
  fake_gpu_memory::fail_reads(15);
  EXPECT_EQ(gauge->read().error().code, ErrorCode::kUnavailable);
  EXPECT_NE(gauge->read().error().message.find("15"), std::string::npos);
}

TEST_F(FakeGpu, Rocm) {
  const auto gauge = RocmGauge::open(0, library).value();
  EXPECT_EQ(gauge->read()->total, 1_GiB);
  EXPECT_EQ(gauge->read()->used, 512_MiB);
  fake_gpu_memory::fail_reads(3);
  EXPECT_EQ(gauge->read().error().code, ErrorCode::kUnavailable);
}

TEST_F(FakeGpu, SaysWhatIsNotThere) {
  EXPECT_NE(NvmlGauge::open(2, library).error().message.find("no device 2"), std::string::npos);
  EXPECT_EQ(RocmGauge::open(2, library).error().code, ErrorCode::kUnavailable);
  fake_gpu_memory::fail_start(9);
  EXPECT_NE(NvmlGauge::open(0, library).error().message.find("driver"), std::string::npos);
  EXPECT_NE(RocmGauge::open(0, library).error().message.find("driver"), std::string::npos);
}

// Files under /proc report a size of 0: a gauge that relied on it would read nothing.
TEST(OpenHostGauge, ThisMachinesOwn) {
  const SystemFiles files;
  const auto gauge = open_host_gauge(files);
  ASSERT_TRUE(gauge.has_value()) << gauge.error().message;
  const auto reading = (*gauge)->read();
  ASSERT_TRUE(reading.has_value()) << reading.error().message;
  EXPECT_GT(reading->total, 1_MiB);
  EXPECT_GT(reading->used, 0_B);
}

TEST(DeviceGauges, MissingLibrariesAreAnError) {
  const auto nvml = NvmlGauge::open(0, "libno-such-nvml.so.1");
  EXPECT_EQ(nvml.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(nvml.error().message.find("libno-such-nvml.so.1"), std::string::npos);
  EXPECT_EQ(RocmGauge::open(0, "libno-such-rocm.so").error().code, ErrorCode::kUnavailable);
  // A library that exists but is another one.
  EXPECT_NE(NvmlGauge::open(0, "libc.so.6").error().message.find("nvmlInit_v2"), std::string::npos);
  EXPECT_NE(RocmGauge::open(0, "libc.so.6").error().message.find("rsmi_init"), std::string::npos);
}

// Reads the GPU if there is one, and otherwise expects an error that says so.
TEST(DeviceGauges, ThisMachinesOwn) {
  const auto check = [](auto gauge) {
    if (!gauge.has_value()) {
      EXPECT_EQ(gauge.error().code, ErrorCode::kUnavailable);
      return;
    }
    const auto reading = (*gauge)->read();
    ASSERT_TRUE(reading.has_value()) << reading.error().message;
    EXPECT_GT(reading->total, 0_B);
  };
  check(NvmlGauge::open(0));
  check(RocmGauge::open(0));
}

TEST(TakeReading, TakesTheTimeBeforeTheReading) {
  ManualClock clock;
  EngineGauge slow([&]() -> Result<GaugeReading> {
    clock.advance(3s);
    return GaugeReading{.total = 16_GiB, .used = 4_GiB, .stall = 0.25};
  });
  GovernorInputs inputs{.ledger = {.used = 1_GiB}};
  ASSERT_TRUE(take_reading(slow, clock, inputs).has_value());
  EXPECT_EQ(inputs.sample->taken_at, 0s);
  EXPECT_EQ(inputs.sample->ours, 1_GiB);
  EXPECT_EQ(inputs.stall, 0.25);
  EXPECT_EQ(step({}, inputs, {.cap = 8_GiB, .reserve = 1_GiB}).actions.trust, GaugeTrust::kStale);
}

const GaugeFactory kProcFactory{
    "proc",
    [] {
      return std::make_unique<OnFiles<ProcGauge>>(
          std::initializer_list<std::pair<std::string, std::string>>{{"/p/meminfo", kMeminfo}},
          "/p");
    },
    [] {
      return std::make_unique<OnFiles<ProcGauge>>(
          std::initializer_list<std::pair<std::string, std::string>>{}, "/p");
    }};
const GaugeFactory kCgroupFactory{
    "cgroup",
    [] {
      return std::make_unique<OnFiles<CgroupGauge>>(
          std::initializer_list<std::pair<std::string, std::string>>{
              {"/g/memory.current", "5\n"},
              {"/g/memory.high", "max\n"},
              {"/g/memory.max", "10\n"},
              {"/g/memory.stat", "inactive_file 0\n"}},
          "/g");
    },
    [] {
      return std::make_unique<OnFiles<CgroupGauge>>(
          std::initializer_list<std::pair<std::string, std::string>>{{"/g/memory.current", "5\n"}},
          "/g");
    }};
const GaugeFactory kCgroupV1Factory{
    "cgroup_v1",
    [] {
      return std::make_unique<OnFiles<CgroupV1Gauge>>(
          std::initializer_list<std::pair<std::string, std::string>>{
              {"/g/memory.usage_in_bytes", "5\n"},
              {"/g/memory.limit_in_bytes", "10\n"},
              {"/g/memory.stat", "total_inactive_file 0\n"}},
          "/g");
    },
    [] {
      return std::make_unique<OnFiles<CgroupV1Gauge>>(
          std::initializer_list<std::pair<std::string, std::string>>{
              {"/g/memory.usage_in_bytes", "5\n"}},
          "/g");
    }};
const GaugeFactory kEngineFactory{
    "engine",
    [] {
      return std::make_unique<EngineGauge>(
          []() -> Result<GaugeReading> { return GaugeReading{.total = 4_GiB, .used = 1_GiB}; });
    },
    [] {
      return std::make_unique<EngineGauge>(
          []() -> Result<GaugeReading> { return GaugeReading{.total = 1_GiB, .used = 4_GiB}; });
    }};
const GaugeFactory kNvmlFactory{
    "nvml", [] { return NvmlGauge::open(0, fake_gpu_memory::library()).value(); },
    [] {
      class Failing final : public PressureGauge {
       public:
        [[nodiscard]] std::string_view name() const override { return gauge_->name(); }
        Result<GaugeReading> read() override {
          fake_gpu_memory::fail_reads(1);
          auto reading = gauge_->read();
          fake_gpu_memory::fail_reads(0);
          return reading;
        }

       private:
        std::unique_ptr<NvmlGauge> gauge_ = NvmlGauge::open(0, fake_gpu_memory::library()).value();
      };
      return std::make_unique<Failing>();
    }};
const GaugeFactory kScriptedFactory{
    "scripted",
    [] {
      return std::make_unique<testing::ScriptedGauge>(
          std::deque<Result<GaugeReading>>{GaugeReading{.total = 4_GiB, .used = 1_GiB}});
    },
    [] {
      return std::make_unique<testing::ScriptedGauge>(
          std::deque<Result<GaugeReading>>{fail(ErrorCode::kUnavailable, "off")});
    }};
INSTANTIATE_TEST_SUITE_P(Gauges, GaugeConformance,
                         ::testing::Values(kProcFactory, kCgroupFactory, kCgroupV1Factory,
                                           kEngineFactory, kNvmlFactory, kScriptedFactory),
                         [](const auto& gauge) { return gauge.param.name; });

}  // namespace
}  // namespace afterimage
