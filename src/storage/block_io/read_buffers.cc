// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/block_io/read_buffers.h"

#include <utility>

namespace afterimage {

Result<std::shared_ptr<AlignedBytes>> ReadBuffers::take(std::size_t size, MemoryBudget& room) {
  std::shared_ptr<AlignedBytes> buffer;
  {
    const MutexLock lock(mutex_);
    buffer = find(size);
  }
  if (buffer != nullptr) {
    // The buffer is charged twice for a moment rather than not at all. If the reader's budget is
    // too small for it, a new, smaller buffer may still fit.
    auto paid = room.reserve(Bytes(buffer->bytes().size()));
    if (paid) {
      buffer->charge(*std::move(paid));
    } else {
      buffer.reset();
    }
  }
  if (buffer == nullptr) {
    AFI_TRY(buffer, AlignedBytes::create(size, room));
  }
  AlignedBytes* const raw = buffer.get();
  return std::shared_ptr<AlignedBytes>(
      raw, [pool = weak_from_this(), own = std::move(buffer)](AlignedBytes*) mutable {
        if (const auto home = pool.lock()) home->give_back(std::exchange(own, nullptr));
        own.reset();
      });
}

std::shared_ptr<AlignedBytes> ReadBuffers::find(std::size_t size) {
  const auto large_enough = [size](const auto& buffer) {
    const std::size_t has = buffer->bytes().size();
    return has >= size && has - size <= size / 4;
  };
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if (large_enough(*it) &&
        (best == idle_.end() || (*it)->bytes().size() <= (*best)->bytes().size())) {
      best = it;
    }
  }
  if (best == idle_.end()) return nullptr;
  std::shared_ptr<AlignedBytes> found = std::move(*best);
  idle_.erase(best);
  held_ -= Bytes(found->bytes().size());
  return found;
}

void ReadBuffers::give_back(std::shared_ptr<AlignedBytes> buffer) {
  const Bytes size(buffer->bytes().size());
  std::deque<std::shared_ptr<AlignedBytes>> leaving;  // freed outside the lock
  const MutexLock lock(mutex_);
  if (size > most_) return;
  auto paid = budget_.reserve(size);
  if (!paid) return;
  buffer->charge(*std::move(paid));
  idle_.push_back(std::move(buffer));
  held_ += size;
  while (held_ > most_) {
    held_ -= Bytes(idle_.front()->bytes().size());
    leaving.push_back(std::move(idle_.front()));
    idle_.pop_front();
  }
}

void ReadBuffers::release() {
  std::deque<std::shared_ptr<AlignedBytes>> leaving;
  const MutexLock lock(mutex_);
  leaving.swap(idle_);
  held_ = 0_B;
}

void ReadBuffers::close() {
  {
    const MutexLock lock(mutex_);
    most_ = 0_B;
  }
  release();
}

Bytes ReadBuffers::idle() const {
  const MutexLock lock(mutex_);
  return held_;
}

}  // namespace afterimage
