// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Limits: space on a disk, deadlines of a disk that hangs, memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <new>

#include "afterimage/disk_tier.h"
#include "afterimage/tier.h"
#include "fire/child.h"
#include "fire/fire.h"
#include "storage/disk/testing/small_log.h"
#include "testing/log_story.h"

namespace afterimage::fire {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::LogStory;

namespace {

constexpr int kNoNamespace = 77;

/// In a child: become root of a new user namespace, so that it may mount.
bool mount_small_disk(const std::string& at, const char* size) {
  const auto uid = ::getuid();
  const auto gid = ::getgid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
  return ::mount("fire", at.c_str(), "tmpfs", 0, size) == 0;
}

struct FullCounts {
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> evicted{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> answers{0};
  std::atomic<std::uint64_t> came_back{0};
};

/// Another program fills the disk and frees it again, while the tier's capacity exceeds both.
int live_on_a_small_disk(const FireRun& run, const std::string& at, FullCounts& counts) {
  if (!mount_small_disk(at, "size=32m")) return kNoNamespace;
  MemoryBudget memory(64_MiB);
  ManualClock clock;
  const DiskTierOptions options{.log = {.capacity = 256_MiB,
                                        .segment_bytes = 4_MiB,
                                        .batch_bytes = 256_KiB,
                                        .read_timeout = std::chrono::seconds(20),
                                        .append_timeout = std::chrono::seconds(20)}};
  auto tier = DiskTier::open(at + "/tier", options, memory, clock);
  if (!tier) return 3;
  Rng rng(run.seed);
  const std::uint64_t rounds = run.of(60, 4);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::string other = at + "/other";
    const int fd = ::open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const auto taken = static_cast<off_t>((20 + rng.below(12)) << 20U);
    static_cast<void>(::posix_fallocate(fd, 0, taken));
    ::close(fd);
    for (std::uint64_t i = 0; i < 120; ++i) {
      const std::uint64_t n = round * 1'000 + i;
      const auto put =
          (*tier)->put(testing::tier_key(n), {}, testing::tier_bytes(n, 100'000 + n % 200'000));
      if (!put) ++counts.refused;
      if (!put) clock.advance(std::chrono::seconds(6));
      const std::uint64_t m = round * 1'000 + rng.below(i + 1);
      const auto found = (*tier)->get(testing::tier_key(m), memory);
      if (!found || !*found) continue;
      ++counts.answers;
      if (!std::ranges::equal((*found)->bytes, testing::tier_bytes(m, 100'000 + m % 200'000))) {
        ++counts.wrong;
      }
    }
    (*tier)->log().check_invariants();
    counts.evicted = (*tier)->stats().evicted;
    // There is space again: new puts are found.
    ::unlink(other.c_str());
    clock.advance(std::chrono::seconds(6));
    const std::uint64_t n = round * 1'000 + 999;
    static_cast<void>((*tier)->put(testing::tier_key(n), {}, testing::tier_bytes(n, 100'000)));
    clock.advance(std::chrono::seconds(6));
    const bool flushed =
        (*tier)->put(testing::tier_key(n), {}, testing::tier_bytes(n, 100'000)) && (*tier)->flush();
    const auto found = (*tier)->get(testing::tier_key(n), memory);
    if (flushed && found && *found) ++counts.came_back;
  }
  return counts.came_back == rounds ? 0 : 4;
}

}  // namespace

Tally run_full(const FireRun& run) {
  Tally tally;
  {
    const FireFolder folder(run.folder, "full");
    const Shared<FullCounts> counts(1);
    Child child([&] { return live_on_a_small_disk(run, folder.path(), counts[0]); });
    const ChildEnd end = child.wait(std::chrono::minutes(10));
    if (end.code == kNoNamespace) {
      tally.notes.emplace_back("skipped the small disk: this machine allows no user namespaces");
    } else {
      tally.expect(end.well(), "on a full disk, the child " + end.text());
      tally.expect(counts[0].evicted > 0, "the disk was never full");
      tally.notes.emplace_back(fmt::format(
          "on a tmpfs of 32 MiB that others fill, {} entries were evicted and {} puts failed",
          counts[0].evicted.load(), counts[0].refused.load()));
    }
    tally.injected += counts[0].refused + counts[0].evicted;
    tally.answers += counts[0].answers;
    tally.wrong += counts[0].wrong;
    tally.expect(counts[0].wrong == 0, "wrong bytes on a full disk");
  }
  // The disk is full at any operation; the capacity holds at every moment.
  const std::uint64_t rounds = run.of(3'000, 150);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Rng rng(run.seed * 1'000'003 + round);
    const Bytes cap = round % 2 == 0 ? 200_KiB : 1_MiB;
    LogStory story(rng, cap);
    story.disk.fail(DiskFault::kFull, 1 + rng.below(100), 1 + rng.below(30));
    const bool opened = story.open();
    for (int i = 0; opened && i < 60; ++i) {
      story.step();
      tally.expect(story.disk.bytes() <= cap.value(), "the disk holds more than the capacity");
    }
    if (opened) {
      story.log->check_invariants();
      story.close();
    }
    story.disk.fail(DiskFault::kNone, 1);
    story.reopen(opened);
    // A capacity below the current size.
    story.log.reset();
    MemoryBudget memory(4_MiB);
    const auto small = SegmentLog::open(std::make_unique<FakeBlockFolder>(story.disk),
                                        testing::small_log(140_KiB), memory);
    tally.expect(small.has_value() && story.disk.bytes() <= (140_KiB).value(),
                 "a reduced capacity is not enforced");
    ++tally.injected;
    tally.answers += LogStory::kKeys;
    tally.wrong += story.wrong;
    tally.lost += story.lost;
    if (!story.fine()) {
      tally.miss(fmt::format("{}: round {} of --only full --seed {}", story.broken.front(), round,
                             run.seed));
    }
    run.tell(round + 1, rounds);
  }
  tally.detected = tally.injected;
  return tally;
}

Tally run_hung(const FireRun& run) {
  using std::chrono::milliseconds;
  constexpr Duration kRead = milliseconds(20);
  constexpr Duration kAppend = milliseconds(5);
  constexpr Duration kWrite = milliseconds(40);
  // A busy machine wakes a thread late.
  constexpr Duration kSlack = milliseconds(400);
  Tally tally;
  const std::uint64_t rounds = run.of(200, 6);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    FakeDisk disk;
    MemoryBudget memory(4_MiB);
    ManualClock clock;
    SegmentLogOptions log = testing::small_log(1_MiB);
    log.read_timeout = kRead;
    log.append_timeout = kAppend;
    log.write_timeout = kWrite;
    const auto tier =
        DiskTier::open(std::make_unique<FakeBlockFolder>(disk), {.log = log}, memory, clock)
            .value();
    for (std::uint64_t n = 0; n < 5; ++n) {
      static_cast<void>(tier->put(testing::tier_key(n), {}, testing::tier_bytes(n, 5'000)));
    }
    static_cast<void>(tier->flush());
    disk.hang();
    const auto timed = [&](const char* what, Duration deadline, const auto& call) {
      const Duration began = run.clock.now();
      call();
      const Duration took = run.clock.now() - began;
      ++tally.injected;
      ++tally.detected;
      tally.expect(took <= deadline + kSlack, std::string(what) + " exceeded its deadline");
      return took;
    };
    int slow = 0;
    for (int i = 0; i < 8; ++i) {
      const Duration took = timed("a get", kRead, [&] {
        ++tally.answers;
        const auto found = tier->get(testing::tier_key(static_cast<std::uint64_t>(i % 5)), memory);
        tally.expect(found.has_value() && !*found, "a get from a disk that hangs is a miss");
      });
      if (took >= kRead) ++slow;
    }
    tally.expect(slow <= 3, "a disk that hangs is not read again after three reads");
    for (std::uint64_t n = 10; n < 30; ++n) {
      timed("a put", kAppend + kWrite, [&] {
        static_cast<void>(tier->put(testing::tier_key(n), {}, testing::tier_bytes(n, 5'000)));
      });
    }
    timed("a flush", 20 * kWrite, [&] { static_cast<void>(tier->flush()); });
    timed("an erase", 20 * kWrite, [&] { static_cast<void>(tier->erase(testing::tier_key(1))); });
    disk.go_on();
    const Duration healed = run.clock.now();
    clock.advance(std::chrono::seconds(6));
    for (int i = 0; i < 8 && !tier->flush(); ++i) clock.advance(std::chrono::seconds(6));
    const auto put = tier->put(testing::tier_key(50), {}, testing::tier_bytes(50, 5'000));
    const bool there =
        put && tier->flush() && tier->get(testing::tier_key(50), memory)->has_value();
    tally.recoveries.push_back(run.clock.now() - healed);
    tally.expect(there, "it does not serve again after the disk recovers");
    run.tell(round + 1, rounds);
  }
  return tally;
}

namespace {

std::atomic<std::int64_t> large_allocations_left{-1};  // -1: no limit

}  // namespace

Tally run_memory(const FireRun& run) {
  Tally tally;
  const std::uint64_t most = run.of(600, 60);
  for (const bool budget : {true, false}) {
    for (std::uint64_t n = 0; n < most; ++n) {
      FakeDisk disk;
      MemoryBudget memory(4_MiB);
      MemoryBudget host_room(64_KiB);
      MemoryBudget room(256_KiB);
      Rng rng(run.seed * 7'919 + n);
      {
        HostTier host(host_room);
        auto opened = SegmentLog::open(std::make_unique<FakeBlockFolder>(disk),
                                       testing::small_log(1_MiB), memory);
        if (!opened) continue;
        SegmentLog& log = **opened;
        if (!budget) large_allocations_left = static_cast<std::int64_t>(n);
        std::vector<bool> erased(8, false);
        for (std::uint64_t i = 0; i < 60; ++i) {
          // The n-th step meets an exhausted budget.
          if (budget && i == n % 60) memory.set_capacity(Bytes(rng.below(20'000)));
          if (budget && i == n % 60) room.set_capacity(Bytes(rng.below(20'000)));
          const std::uint64_t key = rng.below(8);
          const std::size_t size = 100 + key * 3'000;
          const auto value = testing::tier_bytes(key, size);
          const auto check = [&](const auto& found) {
            if (!found || !*found) return;
            tally.note(
                std::ranges::equal((*found)->bytes, value) ? Finding::kFine : Finding::kWrongBytes,
                fmt::format("step {} of round {}", i, n));
          };
          static_cast<void>(host.put(testing::tier_key(key), {}, value));
          static_cast<void>(log.append(testing::tier_key(key), {}, value));
          check(host.get(testing::tier_key(key), room));
          check(log.read(testing::tier_key(key), room));
          if (rng.chance(0.1)) static_cast<void>(log.commit());
          tally.expect(host_room.used() <= 64_KiB && host_room.peak() <= 64_KiB,
                       "more than the budget was allocated");
        }
        large_allocations_left = -1;
        log.check_invariants();
        tally.expect(host.stats().used == host_room.used(), "the host tier's accounting is wrong");
        memory.set_capacity(4_MiB);
        room.set_capacity(256_KiB);
        // Afterwards everything works again.
        bool there = false;
        for (int again = 0; again < 4 && !there; ++again) {
          const auto put = log.append(testing::tier_key(90), {}, testing::tier_bytes(90, 5'000));
          there = put && *put && log.commit() && log.contains(testing::tier_key(90));
        }
        tally.expect(there, fmt::format("no put succeeds after round {}", n));
      }
      tally.expect(memory.used() == 0_B && host_room.used() == 0_B && room.used() == 0_B,
                   "memory was not released");
      ++tally.injected;
      ++tally.detected;
      run.tell(n + 1, most);
    }
  }
  tally.notes.emplace_back(
      "the n-th budget or (but under ThreadSanitizer) allocation of values and batches; other "
      "allocations do not fail here: they end the process, which the row kills covers");
  return tally;
}

}  // namespace afterimage::fire

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define AFI_ALLOCATIONS_ARE_ANOTHERS  // its runtime defines them already
#endif
#endif

#if !defined(AFI_ALLOCATIONS_ARE_ANOTHERS)
/// The allocation of values and batches: aligned and nothrow. Its counterparts are replaced with
/// it, since memory must be freed by the allocator it came from.
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  using afterimage::fire::large_allocations_left;
  if (large_allocations_left >= 0 && large_allocations_left.fetch_sub(1) == 0) return nullptr;
  void* memory = nullptr;
  const int refused = ::posix_memalign(&memory, static_cast<std::size_t>(alignment),
                                       size == 0 ? static_cast<std::size_t>(alignment) : size);
  return refused == 0 ? memory : nullptr;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* const memory = ::operator new(size, alignment, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
#endif
