// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/fault_points.h"

#if AFTERIMAGE_FIRE

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace afterimage {
namespace {

constexpr std::chrono::milliseconds kHeldUp{20};

/// Head of the list of sites, which register before main() in no defined order.
FaultSite*& first_site() {
  static FaultSite* first = nullptr;
  return first;
}

}  // namespace

FaultSite::FaultSite(const char* name, Kind kind) : name_(name), kind_(kind), next_(first_site()) {
  first_site() = this;
}

std::vector<FaultSite*> FaultSite::all() {
  std::vector<FaultSite*> sites;
  for (FaultSite* site = first_site(); site != nullptr; site = site->next_) sites.push_back(site);
  std::ranges::sort(sites, {}, &FaultSite::name);
  return sites;
}

FaultSite* FaultSite::find(std::string_view name) {
  for (FaultSite* site = first_site(); site != nullptr; site = site->next_) {
    if (site->name() == name) return site;
  }
  return nullptr;
}

void FaultSite::arm(Action action, std::uint64_t n) {
  action_ = action;
  at_ = passes_ + n;
}

FaultSite::Action FaultSite::due() {
  const std::uint64_t pass = passes_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (pass != at_.load(std::memory_order_relaxed)) return Action::kNone;
  const Action action = action_;
  if (action == Action::kKill) {
    ::kill(::getpid(), SIGKILL);
    ::pause();
  }
  if (action == Action::kSleep) std::this_thread::sleep_for(kHeldUp);
  return action;
}

void FaultSite::pass() { static_cast<void>(due()); }

Result<void> FaultSite::pass_or_fail() {
  if (due() != Action::kFail) return {};
  return afterimage::fail(ErrorCode::kUnavailable, std::string("fault injected at ") + name_);
}

}  // namespace afterimage

#endif
