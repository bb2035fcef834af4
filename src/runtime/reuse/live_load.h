// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/encoder_cache.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Sets the floor of an encoder cache to the entries that requests of about the last minute held at a
/// time: entries_in_flight().
///
/// Threads  Any.
class LiveLoad {
 public:
  /// A request that holds entries until it goes. Move-only.
  class [[nodiscard]] Request {
   public:
    Request(LiveLoad& of, std::size_t entries)
        : of_(&of), entries_(entries), began_(of.clock_.now()) {}
    Request(Request&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), entries_(other.entries_), began_(other.began_) {}
    Request& operator=(Request&&) = delete;
    ~Request() {
      if (of_ != nullptr) of_->ended(of_->clock_.now() - began_, entries_);
    }

   private:
    LiveLoad* of_;
    std::size_t entries_;
    Duration began_;
  };

  /// All outlive this.
  LiveLoad(EncoderCache& cache, const Clock& clock)
      : cache_(cache), clock_(clock), began_(clock.now()), at_(began_) {}

 private:
  void ended(Duration held, std::size_t entries) { cache_.set_min_entries(floor(held, entries)); }

  EntryCount floor(Duration held, std::size_t entries) {
    const MutexLock lock(mutex_);
    const Duration now = clock_.now();
    const double kept = std::exp(-seconds(now - at_) / kWindow);
    at_ = now;
    requests_ *= kept;
    held_ *= kept;
    entries_ *= kept;
    if (entries > 0) {
      requests_ += 1;
      held_ += seconds(held);
      entries_ += static_cast<double>(entries);
    }
    // Less than the window while the process is young; a second at least, or one request is a flood.
    const double window = kWindow * (1 - std::exp(-seconds(now - began_) / kWindow));
    if (requests_ < kFewest) return EntryCount(0);
    return entries_in_flight(
        requests_ / std::max(window, 1.0),
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(held_ / requests_)),
        entries_ / requests_);
  }

  static constexpr double kWindow = 60;    // seconds after which a request counts e times less
  static constexpr double kFewest = 0.05;  // what is left of one after three minutes
  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  EncoderCache& cache_;
  const Clock& clock_;
  const Duration began_;
  Mutex mutex_;
  Duration at_ AFI_GUARDED_BY(mutex_);
  // Sums over requests, each less by its age.
  double requests_ AFI_GUARDED_BY(mutex_) = 0;
  double held_ AFI_GUARDED_BY(mutex_) = 0;
  double entries_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
