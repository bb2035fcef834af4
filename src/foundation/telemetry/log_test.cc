// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>
#include <vector>

#include "foundation/platform/mutex.h"
#include "foundation/platform/testing/manual_wall_clock.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using std::chrono_literals::operator""s;
using std::string_literals::operator""s;

/// A sink that collects lines and that a test can block.
struct Lines {
  LogSink sink() {
    return [this](std::string_view line) {
      gate.acquire();
      gate.release();
      if (broken) return false;
      kept.emplace_back(line);
      return true;
    };
  }
  void hold() { gate.acquire(); }
  void let_go() { gate.release(); }

  std::vector<std::string> kept;
  std::atomic<bool> broken = false;
  std::binary_semaphore gate{1};
};

struct LogUnderTest {
  explicit LogUnderTest(LogOptions options = {}) : log(options, clock, lines.sink()) {}

  std::vector<std::string> written() {
    log.flush();
    return lines.kept;
  }

  testing::ManualWallClock clock{WallTime(1795507200s)};
  Lines lines;
  Log log;
};

TEST(Log, IsOneObjectALine) {
  LogUnderTest t;
  t.log.info("request", {{"tenant", "ann"},
                         {"status", 200},
                         {"took_ms", 0.5},
                         {"hit", true},
                         {"bytes", std::uint64_t{18446744073709551615U}},
                         {"less", -1}});
  EXPECT_THAT(t.written(),
              ElementsAre("{\"ts\":\"2026-11-24T08:00:00.000000Z\",\"level\":\"info\","
                          "\"event\":\"request\",\"tenant\":\"ann\",\"status\":200,"
                          "\"took_ms\":0.5,\"hit\":true,\"bytes\":18446744073709551615,"
                          "\"less\":-1}\n"));
}

TEST(Log, EscapesNewlinesAndControlCharacters) {
  LogUnderTest t;
  const std::string evil = "a\nb\r\t\"\\\x1b[2J\x7f\u009b\u202e\u2028\xFFz\0"s;
  t.log.warn("request", {{"question", evil}, {evil, 1}});
  const auto lines = t.written();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].find('\n'), lines[0].size() - 1);
  for (const char c : lines[0].substr(0, lines[0].size() - 1)) {
    EXPECT_TRUE(c >= 0x20 && c < 0x7F) << static_cast<int>(c);
  }
  EXPECT_EQ(nlohmann::json::parse(lines[0])["question"],
            "a\nb\r\t\"\\\x1b[2J\x7f\u009b\u202e\u2028\uFFFDz\0"s);
}

TEST(Log, AFieldCannotOverrideAnother) {
  LogUnderTest t;
  t.log.info("request", {{"event", "forged"}, {"level", "error"}, {"a", 1}, {"a", 2}});
  const auto line = nlohmann::json::parse(t.written().at(0));
  EXPECT_EQ(line["event"], "request");
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["a"], 1);
}

TEST(Log, LongTextsAreCut) {
  LogUnderTest t({.value_bytes = 8});
  t.log.info("request", {{"question", std::string(1000, 'x')}});
  EXPECT_EQ(nlohmann::json::parse(t.written().at(0))["question"], "xxxxxxxx…");
}

TEST(Log, ANonFiniteNumberIsNull) {
  LogUnderTest t;
  t.log.info("request", {{"rate", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_THAT(t.written().at(0), HasSubstr("\"rate\":null"));
}

TEST(Log, WritesLinesAtOrAboveTheLevel) {
  LogUnderTest t({.level = LogLevel::kWarn});
  t.log.info("a");
  t.log.warn("b");
  t.log.set_level(LogLevel::kDebug);
  t.log.debug("c");
  t.log.set_level(LogLevel::kOff);
  t.log.error("d");
  const auto lines = t.written();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("\"b\""));
  EXPECT_THAT(lines[1], HasSubstr("\"c\""));
  EXPECT_FALSE(t.log.wants(LogLevel::kOff));
}

TEST(Log, ASlowReaderBlocksNobody) {
  LogUnderTest t({.queue_lines = 4});
  t.lines.hold();
  for (int i = 0; i < 100; ++i) t.log.info("request", {{"i", i}});  // returns: nothing blocks
  EXPECT_GE(t.log.lost(), 95U);  // four are queued; one may be in the sink
  const auto lost = t.log.lost();
  t.lines.let_go();
  t.log.flush();
  t.log.info("after");
  t.log.flush();
  std::uint64_t told = 0;
  for (const std::string& line : t.lines.kept) {
    const auto parsed = nlohmann::json::parse(line);
    if (parsed["event"] == "log_lines_lost") told += parsed["lines"].get<std::uint64_t>();
  }
  EXPECT_EQ(told, lost);
}

TEST(Log, LinesArriveInOrder) {
  LogUnderTest t;
  for (int i = 0; i < 100; ++i) t.log.info("request", {{"i", i}});
  const auto lines = t.written();
  ASSERT_THAT(lines, SizeIs(100));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(nlohmann::json::parse(lines[static_cast<std::size_t>(i)])["i"], i);
  }
}

TEST(Log, ReportsLostLinesWhenTheSinkRecovers) {
  LogUnderTest t;
  t.lines.broken = true;
  t.log.info("a");
  t.log.info("b");
  t.log.flush();
  EXPECT_EQ(t.log.lost(), 2U);
  t.lines.broken = false;
  t.log.info("c");
  t.log.flush();
  t.log.info("d");
  const auto lines = t.written();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], HasSubstr("\"event\":\"c\""));
  EXPECT_THAT(lines[1], HasSubstr("\"event\":\"log_lines_lost\",\"lines\":2"));
  EXPECT_THAT(lines[2], HasSubstr("\"event\":\"d\""));
}

