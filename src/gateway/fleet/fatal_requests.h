// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

/// SHA-256 of what a replica gets of a request: its path and its body.
using RequestDigest = Digest<struct RequestDigestTag>;
[[nodiscard]] RequestDigest request_digest(const BackendRequest& request);

struct FatalRequest {
  RequestDigest digest;
  std::string model;    // empty: unknown
  std::string replica;  // the last one that died
  std::uint32_t deaths = 0;
  Duration last{0};         // when
  Duration refused_for{0};  // from now on; 0: it may be sent. Only of newest()
};

/// Requests whose replica died while it ran. One that ended two is refused, for as long as `refusal`
/// after the last death: retries of clients must not end the rest of the fleet. Requests that only
/// ran beside it are remembered, too, until a replica answers them.
///
/// Threads  Any.
class FatalRequests {
 public:
  static constexpr std::uint32_t kDeaths = 2;
  static constexpr std::size_t kMost = 4096;  // then the oldest is forgotten
  /// Equal requests that ran at a replica when it died are found within so long, and it does not run
  /// again that soon.
  static constexpr Duration kOneDeath = std::chrono::seconds(2);

  /// 0: none is refused.
  void set_refusal(Duration refusal);
  /// Returns how many replicas it has ended. Clients that sent the same at once saw one death.
  std::uint32_t died(const RequestDigest& digest, std::string model, std::string replica,
                     Duration now);
  /// A replica answered it: it was not the cause.
  void answered(const RequestDigest& digest);
  /// How long it is still refused; nullopt: it may be sent. Counts the refusal.
  [[nodiscard]] std::optional<Duration> refused_for(const RequestDigest& digest, Duration now);
  /// Then nobody needs a digest.
  [[nodiscard]] bool is_empty() const { return size_ == 0; }

  [[nodiscard]] std::uint64_t deaths() const;   // requests whose replica died
  [[nodiscard]] std::uint64_t refused() const;  // requests
  /// Those that are remembered, the newest first, at most `most`.
  [[nodiscard]] std::vector<FatalRequest> newest(std::size_t most, Duration now) const;

 private:
  using Order = std::list<FatalRequest>;  // the newest first
  [[nodiscard]] Duration left(const FatalRequest& request, Duration now) const AFI_REQUIRES(mutex_);
  void forget_old(Duration now) AFI_REQUIRES(mutex_);
  void erase(Order::iterator which) AFI_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Duration refusal_ AFI_GUARDED_BY(mutex_) = std::chrono::minutes(5);
  Order order_ AFI_GUARDED_BY(mutex_);
  std::unordered_map<RequestDigest, Order::iterator, DigestHash> known_ AFI_GUARDED_BY(mutex_);
  std::uint64_t deaths_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t refused_ AFI_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> size_ = 0;
};

}  // namespace afterimage
