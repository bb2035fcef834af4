// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "afterimage/result.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

/// Makes one process compute what several lack, while the others wait for it and load it. The same
/// steps serve encoder outputs, KV prefixes and answers.
///
///   miss → step(): kCompute → compute, store, drop the lease
///                  kUse     → it is here now
///                  kWait    → run(), or step() again after a while
///
/// Errors   Those of `look`; run(): kCancelled once `stop` is requested.
/// Threads  Not thread-safe: one request's.
class LeaseLoop {
 public:
  enum class Next : unsigned char { kCompute, kUse, kWait };
  /// What a look into the shared tier found. kSome: what is still missing has another lease.
  enum class Found : unsigned char { kNothing, kSome, kAll };

  /// When `look` is called: before a claim, and again after one that succeeded; or after each claim
  /// only, for claims that look the entries up in the same round trip (LeaseService::Prefetched).
  enum class Looks : unsigned char { kBeforeClaims, kWithClaims };

  explicit LeaseLoop(Looks looks = Looks::kBeforeClaims) : looks_(looks) {}

  /// Claims the lease of what is missing. A claim of status kUnavailable: compute without a lease.
  using Claim = std::function<LeaseService::Claim()>;
  /// Looks into the shared tier again and takes what it finds.
  using Look = std::function<Result<Found>()>;

  /// Claims once. kBeforeClaims: looks first if others were waited for, and again after a claim that
  /// succeeded: the holder before us may have stored it since the last look.
  Result<Next> step(const Claim& claim, const Look& look);

  /// Blocks until there is something to compute or to use. Waits as long as `leases` and `may_wait`
  /// allow, then says kCompute without a lease. Begins with a wait if the last step said kWait.
  Result<Next> run(LeaseService& leases, const Claim& claim, const Look& look,
                   const std::stop_token& stop, const std::function<bool()>& may_wait = {});

  /// Between a step that said kWait and the next one, for callers that do not block.
  void note_wait() { ++waits_; }
  [[nodiscard]] std::uint32_t waits() const { return waits_; }

  /// After kCompute. nullptr: no other process waits.
  [[nodiscard]] std::unique_ptr<Lease> take_lease() { return std::move(lease_); }

 private:
  Looks looks_;
  std::unique_ptr<Lease> lease_;
  std::uint32_t waits_ = 0;
  Next last_ = Next::kUse;
};

}  // namespace afterimage
