// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// How near is the device tier to what the GPU can do? Copies within its memory beside one plain copy
// of the driver, copies to and from host memory beside the driver's from pinned memory; and does the
// tier give way when another process takes the GPU's memory? Needs an NVIDIA GPU: without one it
// says so and measures nothing.
//
//   device_bench [within|host|hog]    one of the three parts alone
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/pressure.h"
#include "foundation/platform/random.h"
#include "foundation/platform/shared_library.h"
#include "measure.h"
#include "policy/pressure/gauges.h"
#include "storage/device/cuda_device.h"
#include "storage/device/device_tier.h"
#include "storage/memory/checksum.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using bench::must;
using bench::need;

constexpr const char* kDriver = "libcuda.so.1";
constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr int kRounds = 15;
constexpr int kManyRounds = 151;  // of less than 256 MiB

/// The driver itself, which is the limit.
struct Driver {
  SharedLibrary library = must(SharedLibrary::open(kDriver));
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*to_device)(DeviceAddress, const void*, std::size_t) = nullptr;
  int (*to_host)(void*, DeviceAddress, std::size_t) = nullptr;
  int (*within)(DeviceAddress, DeviceAddress, std::size_t) = nullptr;
  int (*clear)(DeviceAddress, unsigned char, std::size_t) = nullptr;
  int (*wait)() = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*use)(void*) = nullptr;

  Driver() {
    must(library.bind(allocate_host, "cuMemHostAlloc"));
    must(library.bind(to_device, "cuMemcpyHtoD_v2"));
    must(library.bind(to_host, "cuMemcpyDtoH_v2"));
    must(library.bind(within, "cuMemcpyDtoD_v2"));
    must(library.bind(clear, "cuMemsetD8_v2"));
    must(library.bind(wait, "cuCtxSynchronize"));
    must(library.bind(retain, "cuDevicePrimaryCtxRetain"));
    must(library.bind(use, "cuCtxSetCurrent"));
    void* context = nullptr;
    need(retain(&context, 0) == 0 && use(context) == 0, "the GPU cannot be used");
  }
};

using Work = std::function<void()>;

/// Of each work the median, in GB/s. They take turns, so that none finds its own bytes in the GPU's
/// caches; one round before is not counted.
std::vector<double> rates(std::size_t bytes, const std::vector<Work>& works) {
  const int rounds = bytes < 256 * kMiB ? kManyRounds : kRounds;
  std::vector<std::vector<double>> seconds(works.size());
  for (const Work& work : works) work();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) seconds[i].push_back(bench::seconds(works[i]));
  }
  std::vector<double> medians;
  for (std::vector<double>& of : seconds) {
    std::ranges::nth_element(of, of.begin() + rounds / 2);
    medians.push_back(static_cast<double>(bytes) / of[rounds / 2] / 1e9);
  }
  return medians;
}

double rate(std::size_t bytes, const Work& work) { return rates(bytes, {work})[0]; }

void row(std::string_view what, std::size_t bytes, double ours, double limit) {
  fmt::print("{:<52} {:>6} MiB {:>8.1f} GB/s   driver {:>8.1f}   ratio {:.2f}\n", what,
             bytes / kMiB, ours, limit, ours / limit);
  std::fflush(stdout);
}

TierKey key_of(std::uint64_t n) {
  TierKey key;
  std::memcpy(key.bytes.data(), &n, sizeof(n));
  return key;
}

