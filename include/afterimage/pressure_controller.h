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
  /// Nobody else reads it while it is watched. nullptr: nobody governs, and the budget stands.
  std::shared_ptr<PressureGauge> gauge;
  /// `cap` is the budget's capacity, whatever stands here; a reserve of 0 is a sixteenth of the
  /// memory that the gauge shows at the start.
  GovernorOptions governor;
  /// Ticks on a thread of its own; false: whoever owns the keeper calls tick().
  bool own_thread = true;
  /// Hands back what the allocator keeps of memory that was freed. nullptr: as the C library does it.
  void (*return_memory)() = nullptr;
};

/// One time that the caches gave something back.
struct GaveBack {
  Duration at{0};    // on the keeper's clock: when the gauge had been read
  Duration took{0};  // until the bytes were gone
  Bytes bytes;
  Bytes left;    // held after it
  Bytes budget;  // that it was to get below
};

/// Every counter is of the keeper's whole life.
struct PressureControllerStats {
  std::string gauge;  // its name
  std::uint64_t ticks = 0;
  std::uint64_t failed_readings = 0;
  std::uint64_t transitions = 0;    // of the mode
  std::uint64_t blocked_ticks = 0;  // in which admission was blocked
  PressureMode mode = PressureMode::kRelaxed;
  GaugeTrust trust = GaugeTrust::kNone;
  Bytes memory;         // all there is, as last read; 0: never read
  Bytes external;       // of it, others'
  Bytes budget;         // as of the last tick
  Bytes lowest_budget;  // ever
  Bytes given_back;     // evicted for others' sake
  Duration longest_tick{0};
  std::vector<GaveBack> releases;  // the first thousand
};

/// Watches a memory and keeps the caches within what others leave over of it: reads the gauge, asks
/// the governor, sets the budget, has the caches obey, and opens or blocks their admission.
///
/// What is cached here has no copy below, but all of it can be computed again: whatever is not in
/// use leaves as soon as others need the room or the reserve, and counts as headroom. What did not
/// leave when it had to is in use, and counts as none until it left. What the governor only
/// expects, from growth or from a gauge that went silent, lets nothing grow and costs no entry.
///
/// While memory is short, what the process has freed, whoever held it, is handed back to the system
/// again and again: a heap full of holes grows by as much as the caches gave.
///
/// Promises After a tick, used ≤ budget, but for what is pinned. A gauge that fails, freezes or
/// lies
///          makes nothing grow. What is blocked opens again in calm.
/// Threads  Any. Ticks exclude each other; neither a gauge that hangs nor a long release keeps
///          stats() waiting, nor any request longer than one slice of a release.
/// Cost     A reading (tens of microseconds for /proc), a step, what the evictions cost, and, while
///          memory is short, four walks over the heap a second.
/// Source   src/reuse/DESIGN.md, "Under pressure".
class PressureController {
 public:
  /// `caches` and the clock outlive the keeper. Ticks once.
  /// kInvalidArgument: no gauge, or options that make no governor; kUnavailable: a reserve was to
  /// be measured and the gauge cannot be read.
  static Result<std::unique_ptr<PressureController>> create(const PressureOptions& options,
                                                            SharedBudget& caches,
                                                            const Clock& clock);
  /// Stops the thread; the budget stays as it was last set.
  ~PressureController();
  PressureController(const PressureController&) = delete;
  PressureController& operator=(const PressureController&) = delete;

  /// Looks and acts, once. `refused`: an allocation of so many bytes has just failed for want of
  /// memory; when tick returns, as much has been made free as can be. Returns what was decided.
  GovernorActions tick(Bytes refused = 0_B);

  [[nodiscard]] PressureControllerStats stats() const;

 private:
  struct State;
  void run(const std::stop_token& stop);
  explicit PressureController(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
