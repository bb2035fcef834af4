// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/log.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "afterimage/result.h"
#include "foundation/platform/mutex.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

class LineWriter {
 public:
  LineWriter(WallTime time, LogLevel level, std::string_view event, std::size_t value_bytes)
      : value_bytes_(value_bytes) {
    add("ts", rfc3339(time));
    add("level", std::string(to_string(level)));
    add("event", valid_text(event, value_bytes));
  }

  void add(const LogField& field) {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>) {
            add(field.name, valid_text(value, value_bytes_));
          } else {
            add(field.name, value);
          }
        },
        field.value);
  }

  /// ASCII only: Unicode contains controls that move the cursor or reverse the text direction.
  [[nodiscard]] std::string line() const {
    return line_.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
  }

 private:
  template <typename Value>
  void add(std::string_view name, Value value) {
    line_.emplace(valid_text(name, value_bytes_), std::move(value));  // the first of a name wins
  }

  nlohmann::ordered_json line_ = nlohmann::ordered_json::object();
  std::size_t value_bytes_;
};

/// Blocks SIGPIPE in this thread, so that a closed pipe is a write error and does not end the
/// process.
void ignore_closed_pipes() {
  sigset_t closed_pipe;
  ::sigemptyset(&closed_pipe);
  ::sigaddset(&closed_pipe, SIGPIPE);
  AFI_CHECK(::pthread_sigmask(SIG_BLOCK, &closed_pipe, nullptr) == 0);
}

/// Waits for space for one write of at most PIPE_BUF bytes, which a pipe then accepts whole.
bool can_write(int descriptor, Duration timeout) {
  pollfd wait{.fd = descriptor, .events = POLLOUT, .revents = 0};
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  return ::poll(&wait, 1, static_cast<int>(limit)) == 1 && (wait.revents & POLLOUT) != 0;
}

bool write_with_timeout(int descriptor, Duration timeout, std::string_view text) {
  while (!text.empty()) {
    if (!can_write(descriptor, timeout)) return false;
    const ssize_t written =
        ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string_view to_string(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

LogSink descriptor_sink(int descriptor, Duration timeout) {
  return [=](std::string_view line) { return write_with_timeout(descriptor, timeout, line); };
}

LogSink standard_error_sink() { return descriptor_sink(STDERR_FILENO); }

struct Log::State {
  State(LogOptions the_options, const WallClock& the_clock, LogSink the_sink)
      : options(the_options), clock(the_clock), sink(std::move(the_sink)) {
    AFI_CHECK(options.queue_lines >= 1);
    thread = std::thread([this] { write_all(); });
  }

  ~State() {
    {
      const MutexLock lock(mutex);
      closing = true;
      changed.notify_all();
    }
    thread.join();
  }

  void push(std::string line) AFI_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    if (queue.size() >= options.queue_lines) {
      ++lost;
      return;
    }
    queue.push_back(std::move(line));
    ++accepted;
    changed.notify_all();
  }

  void write_all() AFI_EXCLUDES(mutex) {
    ignore_closed_pipes();
    while (write_loss() || write_next()) {
    }
  }

  /// False: the queue is empty and the log is closing.
  bool write_next() AFI_EXCLUDES(mutex) {
    const std::optional<std::string> line = next();
    if (!line.has_value()) return false;
    const bool delivered = sink(*line);
    const MutexLock lock(mutex);
    sink_works = delivered;
    std::size_t settled = 1;
    if (!delivered) {
      // The reader is stuck. Waiting for each queued line would keep the process from ending.
      if (closing) settled += std::exchange(queue, {}).size();
      lost += settled;
    }
    completed += settled;
    changed.notify_all();
    return true;
  }

  std::optional<std::string> next() AFI_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    while (queue.empty() && !closing) changed.wait(mutex);
    if (queue.empty()) return std::nullopt;
    std::string line = std::move(queue.front());
    queue.pop_front();
    return line;
  }

  /// Logs how many lines were lost since the last report, if the sink works. Not while the queue is
  /// filling: each line would be followed by such a report.
  bool write_loss() AFI_EXCLUDES(mutex) {
    LineWriter line(clock.now(), LogLevel::kWarn, "log_lines_lost", options.value_bytes);
    std::uint64_t reporting = 0;
    {
      const MutexLock lock(mutex);
      if (lost == reported || !sink_works || queue.size() > options.queue_lines / 2) return false;
      reporting = lost;
      line.add({"lines", reporting - reported});
    }
    const bool delivered = sink(line.line());
    const MutexLock lock(mutex);
    sink_works = delivered;
    if (delivered) reported = reporting;
    return true;
  }

  const LogOptions options;
  const WallClock& clock;
  const LogSink sink;
  Mutex mutex;
  Condition changed;
  std::deque<std::string> queue AFI_GUARDED_BY(mutex);
  std::uint64_t accepted AFI_GUARDED_BY(mutex) = 0;   // lines accepted into the queue
  std::uint64_t completed AFI_GUARDED_BY(mutex) = 0;  // of those: written or lost
  std::uint64_t lost AFI_GUARDED_BY(mutex) = 0;
  std::uint64_t reported AFI_GUARDED_BY(mutex) = 0;  // of the lost lines: already reported
  bool sink_works AFI_GUARDED_BY(mutex) = true;      // the last write succeeded
  bool closing AFI_GUARDED_BY(mutex) = false;
  std::thread thread;  // last: it uses all of the above
};

Log::Log(LogOptions options, const WallClock& clock, LogSink sink)
    : level_(options.level), state_(std::make_unique<State>(options, clock, std::move(sink))) {}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!wants(level)) return;
  LineWriter line(state_->clock.now(), level, event, state_->options.value_bytes);
  for (const LogField& field : fields) line.add(field);
  state_->push(line.line());
}

void Log::flush() {
  const MutexLock lock(state_->mutex);
  const std::uint64_t until = state_->accepted;
  while (state_->completed < until) state_->changed.wait(state_->mutex);
}

std::uint64_t Log::lost() const {
  const MutexLock lock(state_->mutex);
  return state_->lost;
}

}  // namespace afterimage
