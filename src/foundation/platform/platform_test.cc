// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/secret.h"
#include "foundation/platform/atomic_snapshot.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/files.h"
#include "foundation/platform/open_files.h"
#include "foundation/platform/random.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"
#include "foundation/platform/wall_clocks.h"
#include "testing/clock_conformance.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::ClockConformance;
using testing::ClockFactory;

std::vector<std::byte> bytes(std::string_view text) {
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

TEST(ManualClock, StandsStillUntilItIsMoved) {
  ManualClock clock;
  EXPECT_EQ(clock.now(), Duration(0));
  clock.advance(Duration(7));
  EXPECT_EQ(clock.now(), Duration(7));
}

INSTANTIATE_TEST_SUITE_P(
    Clocks, ClockConformance,
    ::testing::Values(ClockFactory{"system", [] { return std::make_unique<SystemClock>(); }},
                      ClockFactory{"manual", [] { return std::make_unique<ManualClock>(); }}),
    [](const auto& tested) { return tested.param.name; });

TEST(Rfc3339, WritesEveryDigit) {
  using namespace std::chrono_literals;
  const struct {
    const char* name;
    Duration since_1970;
    const char* expected;
  } kCases[] = {
      {"the beginning", 0s, "1970-01-01T00:00:00.000000Z"},
      {"truncates below a microsecond", 1us + 999ns, "1970-01-01T00:00:00.000001Z"},
      {"before the beginning", -1us, "1969-12-31T23:59:59.999999Z"},
      {"a leap day", 1709164799s + 999999us, "2024-02-28T23:59:59.999999Z"},
      {"and the next", 1709164800s, "2024-02-29T00:00:00.000000Z"},
      {"beyond 32 bits", 4102444800s, "2100-01-01T00:00:00.000000Z"},
  };
  for (const auto& c : kCases) EXPECT_EQ(rfc3339(WallTime(c.since_1970)), c.expected) << c.name;
}

TEST(ManualWallClock, ShowsWhatItWasSetTo) {
  using namespace std::chrono_literals;
  testing::ManualWallClock clock;
  EXPECT_EQ(clock.now(), WallTime());
  clock.set(WallTime(5s));
  EXPECT_EQ(clock.now(), WallTime(5s));
}

TEST(SystemWallClock, IsOfThisCentury) {
  const std::string now = rfc3339(SystemWallClock().now());
  EXPECT_EQ(now.substr(0, 2), "20") << now;
}

TEST(Rng, IsTheSameOnEveryMachine) {
  Rng rng(1);
  EXPECT_EQ(rng.next(), 10451216379200822465U);  // SplitMix64, seed 1
  EXPECT_EQ(Rng(1).split(2).next(), Rng(1).split(2).next());
  EXPECT_NE(Rng(1).split(2).next(), Rng(1).split(3).next());
}

TEST(Rng, BelowStaysBelow) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.below(7), 7U);
}

TEST(RandomSecret, IsNotTheSameTwice) {
  EXPECT_NE(random_secret().value(), random_secret().value());
}

/// Both implementations of Files pass the same tests.
template <typename T>
struct FilesUnderTest {
  testing::TemporaryFolder temporary;
  std::string folder = temporary.path();
  T files;
};

template <typename T>
class FilesContract : public ::testing::Test {};
using FileSystems = ::testing::Types<SystemFiles, testing::MemoryFiles>;
TYPED_TEST_SUITE(FilesContract, FileSystems);

TYPED_TEST(FilesContract, ReadsWhatWasWritten) {
  FilesUnderTest<TypeParam> t;
  const std::string path = t.folder + "/a";
  ASSERT_TRUE(t.files.replace(path, bytes("one")).has_value());
  ASSERT_TRUE(t.files.replace(path, bytes("two!")).has_value());
  EXPECT_EQ(t.files.read(path, 4_B).value(), bytes("two!"));
  EXPECT_EQ(t.files.list(t.folder).value(), std::vector<std::string>{"a"});
  EXPECT_TRUE(t.files.is_folder(t.folder));
  EXPECT_FALSE(t.files.is_folder(path));
}

TYPED_TEST(FilesContract, ErrorsNameThePathAndTheReason) {
  FilesUnderTest<TypeParam> t;
  const std::string path = t.folder + "/a";
  const auto missing = t.files.read(path, 1_KiB);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(path), std::string::npos);
  ASSERT_TRUE(t.files.replace(path, bytes("12345")).has_value());
  EXPECT_EQ(t.files.read(path, 4_B).error().code, ErrorCode::kLimitExceeded);
}