TEST(Log, EndsAlthoughTheSinkFails) {
  LogUnderTest t;
  t.lines.broken = true;
  for (int i = 0; i < 1000; ++i) t.log.info("request");
}

TEST(Log, RepeatsALossReportThatWasLost) {
  std::vector<bool> works = {false, true, false, true, true};  // a, b, the loss, c, the loss
  std::size_t next = 0;
  std::vector<std::string> kept;
  const testing::ManualWallClock clock;
  {
    Log log({}, clock, [&](std::string_view line) {
      if (works.at(next)) kept.emplace_back(line);
      return works.at(next++);
    });
    for (const char* event : {"a", "b", "c"}) {
      log.info(event);
      log.flush();
    }
  }
  ASSERT_THAT(kept, SizeIs(3));
  EXPECT_THAT(kept.back(), HasSubstr("\"event\":\"log_lines_lost\",\"lines\":1"));
}

TEST(Log, DropsTheQueueOfAStuckReaderAtExit) {
  constexpr std::size_t kLines = 20'000;
  std::atomic<bool> ending = false;
  std::atomic<std::size_t> tried = 0;
  {
    const testing::ManualWallClock clock;
    Log log({.queue_lines = kLines}, clock, [&](std::string_view) {
      while (!ending) std::this_thread::yield();
      ++tried;
      return false;
    });
    for (std::size_t i = 0; i < kLines; ++i) log.info("request");
    ending = true;
  }
  EXPECT_LT(tried, kLines);  // each attempt may take a second
}

TEST(Log, FlushesTheQueueAtExit) {
  Lines lines;
  const testing::ManualWallClock clock;
  {
    Log log({}, clock, lines.sink());
    lines.hold();
    log.info("a");
    log.info("b");
    lines.let_go();
  }
  EXPECT_THAT(lines.kept, SizeIs(2));
}

TEST(Log, ManyThreadsWriteWholeLines) {
  LogUnderTest t;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&t] {
        for (int n = 0; n < 200; ++n) t.log.info("request", {{"text", "some\ntext"}});
      });
    }
  }
  const auto lines = t.written();
  ASSERT_THAT(lines, SizeIs(800));
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

/// Both ends of a pipe, as file descriptors.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void fill() const {
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (::write(ends[1], "x", 1) == 1) {
    }
    ::fcntl(ends[1], F_SETFL, 0);  // as a terminal or a service manager opens it
  }
  std::array<int, 2> ends{-1, -1};
};

TEST(DescriptorSink, WritesLinesOfAnyLength) {
  const Pipe pipe;
  const std::string line = std::string(3 * PIPE_BUF, 'x') + '\n';
  EXPECT_TRUE(descriptor_sink(pipe.ends[1])(line));
  std::string read(line.size(), '\0');
  EXPECT_EQ(::read(pipe.ends[0], read.data(), read.size()), static_cast<ssize_t>(line.size()));
  EXPECT_EQ(read, line);
}

TEST(DescriptorSink, DoesNotBlockOnAStuckReader) {
  const Pipe pipe;
  pipe.fill();
  EXPECT_FALSE(descriptor_sink(pipe.ends[1], Duration(0))("line\n"));
}

TEST(DescriptorSink, AClosedPipeDoesNotEndTheProcess) {
  Pipe pipe;
  ::close(std::exchange(pipe.ends[0], -1));
  const testing::ManualWallClock clock;
  Log log({}, clock, descriptor_sink(pipe.ends[1]));
  log.info("request");
  log.flush();
  EXPECT_EQ(log.lost(), 1U);
}

TEST(LogLevel, NamesAreReadAsTheyAreWritten) {
  for (const char* name : {"debug", "info", "warn", "error", "off"}) {
    EXPECT_EQ(to_string(parse_log_level(name).value()), name);
  }
  EXPECT_FALSE(parse_log_level("INFO").has_value());
  EXPECT_FALSE(parse_log_level("").has_value());
}

}  // namespace
}  // namespace afterimage
