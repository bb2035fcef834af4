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

/// Severity of a log line. kOff is only a threshold: it suppresses every line.
enum class LogLevel : unsigned char { kDebug, kInfo, kWarn, kError, kOff };

/// "debug", "info", "warn", "error", "off".
std::string_view to_string(LogLevel level);
/// The level of that name; nullopt if there is none.
[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view name);

/// One name and value of a log line. It refers to the caller's text without copying it, so it must
/// not outlive the call to Log::write.
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

/// Receives whole lines, each with its newline. Returns false if the line was lost. Called by one
/// thread at a time.
using LogSink = std::function<bool(std::string_view line)>;

/// Writes to an open file, pipe or terminal. A line that cannot be written within `timeout` is
/// lost: a reader that stops reading can neither block the process nor keep it from exiting.
[[nodiscard]] LogSink descriptor_sink(int descriptor, Duration timeout = std::chrono::seconds(1));
/// Standard error, where services log.
[[nodiscard]] LogSink standard_error_sink();

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::size_t queue_lines = 8192;  // lines that may wait to be written; at least 1
  std::size_t value_bytes = 2048;  // longest text value; the rest is cut off
};

/// A structured log: one JSON object per line.
///
///   {"ts":"2026-11-22T08:15:30.000250Z","level":"info","event":"request","status":200}
///
/// Shape    "ts", "level", "event", then the fields in order; a field that repeats a name is left
///          out. Lines are ASCII, whatever the texts contain: control characters and non-ASCII
///          characters are escaped, so no text can start a line of its own or move a terminal's
///          cursor. Invalid UTF-8 becomes U+FFFD, a number that is not finite becomes null.
/// Errors   None. Logging never blocks: if the queue is full, the line is lost and counted, and
///          once there is space again a line "log_lines_lost" says how many were lost. A closed
///          pipe loses lines too; its signal does not reach the process.
/// Threads  Any. One internal thread writes.
/// Cost     Some microseconds of the caller's time per line.
/// Source   src/foundation/telemetry/DESIGN.md.
class Log {
 public:
  /// `clock` outlives the log.
  Log(LogOptions options, const WallClock& clock, LogSink sink = standard_error_sink());
  /// Writes the lines still in the queue.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// For callers that would do expensive work for a line that would be suppressed.
  [[nodiscard]] bool wants(LogLevel level) const {
    return level != LogLevel::kOff && level >= level_.load(std::memory_order_relaxed);
  }
  void set_level(LogLevel level) { level_ = level; }

  /// `event` is a name in snake_case, not a sentence: programs select lines by it.
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

  /// Returns when every line written before is either handed to the sink or lost.
  void flush();
  /// Lines lost because the queue was full or the sink failed.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct State;
  std::atomic<LogLevel> level_;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
