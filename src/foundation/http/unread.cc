// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/unread.h"

#include <utility>

#include "foundation/platform/fault_points.h"

namespace afterimage {

UnreadResponses::Wait::Wait(UnreadResponses& all, std::function<void()> cut) : all_(all) {
  const MutexLock lock(all_.mutex_);
  age_ = all_.ages_++;
  all_.all_[age_].cut = std::move(cut);
}

UnreadResponses::Wait::~Wait() {
  const MutexLock lock(all_.mutex_);
  const auto it = all_.all_.find(age_);
  all_.release(it->second);
  all_.all_.erase(it);
}

void UnreadResponses::Wait::waits(std::size_t own, HeldBytes shared, Bytes limit) {
  std::vector<std::function<void()>> ends;
  {
    const MutexLock lock(all_.mutex_);
    Waiting& mine = all_.all_.at(age_);
    if (!mine.cut) return;  // it ends already
    all_.release(mine);
    mine.own = own;
    mine.shared = shared.what;
    mine.waits = true;
    ++all_.waiting_;
    all_.bytes_ += own;
    if (shared.what != nullptr) {
      Shared& one = all_.shared_[shared.what];
      ++one.holders;
      all_.bytes_ += shared.bytes - one.bytes;
      one.bytes = shared.bytes;
    }
    if (AFI_STEP("unread.limit")) ends = all_.take_oldest(limit);
  }
  for (const auto& end : ends) end();
}

void UnreadResponses::Wait::goes_on() {
  const MutexLock lock(all_.mutex_);
  all_.release(all_.all_.at(age_));
}

void UnreadResponses::release(Waiting& waiting) {
  if (!std::exchange(waiting.waits, false)) return;
  --waiting_;
  bytes_ -= std::exchange(waiting.own, 0);
  const auto shared = shared_.find(std::exchange(waiting.shared, nullptr));
  if (shared == shared_.end() || --shared->second.holders > 0) return;
  bytes_ -= shared->second.bytes;
  shared_.erase(shared);
}

std::vector<std::function<void()>> UnreadResponses::take_oldest(Bytes limit) {
  std::vector<std::function<void()>> ends;
  for (auto& [age, waiting] : all_) {
    if (bytes_ <= limit.value() || waiting_ <= 1) break;
    if (!waiting.waits) continue;
    release(waiting);
    ends.push_back(std::exchange(waiting.cut, nullptr));
    ++cut_;
  }
  return ends;
}

Bytes UnreadResponses::bytes() const {
  const MutexLock lock(mutex_);
  return Bytes(bytes_);
}

std::uint64_t UnreadResponses::cut() const {
  const MutexLock lock(mutex_);
  return cut_;
}

}  // namespace afterimage
