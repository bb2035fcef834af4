// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/units.h"

namespace afterimage {

/// How a call of a replica failed, or did not.
enum class CallResult : unsigned char {
  kAnswered,
  kConnection,  // nothing listens, or it died
  kTimeout,     // no response in time
  kStatus,      // 500, 502, 503, 504, or broken off by one that lives
  kBusy,        // 429: says nothing of its health
  kCancelled,   // the client left: says nothing, either
};

/// Whether a replica may be sent requests. One that fails is ejected for a time that doubles with
/// each ejection in a row, up to a minute; then it gets one request on trial, and is well again if
/// that is answered. Probes eject a replica that does not answer them, and end the ejection of one
/// that does.
///
/// Threads  Not thread-safe.
class ReplicaHealth {
 public:
  static constexpr Duration kFirstEjection = std::chrono::seconds(1);
  static constexpr Duration kLongestEjection = std::chrono::minutes(1);
  static constexpr std::uint32_t kStatusFailures = 5;
  static constexpr std::uint32_t kTimeouts = 2;
  static constexpr std::uint32_t kProbeFailures = 2;

  /// `may_eject`: false if no other replica is available, and this one at least answers: then
  /// statuses do not eject it, so that requests that break every replica do not eject all.
  void called(CallResult result, Duration now, bool may_eject);
  void probed(bool answered, Duration now);

  [[nodiscard]] bool ejected(Duration now) const { return is_ejected_ && now < until_; }
  /// Its ejection is over, and no request has been answered since.
  [[nodiscard]] bool on_trial(Duration now) const { return is_ejected_ && now >= until_; }
  [[nodiscard]] Duration ejected_until() const { return until_; }
  [[nodiscard]] std::uint64_t ejections() const { return ejections_; }

 private:
  void eject(Duration now);
  void recover(Duration now);

  bool is_ejected_ = false;
  bool by_connection_ = false;  // or by a probe: an answered probe ends it
  Duration until_{0};
  Duration last_{0};  // its length
  Duration well_since_{0};
  std::uint32_t failures_ = 0;  // statuses in a row
  std::uint32_t timeouts_ = 0;
  std::uint32_t probe_failures_ = 0;
  std::uint64_t ejections_ = 0;
};

/// Limits retries to a share of the requests, and a few, in about the last minute: when every
/// replica fails, retries must not multiply the load.
///
/// Threads  Not thread-safe.
class RetryBudget {
 public:
  static constexpr double kFew = 10;

  void set_share(double share) { share_ = share; }
  void requested(Duration now) {
    decay(now);
    requests_ += 1;
  }
  /// True: the retry is counted and may be made.
  [[nodiscard]] bool take(Duration now);

 private:
  void decay(Duration now);

  double share_ = 0.2;
  double requests_ = 0;
  double retries_ = 0;
  Duration at_{0};
};

}  // namespace afterimage
