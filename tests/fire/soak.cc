// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Everything for a long time in one process with long-lived tiers: does memory stay flat?
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/tier.h"
#include "fire/child.h"
#include "fire/matrix.h"
#include "foundation/platform/heap.h"
#include "storage/disk/segment_log.h"

namespace afterimage::fire {
namespace {

/// Resident bytes of this process after free memory was returned. Free memory in partly used pages
/// comes and goes with earlier users, so a leak shows earlier in the number below.
std::uint64_t resident_bytes() {
  return_free_memory();
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Bytes that are allocated and not freed.
std::uint64_t allocated_bytes() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

std::size_t entries_of(const char* folder) {
  std::error_code error;
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder, error), {}));
}

/// Rows that create processes run in a child, because this process has threads.
bool run_elsewhere(const Row& row, std::uint64_t seed, const FireRun& run) {
  const std::string text = std::to_string(seed);
  std::array<const char*, 9> words = {"afterimage_fire", "--brief",          "--only",
                                      row.kind,          "--seed",           text.c_str(),
                                      "--folder",        run.folder.c_str(), nullptr};
  pid_t child = 0;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int refused = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                                    const_cast<char**>(words.data()), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) return false;
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Tiers that live as long as the soak, and the threads that use them.
class LongLife {
 public:
  LongLife(const FireRun& run) : run_(run), folder_(run.folder, "soak") {}

  bool open() {
    // The buffers kept for reuse grow whenever more reads overlap than ever before; with a smaller
    // budget than that they are full from the start.
    const DiskTierOptions options{.log = {.capacity = 128_MiB,
                                          .segment_bytes = 8_MiB,
                                          .batch_bytes = 256_KiB,
                                          .idle_bytes = 1_MiB,
                                          .read_timeout = std::chrono::seconds(20)}};
    auto opened = DiskTier::open(folder_.path(), options, memory_, run_.clock);
    if (!opened) return false;
    tier_ = *std::move(opened);
    host_ = std::make_unique<HostTier>(host_room_);
    return true;
  }
  /// Four threads for a duration. Returns the number of wrong results.
  std::uint64_t use(Duration duration, std::uint64_t seed) {
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> threads;
    const Duration end = run_.clock.now() + duration;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Rng rng = Rng(seed).split(t);
        while (run_.clock.now() < end) wrong += step(rng);
      });
    }
    for (std::thread& thread : threads) thread.join();
    tier_->log().check_invariants();
    return wrong;
  }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  /// One key always has one content, so a hit is right or wrong regardless of which put stored it.
  std::uint64_t step(Rng& rng) {
    ++operations_;
    const std::uint64_t n = rng.below(3'000);
    const std::size_t size = 100 + (n * 7'919) % (n % 10 == 0 ? 300'000 : 30'000);
    const TierKey key = testing::tier_key(n);
    if (const std::uint64_t choice = rng.below(100); choice < 2) {
      static_cast<void>(host_->erase(key));
      static_cast<void>(tier_->erase(key));
      return 0;
    } else if (choice < 3) {
      static_cast<void>(tier_->flush());
      return 0;
    }
    auto found = host_->get(key, room_);
    if (!found || !*found) found = tier_->get(key, room_);
    if (found && *found) {
      static_cast<void>(host_->put(key, (*found)->meta, (*found)->bytes));
      return std::ranges::equal((*found)->bytes, testing::tier_bytes(n, size)) ? 0 : 1;
    }
    const auto value = testing::tier_bytes(n, size);
    static_cast<void>(tier_->put(key, {}, value));
    static_cast<void>(host_->put(key, {}, value));
    return 0;
  }

  const FireRun& run_;
  FireFolder folder_;
  MemoryBudget memory_{64_MiB};
  MemoryBudget room_{64_MiB};
  MemoryBudget host_room_{8_MiB};
  std::unique_ptr<DiskTier> tier_;
  std::unique_ptr<HostTier> host_;
  std::atomic<std::uint64_t> operations_{0};
};

/// Growth from the first to the last sample, in per cent of the first, and its lower bound at 95 %
/// confidence, for independent samples: from the slopes of all pairs (Theil and Sen), whose median
/// is robust against outliers.
struct Growth {
  double likely = 0;
  double least = 0;
};
Growth growth_of(std::span<const std::uint64_t> samples) {
  std::vector<double> slopes;
  for (std::size_t j = 1; j < samples.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      slopes.push_back((static_cast<double>(samples[j]) - static_cast<double>(samples[i])) /
                       static_cast<double>(j - i));
    }
  }
  std::ranges::sort(slopes);
  const auto n = static_cast<double>(samples.size());
  const auto pairs = static_cast<double>(slopes.size());
  const double spread = 1.645 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);  // of Kendall's S
  const auto low = static_cast<std::size_t>(std::max(0.0, (pairs - spread) / 2));
  const double per_cent = 100.0 * (n - 1) / static_cast<double>(samples.front());
  return {.likely = per_cent * slopes[slopes.size() / 2], .least = per_cent * slopes[low]};
}

