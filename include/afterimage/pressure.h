// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// One reading of a gauge.
struct GaugeReading {
  Bytes total;
  Bytes used;        // by all programs, ourselves included; at most total
  double stall = 0;  // share of the last seconds in which work waited for memory; 0: not measured
};

/// Measures how full a memory is. An extension point: one class per source; every gauge must pass
/// tests/testing/gauge_conformance.h.
///
/// Errors   kUnavailable: the source does not exist or cannot be read now; kCorruption: its numbers
///          contradict each other. A gauge never makes up a number: the governor fails closed.
/// Cost     Microseconds to a millisecond: read it on a thread that may block, not under a lock.
/// Threads  One at a time.
class PressureGauge {
 public:
  virtual ~PressureGauge() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Result<GaugeReading> read() = 0;
};

/// Readings from the engine, which knows its own memory pools better than the driver.
class EngineGauge final : public PressureGauge {
 public:
  explicit EngineGauge(std::function<Result<GaugeReading>()> ask) : ask_(std::move(ask)) {}
  [[nodiscard]] std::string_view name() const override { return "engine"; }
  Result<GaugeReading> read() override;

 private:
  std::function<Result<GaugeReading>()> ask_;
};

/// Opens the gauge of the memory that limits this process: of its control groups
/// (/proc/self/cgroup, and their parents) the one with the smallest limit, or the machine if none
/// has a smaller one. The group is chosen once; later changes of its limit are seen, a move to
/// another group is not.
///
/// Errors   kUnavailable: nothing can be read.
Result<std::unique_ptr<PressureGauge>> open_host_gauge();

/// How scarce memory is, mildest first. The numbers 0 … 4 are those of the original
/// VRAMAwareCache. A mode is a label: the missing bytes decide how many bytes are evicted.
enum class PressureMode : unsigned char { kRelaxed, kNormal, kPressure, kCritical, kEmergency };
inline constexpr std::size_t kPressureModes = 5;

/// "relaxed", "normal", "pressure", "critical", "emergency".
std::string_view to_string(PressureMode mode);

/// The shares of all memory in use at which the four modes above kRelaxed begin, in order. A mode ends one
/// point below where it begins.
using ModesByUse = std::array<double, kPressureModes - 1>;
/// Those of the original VRAMAwareCache.
inline constexpr ModesByUse kSeedModes{0.70, 0.85, 0.92, 0.96};
/// "headroom": nullopt; "seed": kSeedModes; or four percentages: "60,75,85,95".
///
/// Errors   kInvalidArgument: anything else, or percentages that don't rise between 1 and 100.
Result<std::optional<ModesByUse>> parse_modes(std::string_view text);

/// How long an entry may stay unused; nullopt: for ever. Applied in every step.
struct IdleLimits {
  std::optional<Duration> relaxed;
  std::optional<Duration> normal;  // also in kPressure and kCritical
  std::optional<Duration> emergency;
  std::optional<Duration> offload;  // in kCritical and worse: idle entries are offloaded

  /// Ten minutes, 120 s, 30 s, 30 s, as documented for the original VRAMAwareCache.
  static IdleLimits seed();
  /// In the same proportions.
  static IdleLimits of(Duration relaxed);
  [[nodiscard]] bool any() const {
    return relaxed.has_value() || normal.has_value() || emergency.has_value() ||
           offload.has_value();
  }
};

/// Unit     Bytes of the governed memory; times on the caller's clock.
struct GovernorOptions {
  Bytes cap;      // most we may hold, however much is free
  Bytes reserve;  // kept free for external allocations before the governor can react
  /// Limit of the target while the gauge is not trusted, and of everything we hold before the first
  /// reading; nullopt: half the cap.
  std::optional<Bytes> blind_cap;
  Duration horizon = std::chrono::milliseconds(150);  // detection plus action
  Duration stale_after = std::chrono::milliseconds(150);
  Duration tick = std::chrono::milliseconds(50);
  Duration busy_tick = std::chrono::milliseconds(5);
  double regrow_per_second = 0.05;  // share of the cap by which the target may grow
  double stall_limit = 0.10;        // memory stall share (PSI) that counts as pressure
  /// A gauge and our own figures may differ by so much, or by 1 % of the memory if that is more.
  Bytes tolerance = 64_MiB;
  /// When modes begin, by the share of all memory that is used; nullopt: by the bytes needed soon,
  /// relative to the headroom.
  std::optional<ModesByUse> modes = std::nullopt;
  IdleLimits idle;

  [[nodiscard]] Bytes blind() const { return blind_cap.value_or(Bytes(cap.value() / 2)); }
};

/// kInvalidArgument: no cap, no reserve, a blind cap above the cap, times or rates that are not
/// positive, modes that don't rise.
Result<void> check(const GovernorOptions& options);

