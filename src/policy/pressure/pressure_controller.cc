// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/pressure_controller.h"

#include <algorithm>
#include <utility>

namespace afterimage {
namespace {

// Smaller releases do not justify a walk over the heap.
constexpr Bytes kMinReturnedBytes = 1_MiB;
// While memory is short: requests fragment the heap by tens of megabytes per second.
constexpr Duration kReturnInterval = std::chrono::milliseconds(250);
constexpr std::size_t kMaxReleases = 1000;
constexpr std::uint64_t kDefaultReserveDivisor = 16;  // the reserve is the memory divided by this

}  // namespace

PressureController::PressureController(const PressureOptions& options, SharedBudget& caches,
                                       const Clock& clock)
    : gauge_(options.gauge),
      options_(options.governor),
      cap_(caches.budget().capacity()),
      caches_(caches),
      budget_(caches.budget()),
      clock_(clock),
      return_memory_(options.return_memory) {
  stats_.gauge = gauge_->name();
  stats_.lowest_budget = cap_;
}

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
  std::unique_ptr<PressureController> controller(new PressureController(chosen, caches, clock));
  controller->tick();
  if (options.own_thread) {
    controller->thread_ =
        std::jthread([it = controller.get()](const std::stop_token& stop) { it->run(stop); });
  }
  return controller;
}

PressureController::~PressureController() = default;

GovernorActions PressureController::tick(Bytes refused) {
  const MutexLock lock(tick_mutex_);
  const Bytes used = budget_.used();
  GovernorInputs inputs{.ledger = {.used = used, .clean = sub_sat(used, in_use_), .cleaning = {}},
                        .refused = refused};
  const bool read = take_reading(*gauge_, clock_, inputs).has_value();
  GovernorStep next = step(state_, inputs, options_);
  state_ = std::move(next.state);
  // Block before evicting, so that nothing takes the freed space; unblock afterwards.
  const bool blocked = next.actions.admission == Admission::kBlocked;
  if (blocked) caches_.block_admission(true);
  // The governor's extrapolation stops growth but evicts nothing, because these entries have no
  // copy below. So what fits into the memory unused by others, less the reserve, may stay.
  const Bytes unused_by_others = sub_sat(next.actions.budget, options_.reserve);
  const Bytes budget =
      std::min(cap_, std::max(next.actions.target, std::min(unused_by_others, budget_.capacity())));
  budget_.set_capacity(budget);
  GaveBack release{.at = inputs.now, .bytes = caches_.obey(), .budget = budget};
  const bool again =
      next.actions.mode >= PressureMode::kCritical && inputs.now - returned_at_ >= kReturnInterval;
  if (release.bytes >= kMinReturnedBytes || again) {
    return_memory_();
    returned_at_ = inputs.now;
  }
  release.left = budget_.used();
  in_use_ = release.left > release.budget ? release.left : 0_B;
  if (!blocked) caches_.block_admission(false);
  release.took = clock_.now() - inputs.now;
  record(next.actions, release, read);
  return next.actions;
}

void PressureController::record(const GovernorActions& actions, const GaveBack& release,
                                bool read) {
  const MutexLock lock(stats_mutex_);
  ++stats_.ticks;
  stats_.failed_readings += read ? 0 : 1;
  stats_.transitions += stats_.mode == actions.mode ? 0 : 1;
  stats_.blocked_ticks += actions.admission == Admission::kBlocked ? 1 : 0;
  stats_.mode = actions.mode;
  stats_.trust = actions.trust;
  if (state_.last.has_value()) stats_.memory = state_.last->total;
  stats_.external = state_.external;
  stats_.budget = release.budget;
  stats_.lowest_budget = std::min(stats_.lowest_budget, release.budget);
  stats_.longest_tick = std::max(stats_.longest_tick, release.took);
  if (release.bytes == 0_B) return;
  stats_.given_back += release.bytes;
  if (stats_.releases.size() < kMaxReleases) stats_.releases.push_back(release);
}

PressureControllerStats PressureController::stats() const {
  const MutexLock lock(stats_mutex_);
  return stats_;
}

void PressureController::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [&] {
    const MutexLock lock(wait_mutex_);
    woken_.notify_all();
  });
  while (!stop.stop_requested()) {
    const Duration pause = tick().next_step;
    const MutexLock lock(wait_mutex_);
    woken_.wait_for(wait_mutex_, pause, [&] { return stop.stop_requested(); });
  }
}

}  // namespace afterimage