TYPED_TEST(FilesContract, AppendsAtTheEndAndTruncates) {
  FilesUnderTest<TypeParam> t;
  const std::string path = t.folder + "/log";
  ASSERT_TRUE(t.files.append(path, bytes("one,")).has_value());
  ASSERT_TRUE(t.files.append(path, bytes("two")).has_value());
  EXPECT_EQ(t.files.read(path, 1_KiB).value(), bytes("one,two"));
  ASSERT_TRUE(t.files.cut(path, 4_B).has_value());
  EXPECT_EQ(t.files.read(path, 1_KiB).value(), bytes("one,"));
  EXPECT_EQ(t.files.cut(t.folder + "/none", 0_B).error().code, ErrorCode::kNotFound);
}

TYPED_TEST(FilesContract, MakesAndEmptiesAFolderExceptKeptFiles) {
  FilesUnderTest<TypeParam> t;
  const std::string folder = t.folder + "/a/b";
  ASSERT_TRUE(t.files.make_folder(folder).has_value());
  ASSERT_TRUE(t.files.make_folder(folder).has_value());
  EXPECT_TRUE(t.files.is_folder(folder));
  for (const char* name : {"/mark", "/x", "/y"}) {
    ASSERT_TRUE(t.files.replace(folder + name, bytes("1")).has_value());
  }
  ASSERT_TRUE(t.files.empty_folder(folder, "mark").has_value());
  EXPECT_EQ(t.files.list(folder).value(), std::vector<std::string>{"mark"});
  EXPECT_FALSE(t.files.empty_folder(t.folder + "/none", "mark").has_value());
}

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777U;
}

TEST(SystemFiles, WritesFilesOnlyTheOwnerCanRead) {
  const testing::TemporaryFolder folder;
  SystemFiles files;
  const mode_t before = ::umask(0);
  EXPECT_TRUE(files.make_folder(folder.file("a/b")).has_value());
  EXPECT_TRUE(files.replace(folder.file("a/b/report"), bytes("1")).has_value());
  EXPECT_TRUE(files.append(folder.file("a/b/table"), bytes("1")).has_value());
  ::umask(before);
  EXPECT_EQ(mode_of(folder.file("a")), 0700U);
  EXPECT_EQ(mode_of(folder.file("a/b")), 0700U);
  EXPECT_EQ(mode_of(folder.file("a/b/report")), 0600U);
  EXPECT_EQ(mode_of(folder.file("a/b/table")), 0600U);
}

// In a shared folder another user could plant a symbolic link with the draft's name.
TEST(SystemFiles, ADraftDoesNotFollowALink) {
  const testing::TemporaryFolder folder;
  SystemFiles files;
  const std::string precious = folder.file("precious");
  ASSERT_TRUE(files.replace(precious, bytes("mine")).has_value());
  const std::string draft = folder.file("report.") + std::to_string(::getpid()) + ".tmp";
  ASSERT_EQ(::symlink(precious.c_str(), draft.c_str()), 0);
  ASSERT_TRUE(files.replace(folder.file("report"), bytes("report")).has_value());
  EXPECT_EQ(files.read(precious, 1_KiB).value(), bytes("mine"));
}

TEST(SystemFiles, EmptyingAFolderDoesNotFollowLinks) {
  const testing::TemporaryFolder outside;
  const testing::TemporaryFolder inside;
  SystemFiles files;
  ASSERT_TRUE(files.replace(outside.file("precious"), bytes("1")).has_value());
  std::filesystem::create_symlink(outside.path(), inside.file("link"));
  ASSERT_TRUE(files.empty_folder(inside.path(), "").has_value());
  EXPECT_FALSE(std::filesystem::exists(inside.file("link")));
  EXPECT_TRUE(files.read(outside.file("precious"), 1_KiB).has_value());
}

TEST(Environment, AVariableIsSetOrNot) {
  EXPECT_FALSE(environment("AFTERIMAGE_NOBODY_SETS_THIS").has_value());
  EXPECT_TRUE(environment("PATH").has_value());
}

// Files in /proc report size 0 although they have content.
TEST(SystemFiles, ReadsFilesThatReportNoSize) {
  const auto content = SystemFiles().read("/proc/self/status", 1_MiB).value();
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  EXPECT_TRUE(text.starts_with("Name:")) << text.substr(0, 20);
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_EQ(SystemFiles().read("/proc/self/status", 10_B).error().code, ErrorCode::kLimitExceeded);
}

TEST(SystemFiles, AFolderIsNotReadAsAFile) {
  const SystemFiles files;
  EXPECT_EQ(files.read("/", 1_KiB).error().code, ErrorCode::kUnavailable);
}

