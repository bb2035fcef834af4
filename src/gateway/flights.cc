// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/gateway/flights.h"

namespace afterimage {

std::uint64_t Flights::landed() const {
  const MutexLock lock(mutex_);
  return landed_;
}

Flights::Boarded Flights::board(const std::string& key, std::uint64_t landed,
                                const std::function<std::shared_ptr<Flight>()>& start) {
  const MutexLock lock(mutex_);
  const auto there = flights_.find(key);
  if (there != flights_.end()) return {.seat = there->second->join(), .leads = false};
  if (landed_ != landed) return {};
  const auto flight = start();
  flights_.emplace(key, flight);
  return {.seat = flight->join(), .leads = true};
}

void Flights::remove(const std::string& key, const Flight* flight) {
  std::shared_ptr<Flight> gone;  // ends after the lock
  const MutexLock lock(mutex_);
  const auto there = flights_.find(key);
  if (there == flights_.end() || there->second.get() != flight) return;
  gone = std::move(there->second);
  flights_.erase(there);
  ++landed_;
}

std::size_t Flights::size() const {
  const MutexLock lock(mutex_);
  return flights_.size();
}

}  // namespace afterimage
