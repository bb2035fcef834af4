// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/governor.h"
#include "afterimage/memory_budget.h"
#include "afterimage/pressure_gauge.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

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
