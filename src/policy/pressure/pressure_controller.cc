// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <stop_token>
#include <thread>
#include <utility>

#include "afterimage/pressure.h"
#include "foundation/platform/heap.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "policy/pressure/governor.h"

namespace afterimage {
namespace {

// Smaller releases do not justify a walk over the heap.
constexpr Bytes kMinReturnedBytes = 1_MiB;
// While memory is short: requests fragment the heap by tens of megabytes per second.
constexpr Duration kReturnInterval = std::chrono::milliseconds(250);
constexpr std::size_t kMaxReleases = 1000;
constexpr std::uint64_t kDefaultReserveDivisor = 16;  // the reserve is the memory divided by this

}  // namespace

struct PressureController::State {
  State(const PressureOptions& chosen, SharedBudget& shared, const Clock& controller_clock)
      : gauge(chosen.gauge),
        options(chosen.governor),
        cap(shared.budget().capacity()),
        caches(shared),
        budget(shared.budget()),
        clock(controller_clock),
        return_memory(chosen.return_memory != nullptr ? chosen.return_memory
                                                      : &return_free_memory) {
    stats.gauge = gauge->name();
    stats.lowest_budget = cap;
  }

  void record(const GovernorActions& actions, const MemoryRelease& release, Bytes idle, bool read)
      AFI_REQUIRES(tick_mutex);
  /// What was not used for longer than the mode allows. Returns the bytes freed.
  Bytes evict_idle(const GovernorActions& actions, Duration now) AFI_REQUIRES(tick_mutex);

  const std::shared_ptr<PressureGauge> gauge;
  const GovernorOptions options;
  const Bytes cap;  // the budget's capacity at creation
  SharedBudget& caches;
  MemoryBudget& budget;  // of the caches
  const Clock& clock;
  void (*const return_memory)();

  Mutex tick_mutex;
  GovernorState governed AFI_GUARDED_BY(tick_mutex);
  Bytes in_use AFI_GUARDED_BY(tick_mutex);  // bytes that could not be evicted
  Duration returned_at AFI_GUARDED_BY(tick_mutex){0};

  mutable Mutex stats_mutex;
  PressureControllerStats stats AFI_GUARDED_BY(stats_mutex);

  Mutex wait_mutex;
  TimedCondition woken;
  std::jthread thread;  // last: it uses all of the above
};

PressureController::PressureController(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<PressureController>> PressureController::create(
    const PressureOptions& options, SharedBudget& caches, const Clock& clock) {
  if (options.gauge == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "a pressure controller needs a gauge: set PressureOptions::gauge");
  }
  PressureOptions chosen = options;
  if (chosen.governor.reserve == 0_B) {
    AFI_TRY(const GaugeReading shown, chosen.gauge->read());
    chosen.governor.reserve =
        Bytes(std::max<Bytes::rep>(shown.total.value() / kDefaultReserveDivisor, 1));
  }
  // The governor subtracts the reserve from the cap. Raise its cap by the reserve, so that the
  // reserve limits our share of free memory and not the configured budget.
  const Bytes cap = caches.budget().capacity();
  chosen.governor.cap = cap + std::min(chosen.governor.reserve, Bytes::max() - cap);
  if (!chosen.governor.blind_cap.has_value()) chosen.governor.blind_cap = Bytes(cap.value() / 2);
  AFI_TRY_VOID(check(chosen.governor));
  std::unique_ptr<PressureController> controller(
      new PressureController(std::make_unique<State>(chosen, caches, clock)));
  controller->tick();
  if (options.own_thread) {
    controller->state_->thread =
        std::jthread([it = controller.get()](const std::stop_token& stop) { it->run(stop); });
  }
  return controller;
}

PressureController::~PressureController() {
  state_->thread = {};  // joins the thread while everything it uses still exists
}

GovernorActions PressureController::tick(Bytes refused) {
  const MutexLock lock(state_->tick_mutex);
  const Bytes used = state_->budget.used();
  GovernorInputs inputs{.ledger = {.used = used, .evictable = sub_sat(used, state_->in_use)},
                        .refused = refused};
  const bool read = take_reading(*state_->gauge, state_->clock, inputs).has_value();
  GovernorStep next = step(state_->governed, inputs, state_->options);
  state_->governed = std::move(next.state);
  // Block before evicting, so that nothing takes the freed space; unblock afterwards.
  const bool blocked = !next.actions.admits;
  if (blocked) state_->caches.block_admission(true);
  const Bytes idle = state_->evict_idle(next.actions, inputs.now);
  // The governor's extrapolation stops growth but evicts nothing: it may be wrong. So what fits into the memory unused by others, less the reserve, may stay.
  const Bytes unused_by_others = sub_sat(next.actions.budget, state_->options.reserve);
  const Bytes budget = std::min(
      state_->cap,
      std::max(next.actions.target, std::min(unused_by_others, state_->budget.capacity())));
  state_->budget.set_capacity(budget);
  MemoryRelease release{.at = inputs.now, .bytes = state_->caches.obey(), .budget = budget};
  const bool again = next.actions.mode >= PressureMode::kCritical &&
                     inputs.now - state_->returned_at >= kReturnInterval;
  if (release.bytes + idle >= kMinReturnedBytes || again) {
    state_->return_memory();
    state_->returned_at = inputs.now;
  }
  release.left = state_->budget.used();
  state_->in_use = release.left > release.budget ? release.left : 0_B;
  if (!blocked) state_->caches.block_admission(false);
  release.took = state_->clock.now() - inputs.now;
  state_->record(next.actions, release, idle, read);
  return next.actions;
}

Bytes PressureController::State::evict_idle(const GovernorActions& actions, Duration now) {
  std::optional<Duration> limit = actions.expire_idle;
  if (actions.offload_idle.has_value()) {
    limit = std::min(limit.value_or(Duration::max()), *actions.offload_idle);
  }
  if (!limit.has_value() || *limit > now) return 0_B;
  return caches.evict_idle(now - *limit);
}

void PressureController::State::record(const GovernorActions& actions, const MemoryRelease& release,
                                       Bytes idle, bool read) {
  const MutexLock lock(stats_mutex);
  ++stats.ticks;
  stats.failed_readings += read ? 0 : 1;
  stats.transitions += stats.mode == actions.mode ? 0 : 1;
  stats.blocked_ticks += !actions.admits ? 1 : 0;
  stats.mode = actions.mode;
  stats.trust = actions.trust;
  if (governed.last.has_value()) stats.memory = governed.last->total;
  stats.external = governed.external;
  stats.budget = release.budget;
  stats.lowest_budget = std::min(stats.lowest_budget, release.budget);
  stats.longest_tick = std::max(stats.longest_tick, release.took);
  stats.idle += idle;
  if (release.bytes == 0_B) return;
  stats.given_back += release.bytes;
  if (stats.releases.size() < kMaxReleases) stats.releases.push_back(release);
}

PressureControllerStats PressureController::stats() const {
  const MutexLock lock(state_->stats_mutex);
  return state_->stats;
}

void PressureController::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [&] {
    const MutexLock lock(state_->wait_mutex);
    state_->woken.notify_all();
  });
  while (!stop.stop_requested()) {
    const Duration pause = tick().next_step;
    const MutexLock lock(state_->wait_mutex);
    state_->woken.wait_for(state_->wait_mutex, pause, [&] { return stop.stop_requested(); });
  }
}

}  // namespace afterimage