/// glibc's per-thread arenas and caches of freed chunks grow at random for hours, by more than the
/// leak that the soak looks for. Without them, allocated memory is memory in use, and resident
/// memory follows it. The allocator reads these options only from the environment at program start,
/// so the program restarts itself.
bool begin_with_a_plain_heap() {
  constexpr const char* kName = "GLIBC_TUNABLES";
  if (std::getenv(kName) != nullptr) return true;
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (::setenv(kName, "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0", 1) != 0) return false;
  ::execv("/proc/self/exe", arguments.data());
  return false;
}

}  // namespace

bool soak(const FireRun& run, Duration duration) {
  if (!begin_with_a_plain_heap())
    fmt::print("the allocator's per-thread caches could not be disabled\n");
  LongLife life(run);
  if (!life.open()) {
    fmt::print("cannot use the folder\n");
    return false;
  }
  FireRun brief = run;
  brief.brief = true;
  const Duration began = run.clock.now();
  const Duration between = std::min<Duration>(std::chrono::minutes(1), duration / 20);
  Duration next = between;
  std::vector<std::uint64_t> allocated;
  std::vector<std::uint64_t> resident;
  std::size_t files = 0;
  std::size_t threads = 0;
  bool fine = true;
  std::uint64_t rounds = 0;
  for (; run.clock.now() - began < duration; ++rounds) {
    const Row& row = rows()[rounds % rows().size()];
    brief.seed = run.seed + rounds;
    std::string wrong;
    if (row.makes_processes) {
      if (!run_elsewhere(row, brief.seed, run)) wrong = "failed";
    } else if (const Tally tally = row.run(brief); !tally.fine()) {
      wrong = tally.missed.front();
    }
    const std::uint64_t answers =
        life.use(std::min<Duration>(between / 4, std::chrono::seconds(5)), brief.seed);
    if (answers > 0) wrong = fmt::format("{} wrong results from the long-lived tiers", answers);
    if (!wrong.empty()) fmt::print("MISSED {} --seed {}: {}\n", row.kind, brief.seed, wrong);
    fine = fine && wrong.empty();
    if (const Duration now = run.clock.now() - began; now >= next) {
      next = now + between;
      allocated.push_back(allocated_bytes());
      resident.push_back(resident_bytes());
      files = entries_of("/proc/self/fd");
      threads = entries_of("/proc/self/task");
      fmt::print(
          "{:>6.0f} s  {:>9.3f} MiB allocated  {:>9.3f} MiB resident  {} descriptors  {} threads  "
          "{} rounds  {} operations\n",
          std::chrono::duration<double>(now).count(),
          static_cast<double>(allocated.back()) / (1 << 20),
          static_cast<double>(resident.back()) / (1 << 20), files, threads, rounds + 1,
          life.operations());
      std::fflush(stdout);
    }
  }
  const std::size_t warm = allocated.size() / 4;
  if (allocated.size() < 8) {
    fmt::print("too short to say whether memory is flat\n");
    return false;
  }
  const Growth in_use = growth_of(std::span(allocated).subspan(warm));
  const Growth in_memory = growth_of(std::span(resident).subspan(warm));
  fmt::print(
      "{} rounds, {} operations; after a quarter for warm-up, allocated memory grew "
      "by {:+.2f} % (limit: 1 %), resident memory by {:+.2f} %, at least {:+.2f} % (limit: "
      "1 %)\n",
      rounds, life.operations(), in_use.likely, in_memory.likely, in_memory.least);
  return fine && in_use.likely < 1.0 && in_memory.least < 1.0;
}

}  // namespace afterimage::fire
