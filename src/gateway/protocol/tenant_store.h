// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Values by id, each visible to its tenant alone. In memory: for at most `ttl`, and while all of them
/// fit `capacity`; then the oldest of the tenant that holds the most leaves, so that nobody is evicted by
/// a tenant that holds more.
///
/// Threads  Any.
template <typename Value>
class TenantStore {
 public:
  using Shared = std::shared_ptr<const Value>;

  /// `clock` outlives it.
  TenantStore(Bytes capacity, Duration ttl, const Clock& clock)
      : capacity_(capacity), ttl_(ttl), clock_(clock) {}

  /// `size` in bytes, of the value. False: it is larger than the capacity, and is not kept.
  bool put(const std::string& tenant, const std::string& id, Shared value, Bytes size) {
    const Bytes charged(size.value() + 2 * (tenant.size() + id.size()) + kOverhead);
    if (charged > capacity_) return false;
    const MutexLock lock(mutex_);
    remove_expired();
    if (find_kept(tenant, id) != nullptr) remove(tenant, id);
    while (bytes_ + charged > capacity_) remove_oldest_of(largest(tenant, charged));
    const std::uint64_t order = ++last_;
    Held& held = tenants_[tenant];
    held.by_age.emplace(order, id);
    held.bytes = held.bytes + charged;
    held.by_id.emplace(id, Kept{.value = std::move(value),
                                .until = clock_.now() + ttl_,
                                .order = order,
                                .size = charged});
    by_age_.emplace(order, std::pair(tenant, id));
    bytes_ = bytes_ + charged;
    return true;
  }

  /// nullptr: the tenant has no such value.
  [[nodiscard]] Shared find(const std::string& tenant, const std::string& id) {
    const MutexLock lock(mutex_);
    remove_expired();
    const Kept* const kept = find_kept(tenant, id);
    return kept == nullptr ? nullptr : kept->value;
  }

  /// False: the tenant has no such value.
  bool erase(const std::string& tenant, const std::string& id) {
    const MutexLock lock(mutex_);
    remove_expired();
    if (find_kept(tenant, id) == nullptr) return false;
    remove(tenant, id);
    return true;
  }

  /// Removes the values for which `chosen(tenant, id, value)` is true; returns how many.
  template <typename Chosen>
  std::uint64_t erase_if(const Chosen& chosen) {
    const MutexLock lock(mutex_);
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& [order, name] : by_age_) {
      if (chosen(name.first, name.second, *find_kept(name.first, name.second)->value)) {
        names.push_back(name);
      }
    }
    for (const auto& [tenant, id] : names) remove(tenant, id);
    return names.size();
  }

  /// The tenant's values, the newest first.
  [[nodiscard]] std::vector<Shared> list(const std::string& tenant) {
    const MutexLock lock(mutex_);
    remove_expired();
    std::vector<Shared> values;
    const auto held = tenants_.find(tenant);
    if (held == tenants_.end()) return values;
    for (const auto& [order, id] : held->second.by_age) {
      values.push_back(held->second.by_id.at(id).value);
    }
    std::ranges::reverse(values);
    return values;
  }

  /// Of all values.
  [[nodiscard]] Bytes bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }
  [[nodiscard]] std::uint64_t size() const {
    const MutexLock lock(mutex_);
    return by_age_.size();
  }
  [[nodiscard]] Duration ttl() const { return ttl_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }

 private:
  static constexpr std::uint64_t kOverhead = 512;  // of a value in the maps

  struct Kept {
    Shared value;
    Duration until{0};
    std::uint64_t order = 0;
    Bytes size;
  };
  struct Held {
    std::map<std::string, Kept, std::less<>> by_id;
    std::map<std::uint64_t, std::string> by_age;
    Bytes bytes;
  };

  const Kept* find_kept(const std::string& tenant, const std::string& id) const
      AFI_REQUIRES(mutex_) {
    const auto held = tenants_.find(tenant);
    if (held == tenants_.end()) return nullptr;
    const auto kept = held->second.by_id.find(id);
    return kept == held->second.by_id.end() ? nullptr : &kept->second;
  }

  /// Copies: the arguments may be part of what is removed.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void remove(std::string tenant, std::string id) AFI_REQUIRES(mutex_) {
    const auto held = tenants_.find(tenant);
    const auto kept = held->second.by_id.find(id);
    bytes_ = bytes_ - kept->second.size;
    held->second.bytes = held->second.bytes - kept->second.size;
    by_age_.erase(kept->second.order);
    held->second.by_age.erase(kept->second.order);
    held->second.by_id.erase(kept);
    if (held->second.by_id.empty()) tenants_.erase(held);
  }

  /// All live equally long, so the oldest expires first.
  void remove_expired() AFI_REQUIRES(mutex_) {
    const Duration now = clock_.now();
    while (!by_age_.empty()) {
      const auto& [tenant, id] = by_age_.begin()->second;
      if (find_kept(tenant, id)->until > now) return;
      remove(tenant, id);
    }
  }

  /// The tenant that would hold the most once `tenant` holds `more`, of those that hold anything.
  const std::string& largest(const std::string& tenant, Bytes more) const AFI_REQUIRES(mutex_) {
    const auto size = [&](const auto& held) {
      return held.first == tenant ? held.second.bytes + more : held.second.bytes;
    };
    auto most = tenants_.begin();
    for (auto held = tenants_.begin(); held != tenants_.end(); ++held) {
      if (size(*held) > size(*most)) most = held;
    }
    return most->first;
  }
  void remove_oldest_of(const std::string& tenant) AFI_REQUIRES(mutex_) {
    remove(tenant, tenants_.find(tenant)->second.by_age.begin()->second);
  }

  const Bytes capacity_;
  const Duration ttl_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, Held, std::less<>> tenants_ AFI_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::pair<std::string, std::string>> by_age_ AFI_GUARDED_BY(mutex_);
  std::uint64_t last_ AFI_GUARDED_BY(mutex_) = 0;
  Bytes bytes_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
