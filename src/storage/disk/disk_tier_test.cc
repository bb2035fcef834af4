// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The tier on a real file system: killed processes, damaged files.
#include "afterimage/disk_tier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "storage/block_io/block_files.h"
#include "storage/disk/segment_format.h"
#include "storage/disk/segment_log.h"
#include "testing/temporary_folder.h"
#include "testing/tier_conformance.h"

namespace afterimage {

using testing::TemporaryFolder;
using testing::tier_bytes;
using testing::tier_key;

namespace testing {

std::shared_ptr<Tier> make_disk(Bytes capacity, DiskBackend backend) {
  struct Standing {
    TemporaryFolder folder;
    MemoryBudget memory{64_MiB};
    SystemClock clock;
    std::unique_ptr<DiskTier> tier;
  };
  const auto standing = std::make_shared<Standing>();
  const DiskTierOptions options{.log = {.capacity = capacity,
                                        .batch_bytes = 256_KiB,
                                        .read_timeout = std::chrono::seconds(20),
                                        .append_timeout = std::chrono::seconds(20)},
                                .uring = backend == DiskBackend::kBest};
  auto tier = DiskTier::open(standing->folder.path(), options, standing->memory, standing->clock);
  EXPECT_TRUE(tier.has_value()) << to_string(tier.error());
  standing->tier = *std::move(tier);
  return {standing, standing->tier.get()};
}

INSTANTIATE_TEST_SUITE_P(
    Disk, TierConformance,
    ::testing::Values(
        TierFactory{"best", [](Bytes capacity) { return make_disk(capacity, DiskBackend::kBest); }},
        TierFactory{"threads",
                    [](Bytes capacity) { return make_disk(capacity, DiskBackend::kThreads); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace testing

namespace {

class DiskTierOnDisk : public ::testing::Test {
 protected:
  static DiskTierOptions options(Bytes capacity = 4_MiB) {
    return {.log = {.capacity = capacity,
                    .segment_bytes = 512_KiB,
                    .batch_bytes = 64_KiB,
                    .read_timeout = std::chrono::seconds(20),
                    .append_timeout = std::chrono::seconds(20)}};
  }
  Result<std::unique_ptr<DiskTier>> open() {
    return DiskTier::open(folder.path(), options(), memory, clock);
  }
  std::string segment(unsigned n) {
    return folder.file("segment-000000000000000" + std::to_string(n) + ".afi");
  }
  /// One full segment of 512 KiB, closed.
  std::uint64_t fill() {
    const auto tier = open().value();
    std::uint64_t n = 0;
    for (; n < 7; ++n) {
      EXPECT_TRUE(tier->put(tier_key(n), {}, tier_bytes(n, 60'000 + n)).has_value());
    }
    return n;
  }

  TemporaryFolder folder;
  MemoryBudget memory{64_MiB};
  SystemClock clock;
};

TEST_F(DiskTierOnDisk, WhatIsErasedByLabelIsInNoFileAndInNoLaterProcess) {
  const auto has = [&](std::uint64_t n) {
    const std::vector<std::byte> end = tier_bytes(n, 20'000);
    const std::string sample(reinterpret_cast<const char*>(end.data()) + 19'000, 1'000);
    std::ifstream file(segment(1), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    return bytes.find(sample) != std::string::npos;
  };
  auto tier = open().value();
  for (std::uint64_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(
        tier->put(tier_key(n), {.labels = {EntryLabel(n)}}, tier_bytes(n, 20'000)).has_value());
  }
  ASSERT_TRUE(tier->flush().has_value());
  ASSERT_TRUE(has(1) && has(2) && has(3));
  EXPECT_EQ(tier->erase_matching({.any_of = {EntryLabel(2)}}), EntryCount(1));
  EXPECT_TRUE(has(1) && !has(2) && has(3));
  tier.reset();
  tier = open().value();
  EXPECT_TRUE(tier->may_contain(tier_key(1)));
  EXPECT_FALSE(tier->may_contain(tier_key(2)));
  EXPECT_EQ(tier->erase_matching({.any_of = {EntryLabel(3)}}), EntryCount(1))
      << "an earlier process stored it";
}

TEST_F(DiskTierOnDisk, PutsSurviveARestartAndErasedEntriesDoNot) {
  const std::uint64_t entries = fill();
  {
    const auto tier = open().value();
    ASSERT_TRUE(tier->erase(tier_key(2)).has_value());
  }
  const auto tier = open().value();
  for (std::uint64_t n = 0; n < entries; ++n) {
    const auto found = tier->get(tier_key(n), memory).value();
    EXPECT_EQ(found.has_value(), n != 2) << n;
    if (!found) continue;
    EXPECT_TRUE(std::ranges::equal(found->bytes, tier_bytes(n, 60'000 + n)));
  }
  EXPECT_EQ(tier->stats().damaged, 0U);
}

TEST_F(DiskTierOnDisk, ReadsEntriesOfAllSizesIntoTheirTarget) {
  DiskTierOptions roomy = options(64_MiB);
  roomy.log.segment_bytes = 8_MiB;
  const auto tier = DiskTier::open(folder.path(), roomy, memory, clock).value();
  const std::size_t piece = 256 << 10;
  const std::vector<std::size_t> sizes{0,     1,         4'096 - 128,     4'096,         100'000,
                                       piece, piece - 1, piece - 128 + 1, 2 * piece + 1, 3'000'000};
  for (const bool written : {false, true}) {
    for (std::uint64_t n = 0; n < sizes.size(); ++n) {
      const EntryMeta meta{.tensors = {{DType::kU8, Shape{sizes[n]}}}, .labels = {EntryLabel(n)}};
      if (!written) ASSERT_TRUE(tier->put(tier_key(n), meta, tier_bytes(n, sizes[n])).has_value());
      std::vector<std::byte> target(sizes[n] + 2, std::byte{7});
      const auto inside = std::span(target).subspan(1, sizes[n]);
      EXPECT_TRUE(tier->read_into(tier_key(n), inside, memory).value()) << sizes[n];
      EXPECT_TRUE(std::ranges::equal(inside, tier_bytes(n, sizes[n]))) << sizes[n];
      EXPECT_EQ(target.front(), std::byte{7});
      EXPECT_EQ(target.back(), std::byte{7});
      EXPECT_FALSE(tier->read_into(tier_key(n), target, memory).value()) << "another size";
    }
    ASSERT_TRUE(tier->flush().has_value());
  }
  EXPECT_FALSE(tier->read_into(tier_key(99), {}, memory).value());
  EXPECT_EQ(tier->stats().damaged, 0U);
  EXPECT_EQ(tier->stats().failures, 0U);
}

TEST_F(DiskTierOnDisk, ADamagedEntryIsNotReadIntoATarget) {
  for (const std::uint64_t at : {kDiskBlock + 20, kDiskBlock + 300, 55 * kDiskBlock}) {
    TemporaryFolder here;
    constexpr std::size_t kBytes = 300'000;
    {
      const auto tier = DiskTier::open(here.path(), options(), memory, clock).value();
      ASSERT_TRUE(tier->put(tier_key(1), {}, tier_bytes(1, kBytes)).has_value());
    }
    const auto tier = DiskTier::open(here.path(), options(), memory, clock).value();
    {
      std::fstream file(here.file("segment-0000000000000001.afi"),
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(file.get() ^ 1);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
    }
    std::vector<std::byte> target(kBytes);
    EXPECT_FALSE(tier->read_into(tier_key(1), target, memory).value()) << at;
    EXPECT_EQ(tier->stats().damaged, 1U) << at;
    EXPECT_FALSE(tier->may_contain(tier_key(1))) << at;
  }
}

TEST_F(DiskTierOnDisk, OnlyItsOwnerMayReadIt) {
  fill();
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    struct stat status{};
    ASSERT_EQ(::stat(file.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << file.path();
  }
}

TEST_F(DiskTierOnDisk, AFolderHasOneUserAtATime) {
  const auto first = open();
  ASSERT_TRUE(first.has_value());
  const auto second = open();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find("in use by another process"), std::string::npos);
}

TEST_F(DiskTierOnDisk, AFolderThatCannotBeUsedIsNamed) {
  const auto missing = DiskTier::open(folder.file("no/such/place"), options(), memory, clock);
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("no/such/place"), std::string::npos);
  std::ofstream(folder.file("file")) << "x";
  EXPECT_FALSE(DiskTier::open(folder.file("file"), options(), memory, clock).has_value());
  if (::geteuid() == 0) GTEST_SKIP() << "root can write to read-only folders";
  std::filesystem::create_directory(folder.file("ro"));
  ::chmod(folder.file("ro").c_str(), 0500);
  EXPECT_FALSE(DiskTier::open(folder.file("ro"), options(), memory, clock).has_value());
}

// Flips each sampled bit of a sealed segment: every get returns the right bytes or misses.
TEST_F(DiskTierOnDisk, EveryFlippedBitOfASegmentIsDetectedOrHarmless) {
  const std::uint64_t entries = fill();
  const auto size = std::filesystem::file_size(segment(1));
  ASSERT_GT(size, 400'000U);
  std::uint64_t flips = 0;
  std::uint64_t noticed = 0;
  {
    const int fd = ::open(segment(1).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    std::vector<std::byte> bytes(size);
    ASSERT_EQ(::pread(fd, bytes.data(), size, 0), static_cast<ssize_t>(size));
    Rng rng(1);
    // Decodes as the log does, without a restart for each flip.
    for (std::uint64_t entry = 0, at = kDiskBlock; entry < entries; ++entry) {
      const auto header = decode_record_header(std::span(bytes).subspan(at)).value();
      const std::size_t record = header.blocks * kDiskBlock;
      const std::size_t used = record_header_bytes(header.meta) + header.value_bytes;
      for (int i = 0; i < 10'000; ++i, ++flips) {
        const std::size_t bit = rng.below(used * 8);
        std::byte& flipped = bytes[at + bit / 8];
        flipped ^= static_cast<std::byte>(1U << (bit % 8));
        const auto now = decode_record_header(std::span(bytes).subspan(at));
        const bool good =
            now && *now == header &&
            Checksum::of(std::span(bytes).subspan(at + record_header_bytes(header.meta),
                                                  header.value_bytes)) == header.value_checksum;
        noticed += good ? 0 : 1;
        flipped ^= static_cast<std::byte>(1U << (bit % 8));
      }
      at += record;
    }
    ::close(fd);
  }
  EXPECT_EQ(noticed, flips);
  ASSERT_GE(flips, 65'536U);
  // And through the whole tier, including a restart.
  std::uint64_t restarts = 0;
  Rng rng(2);
  std::vector<char> good(size);
  std::ifstream(segment(1), std::ios::binary).read(good.data(), static_cast<std::streamsize>(size));
  for (; restarts < 60; ++restarts) {
    std::vector<char> bad = good;
    // Half of them in headers and footer.
    const std::size_t at = rng.chance(0.5)   ? rng.below(size)
                           : rng.chance(0.5) ? size - 1 - rng.below(2 * kDiskBlock)
                                             : rng.below(2 * kDiskBlock);
    bad[at] = static_cast<char>(bad[at] ^ (1 << rng.below(8)));
    std::ofstream(segment(1), std::ios::binary)
        .write(bad.data(), static_cast<std::streamsize>(size));
    const auto tier = open();
    ASSERT_TRUE(tier.has_value()) << to_string(tier.error());
    std::uint64_t found = 0;
    for (std::uint64_t n = 0; n < entries; ++n) {
      const auto entry = (*tier)->get(tier_key(n), memory).value();
      if (!entry) continue;
      ++found;
      ASSERT_TRUE(std::ranges::equal(entry->bytes, tier_bytes(n, 60'000 + n))) << "byte " << at;
    }
    ASSERT_GE(found + 1, entries) << "one flipped bit costs one entry at most; byte " << at;
  }
  std::printf(
      "%llu bits flipped, %llu noticed; %llu restarts on a damaged segment: 0 wrong bytes\n",
      static_cast<unsigned long long>(flips), static_cast<unsigned long long>(noticed),
      static_cast<unsigned long long>(restarts));
}

TEST_F(DiskTierOnDisk, ATruncatedSegmentLosesOnlyWhatWasCutOff) {
  const std::uint64_t entries = fill();
  std::filesystem::resize_file(segment(1), 200'001);
  const auto tier = open().value();
  std::uint64_t found = 0;
  for (std::uint64_t n = 0; n < entries; ++n) {
    const auto entry = tier->get(tier_key(n), memory).value();
    if (!entry) continue;
    ++found;
    EXPECT_TRUE(std::ranges::equal(entry->bytes, tier_bytes(n, 60'000 + n)));
  }
  EXPECT_EQ(found, 3U);
  EXPECT_EQ(tier->log().recovery().torn_entries, 1U);
  EXPECT_GT(tier->log().recovery().torn_bytes, 0_B);
}

/// Sent by the child before each put and after each commit.
struct Progress {
  std::uint64_t n;
  std::uint64_t committed;  // all below are on disk
};

[[noreturn]] void put_until_killed(const std::string& folder, const DiskTierOptions& options,
                                   std::uint64_t first, int pipe) {
  MemoryBudget memory(64_MiB);
  const SystemClock clock;
  auto tier = DiskTier::open(folder, options, memory, clock);
  if (!tier) ::_exit(3);
  Progress progress{.n = first, .committed = first};
  while (true) {
    const std::uint64_t n = progress.n++;
    const std::size_t size = Rng(n).below(n % 5 == 0 ? 200'000 : 20'000);
    if (!(*tier)->put(tier_key(n), {}, tier_bytes(n, size))) ::_exit(4);
    if (n % 16 == 15) {
      if (!(*tier)->flush()) ::_exit(5);
      progress.committed = progress.n;
    }
    if (::write(pipe, &progress, sizeof progress) != sizeof progress) ::_exit(6);
  }
}

// AFTERIMAGE_KILLS=200 for the long run.
TEST_F(DiskTierOnDisk, KilledAtAnyTimeServesNothingWrongAndKeepsCommittedEntries) {
  const char* wanted = std::getenv("AFTERIMAGE_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 8;
  std::uint64_t next = 0;
  std::uint64_t checked = 0;
  std::uint64_t uncommitted_lost = 0;
  Rng rng(7);
  for (int kill = 0; kill < kills; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const std::uint64_t first = next;
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      put_until_killed(folder.path(), options(64_MiB), first, ends[1]);
    }
    ::close(ends[1]);
    // Kills after a number of reports rather than milliseconds, so the test does not sleep.
    Progress last{.n = first, .committed = first};
    for (std::uint64_t left = 1 + rng.below(60); left > 0; --left) {
      if (::read(ends[0], &last, sizeof last) != sizeof last) break;
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child exited by itself: " << WEXITSTATUS(status);
    while (::read(ends[0], &last, sizeof last) == sizeof last) {
    }
    ::close(ends[0]);

    auto tier = DiskTier::open(folder.path(), options(64_MiB), memory, clock);
    ASSERT_TRUE(tier.has_value()) << to_string(tier.error());
    for (std::uint64_t n = first; n < last.n; ++n) {
      const auto found = (*tier)->get(tier_key(n), memory).value();
      if (found) {
        const std::size_t size = Rng(n).below(n % 5 == 0 ? 200'000 : 20'000);
        ASSERT_TRUE(std::ranges::equal(found->bytes, tier_bytes(n, size))) << n;
      } else {
        ASSERT_GE(n, last.committed) << "a committed entry was lost; kill " << kill;
        ++uncommitted_lost;
      }
      ++checked;
    }
    next = last.n + 100;
  }
  std::printf("%d kills: %llu entries checked, 0 wrong bytes, %llu lost that were not committed\n",
              kills, static_cast<unsigned long long>(checked),
              static_cast<unsigned long long>(uncommitted_lost));
}

/// Runs `work` in a process of its own, and returns what waitpid says.
template <typename Work>
int status_of(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

/// From here on fallocate says that the file system has no such thing, as ext2, ext3 and older NFS do.
bool forbid_fallocate() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fallocate, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// "cannot allocate space for 'store.afi': Invalid argument", and no disk.
TEST_F(DiskTierOnDisk, AFileSystemWithoutFallocateIsUsedAndErasedEntriesAreOverwritten) {
  const int status = status_of([&] {
    if (!forbid_fallocate()) return 2;
    const auto tier = open();
    if (!tier) return 3;
    for (std::uint64_t n = 1; n <= 2; ++n) {
      if (!(*tier)->put(tier_key(n), {}, tier_bytes(n, 20'000))) return 4;
    }
    if (!(*tier)->flush() || !(*tier)->erase(tier_key(2))) return 5;
    return std::filesystem::file_size(segment(1)) == (512_KiB).value() ? 0 : 6;
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  ASSERT_EQ(WEXITSTATUS(status), 0);
  std::ifstream file(segment(1), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&](std::uint64_t n) {
    const std::vector<std::byte> value = tier_bytes(n, 20'000);
    return bytes.contains(std::string(reinterpret_cast<const char*>(value.data()) + 10'000, 1'000));
  };
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2)) << "was erased";
  const auto tier = open().value();
  EXPECT_TRUE(tier->get(tier_key(1), memory).value().has_value());
  EXPECT_FALSE(tier->get(tier_key(2), memory).value().has_value());
}

// The first segment ended the process with SIGXFSZ.
TEST_F(DiskTierOnDisk, AFileSizeLimitBelowASegmentIsAnError) {
  const int status = status_of([&] {
    const rlimit limit{.rlim_cur = (256_KiB).value(), .rlim_max = (256_KiB).value()};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto tier = open();
    if (tier && !(*tier)->put(tier_key(1), {}, tier_bytes(1, 100))) return 4;
    if (tier) return 3;
    return tier.error().code == ErrorCode::kInvalidArgument &&
                   tier.error().message.contains("ulimit -f")
               ? 0
               : 5;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()) ||
              !std::filesystem::exists(folder.file("store.afi")))
      << "nothing was written";
}

// The tier's own thread writes: nothing was flushed, and no batch was full.
TEST_F(DiskTierOnDisk, WhatRestedForAFlushIntervalSurvivesKill9) {
  constexpr std::uint64_t kEntries = 30;
  const int status = status_of([&] {
    DiskTierOptions restless = options(64_MiB);
    restless.flush_interval = std::chrono::milliseconds(1);
    auto tier = DiskTier::open(folder.path(), restless, memory, clock);
    if (!tier) return 3;
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      if (!(*tier)->put(tier_key(n), {}, tier_bytes(n, 100))) return 4;
    }
    const Duration end = clock.now() + std::chrono::seconds(20);
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      while ((*tier)->is_pending(tier_key(n)) && clock.now() < end) ::sched_yield();
    }
    return ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  const auto tier = open().value();
  for (std::uint64_t n = 0; n < kEntries; ++n) {
    EXPECT_TRUE(tier->get(tier_key(n), memory).value().has_value()) << n;
  }
}

}  // namespace
}  // namespace afterimage
