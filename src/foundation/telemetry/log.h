// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "afterimage/clock.h"

namespace afterimage {

/// How much a line matters. kOff is none's: as a threshold it lets nothing through.
enum class LogLevel : unsigned char { kDebug, kInfo, kWarn, kError, kOff };

/// "debug", "info", "warn", "error", "off".
std::string_view to_string(LogLevel level);
/// The level of that name; nullopt: none has it.
[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view name);

/// A name and a value, as they stand in a line. It refers to text and does not hold it: for the
/// length of one call.
struct LogField {
  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}
  LogField(std::string_view n, const std::string& v) : name(n), value(std::string_view(v)) {}
  LogField(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
  LogField(std::string_view n, bool v) : name(n), value(v) {}
  LogField(std::string_view n, double v) : name(n), value(v) {}
  template <std::signed_integral T>
  LogField(std::string_view n, T v) : name(n), value(static_cast<std::int64_t>(v)) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  LogField(std::string_view n, T v) : name(n), value(static_cast<std::uint64_t>(v)) {}

  std::string_view name;
  std::variant<std::string_view, bool, double, std::int64_t, std::uint64_t> value;
};

/// Where whole lines go, each with its newline. False: it was lost. Called by one thread at a time.
using LogSink = std::function<bool(std::string_view line)>;

/// An open file, pipe or terminal. A line that nobody takes within `patience` is lost: whoever does
/// not read what we log can neither stop us nor keep us from ending.
[[nodiscard]] LogSink descriptor_sink(int descriptor, Duration timeout = std::chrono::seconds(1));
/// Where services log.
[[nodiscard]] LogSink standard_error_sink();

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::size_t queue_lines = 8192;  // what waits to be written; at least 1
  std::size_t value_bytes = 2048;  // of one text; what is beyond is cut off
};

/// What happened, one JSON object a line:
///
///   {"ts":"2026-11-22T08:15:30.000250Z","level":"info","event":"request","status":200}
///
/// Shape    "ts", "level", "event", then the fields in order; one that repeats a name is left out.
///          All of it is ASCII, whatever the texts hold: control characters and all that is beyond
///          ASCII are escaped, so that no text makes a line of its own or moves a terminal's
///          cursor. What is not UTF-8 becomes U+FFFD, a number that is none becomes null.
/// Errors   None. A line is never waited for: if the queue is full it is lost and counted, and
///          once there is room a line "log_lines_lost" says how many. A pipe that was closed loses
///          them too; its signal does not reach the process.
/// Threads  Any. One thread of its own writes. Cost: some microseconds, of the caller's.
/// Source   src/telemetry/DESIGN.md.
class Log {
 public:
  /// `clock` outlives the log.
  Log(LogOptions options, const WallClock& clock, LogSink sink = standard_error_sink());
  /// Writes what is in the queue.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// For who would compute much for a line that nobody wants.
  [[nodiscard]] bool wants(LogLevel level) const {
    return level != LogLevel::kOff && level >= level_.load(std::memory_order_relaxed);
  }
  void set_level(LogLevel level) { level_ = level; }

  /// `event` is a name in snake_case and not a sentence: programs select by it.
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  void debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kDebug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kInfo, event, fields);
  }
  void warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kWarn, event, fields);
  }
  void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kError, event, fields);
  }

  /// Returns when all that was written before is with the sink, or lost.
  void flush();
  /// Lines that found the queue full, or that the sink lost.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct State;
  std::atomic<LogLevel> level_;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
