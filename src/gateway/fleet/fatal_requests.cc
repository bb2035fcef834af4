// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fatal_requests.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

/// Deaths that are further apart are not the same request's doing.
constexpr Duration kRemembered = std::chrono::hours(1);

}  // namespace

RequestDigest request_digest(const BackendRequest& request) {
  constexpr char kEnd = '\0';
  Sha256 hash;
  hash.update(std::as_bytes(std::span(request.target)));
  hash.update(std::as_bytes(std::span(&kEnd, 1)));
  if (request.body != nullptr) hash.update(std::as_bytes(std::span(*request.body)));
  return {hash.finish()};
}

void FatalRequests::set_refusal(Duration refusal) {
  const MutexLock lock(mutex_);
  refusal_ = refusal;
}

void FatalRequests::erase(Order::iterator which) {
  known_.erase(which->digest);
  order_.erase(which);
  size_ = order_.size();
}

void FatalRequests::forget_old(Duration now) {
  const Duration kept = std::max(kRemembered, refusal_);
  while (!order_.empty() && (order_.size() > kMost || now - order_.back().last > kept)) {
    erase(std::prev(order_.end()));
  }
}

std::uint32_t FatalRequests::died(const RequestDigest& digest, std::string model,
                                  std::string replica, Duration now) {
  const MutexLock lock(mutex_);
  ++deaths_;
  forget_old(now);
  const auto [known, is_new] = known_.try_emplace(digest, order_.end());
  if (is_new) {
    order_.push_front({.digest = digest, .model = std::move(model)});
    known->second = order_.begin();
  } else {
    order_.splice(order_.begin(), order_, known->second);
  }
  FatalRequest& request = order_.front();
  const bool is_same_death = request.replica == replica && now - request.last < kOneDeath;
  request.replica = std::move(replica);
  request.last = now;
  if (!is_same_death) ++request.deaths;
  const std::uint32_t deaths = request.deaths;
  size_ = order_.size();
  forget_old(now);
  return deaths;
}

void FatalRequests::answered(const RequestDigest& digest) {
  const MutexLock lock(mutex_);
  const auto known = known_.find(digest);
  if (known != known_.end()) erase(known->second);
}

Duration FatalRequests::left(const FatalRequest& request, Duration now) const {
  if (request.deaths < kDeaths) return Duration(0);
  return std::max(Duration(0), request.last + refusal_ - now);
}

std::optional<Duration> FatalRequests::refused_for(const RequestDigest& digest, Duration now) {
  const MutexLock lock(mutex_);
  forget_old(now);
  const auto known = known_.find(digest);
  if (known == known_.end()) return std::nullopt;
  const Duration still = left(*known->second, now);
  if (still <= Duration(0)) return std::nullopt;
  ++refused_;
  return still;
}

std::uint64_t FatalRequests::deaths() const {
  const MutexLock lock(mutex_);
  return deaths_;
}

std::uint64_t FatalRequests::refused() const {
  const MutexLock lock(mutex_);
  return refused_;
}

std::vector<FatalRequest> FatalRequests::newest(std::size_t most, Duration now) const {
  const MutexLock lock(mutex_);
  std::vector<FatalRequest> some;
  for (const FatalRequest& request : order_) {
    if (some.size() == most) break;
    some.push_back(request);
    some.back().refused_for = left(request, now);
  }
  return some;
}

}  // namespace afterimage