TEST(VisitBlocks, VisitsAFileInBlocksOfTheRequestedSize) {
  const testing::TemporaryFolder folder;
  SystemFiles files;
  const struct {
    const char* name;
    std::size_t size;
    std::vector<std::size_t> blocks;
  } kCases[] = {{"empty", 0, {}},
                {"one byte", 1, {1}},
                {"one short of a block", 9, {9}},
                {"a block", 10, {10}},
                {"one more", 11, {10, 1}},
                {"exactly three", 30, {10, 10, 10}},
                {"three and some", 37, {10, 10, 10, 7}}};
  for (const auto& c : kCases) {
    std::vector<std::byte> content;
    for (std::size_t i = 0; i < c.size; ++i) content.push_back(static_cast<std::byte>(i + 1));
    ASSERT_TRUE(files.replace(folder.file("file"), content).has_value());
    std::vector<std::size_t> blocks;
    std::vector<std::byte> found;
    const auto visited = visit_blocks(folder.file("file"), 10_B, [&](auto block) {
      blocks.push_back(block.size());
      found.insert(found.end(), block.begin(), block.end());
    });
    ASSERT_TRUE(visited.has_value()) << c.name;
    EXPECT_EQ(blocks, c.blocks) << c.name;
    EXPECT_EQ(found, content) << c.name;
  }
}

TEST(VisitBlocks, EndsWhenItIsStopped) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(SystemFiles().replace(folder.file("file"), std::vector<std::byte>(30)).has_value());
  std::stop_source source;
  std::size_t blocks = 0;
  const auto visit = [&](std::span<const std::byte>) {
    if (++blocks == 2) source.request_stop();
  };
  const auto visited = visit_blocks(folder.file("file"), 10_B, visit, source.get_token());
  ASSERT_FALSE(visited.has_value());
  EXPECT_EQ(visited.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(blocks, 2U);
}

TEST(VisitBlocks, RefusesNonFilesByName) {
  const testing::TemporaryFolder folder;
  const auto nothing = [](std::span<const std::byte>) { FAIL() << "there is nothing to see"; };
  const auto missing = visit_blocks(folder.file("none"), 10_B, nothing);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(folder.file("none")), std::string::npos);
  EXPECT_EQ(visit_blocks(folder.path(), 10_B, nothing).error().code, ErrorCode::kUnavailable);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(visit_blocks(folder.file("pipe"), 10_B, nothing).error().code, ErrorCode::kUnavailable);
}

TEST(SystemFiles, RefusesANamedPipeWithoutBlocking) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(SystemFiles().read(path, 1_KiB).error().code, ErrorCode::kUnavailable);
}

TEST(SystemFiles, AnUnwritablePathIsReportedAndLeavesNothing) {
  SystemFiles files;
  EXPECT_FALSE(files.check_replaceable("/nonexistent/folder/x").has_value());
  EXPECT_FALSE(files.check_replaceable("/").has_value());
  const auto written = files.replace("/nonexistent/folder/x", bytes("x"));
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().message.find("/nonexistent/folder/x"), std::string::npos);
}

TEST(PathBeside, IsRelativeToTheFileAndNotToTheProcess) {
  EXPECT_EQ(path_beside("a/b/w.jsonl", "img/x.png"), "a/b/img/x.png");
  EXPECT_EQ(path_beside("w.jsonl", "x.png"), "x.png");
  EXPECT_EQ(path_beside("a/w.jsonl", "/abs/x.png"), "/abs/x.png");
}

// Under ThreadSanitizer: libstdc++'s std::atomic<std::shared_ptr> fails it.
TEST(AtomicSnapshot, ReadersKeepTheirValueDuringReplacement) {
  using Pair = std::pair<int, int>;
  AtomicSnapshot<Pair> current(std::make_shared<const Pair>(0, 0));
  const auto first = current.load();
  std::atomic<int> torn = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&](const std::stop_token& stop) {
      for (int last = 0; !stop.stop_requested();) {
        const auto now = current.load();
        torn += now->first != now->second || now->first < last ? 1 : 0;
        last = now->first;
      }
    });
  }
  for (int n = 1; n <= 1'000; ++n) current.store(std::make_shared<const Pair>(n, n));
  readers.clear();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(*first, Pair(0, 0));
  EXPECT_EQ(*current.load(), Pair(1'000, 1'000));
}

TEST(OpenFiles, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(open_file_limit(), 64U);
  raise_open_file_limit();
  EXPECT_EQ(open_file_limit(), before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace afterimage
