// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/page_memory.h"

namespace afterimage {

std::optional<PageMemory::Pages> PageMemory::find(const Key& key) {
  const MutexLock lock(mutex_);
  const auto it = kept_.find(key);
  if (it == kept_.end()) return std::nullopt;
  by_use_.splice(by_use_.begin(), by_use_, it->second.place);
  return it->second.pages;
}

void PageMemory::keep(const Key& key, const Pages& pages) {
  Bytes size(0);
  for (const FileBytes& page : pages) size += Bytes(page->size());
  const MutexLock lock(mutex_);
  if (size > capacity_ || kept_.contains(key)) return;
  while (used_ + size > capacity_) {
    const auto oldest = kept_.find(by_use_.back());
    used_ -= oldest->second.size;
    kept_.erase(oldest);
    by_use_.pop_back();
  }
  by_use_.push_front(key);
  kept_.emplace(key, Kept{.pages = pages, .size = size, .place = by_use_.begin()});
  used_ += size;
}

}  // namespace afterimage