/// Whether the gauge is trusted. Everything but kTrusted fails closed.
enum class GaugeTrust : unsigned char {
  kNone,  // no reading yet
  kTrusted,
  kStale,      // no new reading for too long
  kNonsense,   // a total of 0, more used than the total, or a time in the future
  kFrozen,     // the same number repeatedly, although our own use has changed
  kDisagrees,  // fewer bytes used than we alone hold
};
std::string_view to_string(GaugeTrust trust);

/// What to do now. Erasing, and replacing an entry by a smaller one, are always allowed.
struct GovernorActions {
  PressureMode mode = PressureMode::kRelaxed;
  GaugeTrust trust = GaugeTrust::kNone;
  bool admits = true;     // new entries may be cached
  bool speculate = true;  // prefetch, warming and compaction are allowed; stopped first
  Bytes budget;           // hard limit on our use once the actions are done
  Bytes target;           // new entries are admitted up to here; below the budget by the reserve
  Bytes release;          // to evict now
  Bytes overrun;          // beyond the budget even after that: pinned
  std::optional<Duration> expire_idle;
  std::optional<Duration> offload_idle;
  Duration next_step{0};  // from now
};

struct PressureOptions {
  /// Read only by the controller while it lives. nullptr: no controller; the budget is constant.
  std::shared_ptr<PressureGauge> gauge;
  /// `cap` is ignored: the budget's capacity is used. A reserve of 0 means a sixteenth of the
  /// memory that the gauge reports at the start.
  GovernorOptions governor;
  /// Ticks on a thread of its own; false: the owner calls tick().
  bool own_thread = true;
  /// Returns freed memory from the allocator to the system. nullptr: through the C library.
  void (*return_memory)() = nullptr;
};

/// One release of memory by the caches.
struct MemoryRelease {
  Duration at{0};    // when the gauge had been read, on the controller's clock
  Duration took{0};  // until the bytes were freed
  Bytes bytes;
  Bytes left;    // still held afterwards
  Bytes budget;  // the budget to get below
};

/// Counters cover the controller's whole life.
struct PressureControllerStats {
  std::string gauge;  // its name
  std::uint64_t ticks = 0;
  std::uint64_t failed_readings = 0;
  std::uint64_t transitions = 0;    // of the mode
  std::uint64_t blocked_ticks = 0;  // in which admission was blocked
  PressureMode mode = PressureMode::kRelaxed;
  GaugeTrust trust = GaugeTrust::kNone;
  Bytes memory;         // total, as last read; 0: never read
  Bytes external;       // used by other programs
  Bytes budget;         // as of the last tick
  Bytes lowest_budget;  // so far
  Bytes given_back;     // evicted because of external use
  Bytes idle;           // evicted because it was not used for too long
  Duration longest_tick{0};
  std::vector<MemoryRelease> releases;  // the first thousand
};

/// Keeps the caches within the memory that other programs leave free: each tick reads the gauge,
/// steps the governor, evicts what was idle for longer than the mode allows, sets the caches'
/// budget, makes them evict to it, and blocks or unblocks their admission.
///
/// All entries can be computed again, and where there is a tier, it got a copy when they were made. So
/// every unpinned entry is evicted as soon as others need the space or the reserve, and counts as headroom. Bytes
/// that stayed when they had to be evicted are pinned, and do not count as headroom until they are
/// gone. The governor's extrapolations (growth, a silent gauge) stop growth but evict nothing.
///
/// While memory is short, the process regularly returns freed memory to the system; otherwise a
/// fragmented heap would keep what the caches evicted.
///
/// Promises After a tick, used ≤ budget, except for pinned entries. A gauge that fails, freezes or
///          reports wrong numbers makes nothing grow. Admission opens again when pressure ends.
/// Threads  Any. Ticks exclude each other. Neither a gauge that hangs nor a long release blocks
///          stats(), and no request waits longer than one slice of a release.
/// Cost     A reading (tens of microseconds for /proc), a governor step, the evictions, and, while
///          memory is short, four walks over the heap per second.
/// Source   src/policy/pressure/DESIGN.md, "PressureController".
class PressureController {
 public:
  /// Ticks once before it returns. `caches` and the clock outlive the controller.
  /// kInvalidArgument: no gauge, or invalid governor options; kUnavailable: the reserve is to be
  /// measured and the gauge cannot be read.
  static Result<std::unique_ptr<PressureController>> create(const PressureOptions& options,
                                                            SharedBudget& caches,
                                                            const Clock& clock);
  /// Stops the thread; the budget keeps its last value.
  ~PressureController();
  PressureController(const PressureController&) = delete;
  PressureController& operator=(const PressureController&) = delete;

  /// Reads the gauge and acts once. `refused`: size of an allocation that has just failed; as much
  /// as possible of it is free when tick() returns. Returns the governor's actions.
  GovernorActions tick(Bytes refused = 0_B);

  [[nodiscard]] PressureControllerStats stats() const;

 private:
  struct State;
  void run(const std::stop_token& stop);
  explicit PressureController(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