std::vector<std::byte> random_bytes(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  Rng rng(seed);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = rng.next();
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

/// 64 KiB pages of `memory` in random order.
std::vector<DeviceSpan> shuffled_pages(DeviceAddress memory, std::size_t size, std::size_t page) {
  std::vector<DeviceSpan> pages;
  for (std::size_t at = 0; at < size; at += page)
    pages.push_back({.at = memory + at, .size = page});
  Rng rng(3);
  for (std::size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[rng.below(i)]);
  return pages;
}

void within_the_gpu(Driver& driver, std::size_t size) {
  const auto device = must(CudaDevice::open(0, kDriver));
  MemoryBudget budget(Bytes(4 * size));
  const auto tier = must(DeviceTier::open({}, budget));
  const DeviceAddress one = must(device->allocate(size));
  const DeviceAddress two = must(device->allocate(size));
  const auto bytes = random_bytes(1, size);
  need(driver.to_device(one, bytes.data(), size) == 0, "the driver's copy failed");

  const auto pages = shuffled_pages(one, size, std::size_t{64} << 10U);
  const auto targets = shuffled_pages(two, size, std::size_t{64} << 10U);
  constexpr std::size_t kEntry = 4 * kMiB;
  std::vector<DeviceSpan> spans;
  for (std::size_t at = 0; at < size; at += kEntry)
    spans.push_back({.at = one + at, .size = kEntry});
  std::vector<DevicePlace> places;
  for (const DeviceSpan& span : spans) {
    const TierKey key = key_of(100 + places.size());
    must(tier->put_from_device(key, {}, {&span, 1}));
    places.push_back({key, {&span, 1}});
  }
  const auto plain = [&] {
    need(driver.within(two, one, size) == 0 && driver.wait() == 0, "the driver's copy failed");
  };
  const auto gather = [&] { must(tier->put_from_device(key_of(1), {}, pages)); };
  const auto scatter = [&] {
    need(must(tier->get_to_device(std::array{DevicePlace{key_of(1), targets}}))[0], "a miss");
  };
  const auto entries = [&] {
    const auto there = must(tier->get_to_device(places));
    need(std::ranges::all_of(there, [](bool found) { return found; }), "a miss");
  };
  const auto measured = rates(size, {plain, gather, scatter, entries});
  row("gather: 64 KiB pages in any order into an entry", size, measured[1], measured[0]);
  row("scatter: an entry into 64 KiB pages in any order", size, measured[2], measured[0]);
  row("entries of 4 MiB, all at once, to one place", size, measured[3], measured[0]);

  // The pages and their targets are in the same order, so the second place is as the first.
  std::vector<std::byte> back(size);
  need(driver.clear(two, 0xCD, size) == 0 && driver.wait() == 0, "the driver cannot clear");
  scatter();
  need(driver.to_host(back.data(), two, size) == 0, "the driver's copy failed");
  need(back == bytes, "WRONG BYTES");
  need(driver.clear(one, 0xCD, size) == 0 && driver.wait() == 0, "the driver cannot clear");
  entries();
  need(driver.to_host(back.data(), one, size) == 0, "the driver's copy failed");
  need(back == bytes, "WRONG BYTES");
  device->free(one);
  device->free(two);
}

void between_host_and_gpu(Driver& driver, std::size_t size, std::uint32_t threads) {
  const auto device = must(CudaDevice::open(0, kDriver));
  MemoryBudget budget(Bytes(2 * size));
  MemoryBudget room(Bytes(2 * size));
  const auto tier = must(DeviceTier::open({.copies = threads}, budget));
  const DeviceAddress memory = must(device->allocate(size));
  void* pinned = nullptr;
  need(driver.allocate_host(&pinned, size, 0) == 0, "no pinned memory");
  const auto bytes = random_bytes(2, size);
  std::memcpy(pinned, bytes.data(), size);
  const double up = rate(size, [&] { need(driver.to_device(memory, pinned, size) == 0, "copy"); });
  const double down = rate(size, [&] { need(driver.to_host(pinned, memory, size) == 0, "copy"); });
  const std::span<std::byte> region(static_cast<std::byte*>(pinned), size);
  const double put_pinned = rate(size, [&] { must(tier->put(key_of(1), {}, region)); });
  const double get_pinned = rate(size, [&] { must(tier->get_to_host(key_of(1), region)); });
  need(std::ranges::equal(region, bytes), "WRONG BYTES");
  const double put = rate(size, [&] { must(tier->put(key_of(1), {}, bytes)); });
  std::optional<TierEntry> got;
  const double get = rate(size, [&] {
    got.reset();
    got = must(tier->get(key_of(1), room));
  });
  need(got.has_value() && std::ranges::equal(got->bytes, bytes), "WRONG BYTES");
  const double checked = rate(size, [&] {
    std::vector<std::thread> checking;
    for (std::uint32_t n = 0; n < threads; ++n) {
      checking.emplace_back([&region, threads, n] {
        const std::size_t part = region.size() / threads;
        need(Checksum::of(region.subspan(n * part, part)) != Checksum{}, "no checksum");
      });
    }
    for (std::thread& thread : checking) thread.join();
  });
  row(fmt::format("checksums alone, {} threads", threads), size, checked, up);
  row(fmt::format("put from pinned memory, {} threads", threads), size, put_pinned, up);
  row(fmt::format("get to pinned memory, {} threads", threads), size, get_pinned, down);
  row(fmt::format("put from other memory, {} threads", threads), size, put, up);
  row(fmt::format("get to new memory, {} threads", threads), size, get, down);
  device->free(memory);
}

/// Takes up to `most` bytes of the GPU in steps, and returns them, until its input ends.
[[noreturn]] void hog(std::size_t most) {
  const auto device = must(CudaDevice::open(0, kDriver));
  constexpr std::size_t kStep = 512 * kMiB;
  std::vector<DeviceAddress> taken;
  int failed = 0;
  for (int wave = 0; wave < 3; ++wave) {
    while (taken.size() * kStep < most) {
      const auto memory = device->allocate(kStep);
      if (memory.has_value()) {
        taken.push_back(*memory);
      } else {
        ++failed;
      }
      std::this_thread::sleep_for(20ms);
      if (failed > 100) break;
    }
    std::this_thread::sleep_for(500ms);
    for (const DeviceAddress memory : taken) device->free(memory);
    taken.clear();
    std::this_thread::sleep_for(1s);
  }
  std::exit(std::min(failed, 100));
}

/// A tier that fills nearly the whole GPU, while another process takes three quarters of it.
void beside_a_hog(const char* program) {
  const auto device = must(CudaDevice::open(0, kDriver));
  const auto memory = must(device->memory());
  const std::size_t free = memory.free.value();
  MemoryBudget budget(Bytes(free / 8 * 7));
  MemoryBudget room(1_GiB);
  const auto tier = must(DeviceTier::open({.keep_free = 2_GiB}, budget));
  SharedBudget shared(budget);
  shared.join(*tier);
  const SystemClock clock;
  const std::shared_ptr<PressureGauge> gauge = must(NvmlGauge::open(0));
  const auto reading = must(gauge->read());
  fmt::print("NVML: {:.1f} GiB in all, {:.1f} used\n",
             static_cast<double>(reading.total.value()) / static_cast<double>((1_GiB).value()),
             static_cast<double>(reading.used.value()) / static_cast<double>((1_GiB).value()));
  PressureOptions pressure{.gauge = gauge, .governor = {.reserve = 4_GiB}, .own_thread = false};
  const auto controller = must(PressureController::create(pressure, shared, clock));
  constexpr std::size_t kEntry = 64 * kMiB;
  const DeviceAddress engine = must(device->allocate(kEntry));
  const DeviceSpan whole{.at = engine, .size = kEntry};

  const pid_t child = ::fork();
  if (child == 0) {
    const std::string most = std::to_string(free / 4 * 3);
    ::execl(program, program, "hog", most.c_str(), nullptr);
    std::exit(101);
  }
  std::uint64_t n = 0;
  std::uint64_t violations = 0;
  std::uint64_t hits = 0;
  std::uint64_t asked = 0;
  Bytes most;
  Bytes least = Bytes::max();
  Rng rng(1);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const GovernorActions actions = controller->tick();
    violations += budget.used() > actions.budget ? 1 : 0;
    most = std::max(most, budget.used());
    if (n > 200) least = std::min(least, budget.used());
    (void)tier->put_from_device(key_of(n++), {}, {&whole, 1});
    ++asked;
    const DevicePlace place{key_of(n - 1 - rng.below(std::min<std::uint64_t>(n, 50))), {&whole, 1}};
    hits += must(tier->get_to_device({&place, 1}))[0] ? 1 : 0;
    std::this_thread::sleep_for(1ms);
  }
  const PressureControllerStats stats = controller->stats();
  std::vector<double> took;
  for (const MemoryRelease& release : stats.releases) {
    took.push_back(std::chrono::duration<double, std::milli>(release.took).count());
  }
  std::ranges::sort(took);
  fmt::print(
      "beside a process that takes {:.1f} GiB three times: {} allocations of it failed, {} of {} "
      "ticks over the budget,\nheld {:.1f} GiB at most and {:.1f} at least, {} releases, {:.1f} "
      "GiB "
      "given back, median {:.1f} ms, longest {:.1f} ms, {} of {} look-ups hit\n",
      static_cast<double>(free / 4 * 3) / 1073741824.0, WEXITSTATUS(status), violations, asked,
      static_cast<double>(most.value()) / 1073741824.0,
      static_cast<double>(least.value()) / 1073741824.0, stats.releases.size(),
      static_cast<double>(stats.given_back.value()) / 1073741824.0,
      took.empty() ? 0 : took[took.size() / 2], took.empty() ? 0 : took.back(), hits, asked);
  need(violations == 0, "the budget was exceeded");
}

}  // namespace
}  // namespace afterimage

int main(int count, char** arguments) {
  using namespace afterimage;
  if (count == 3 && std::string_view(arguments[1]) == "hog") hog(std::stoull(arguments[2]));
  const auto device = CudaDevice::open(0, kDriver);
  if (!device.has_value()) {
    fmt::print("nothing measured: {}\n", device.error().message);
    return 0;
  }
  fmt::print("{}, medians of {} rounds, of {} below 256 MiB\n", (*device)->name(), kRounds,
             kManyRounds);
  Driver driver;
  const std::string_view part = count > 1 ? arguments[1] : "";
  if (part.empty() || part == "within") {
    for (const std::size_t size : {64 * kMiB, 1024 * kMiB, 4096 * kMiB}) {
      within_the_gpu(driver, size);
    }
  }
  if (part.empty() || part == "host") {
    for (const std::uint32_t threads : {1U, 4U, 8U, 12U}) {
      between_host_and_gpu(driver, 512 * kMiB, threads);
    }
    between_host_and_gpu(driver, 4 * kMiB, 4);
  }
  if (part.empty() || part == "hog") beside_a_hog(arguments[0]);
  return 0;
}
