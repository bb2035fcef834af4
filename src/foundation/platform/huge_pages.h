// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace afterimage {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

/// Asks the system to back memory that starts at a multiple of kHugePage with huge pages. If the
/// system declines, only speed is lost.
inline void ask_for_huge_pages(void* memory, std::size_t bytes) {
  static_cast<void>(::madvise(memory, bytes, MADV_HUGEPAGE));
}

/// Allocator for large, randomly accessed tables: asks the system to back them with huge pages.
/// With small pages, a look-up in a table of a million entries spends as long on the page walk as
/// on the entry itself. Small allocations, and systems that decline, get ordinary memory.
template <typename T>
class HugePageAllocator {
 public:
  using value_type = T;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>& /*other*/) {}  // NOLINT: an allocator converts

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    if (bytes < kWorthwhile) return static_cast<T*>(::operator new(bytes, small_alignment()));
    void* memory = ::operator new(bytes, std::align_val_t(kHugePage));
    ask_for_huge_pages(memory, bytes);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) {
    ::operator delete(
        memory, n * sizeof(T) < kWorthwhile ? small_alignment() : std::align_val_t(kHugePage));
  }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }

 private:
  static constexpr std::size_t kWorthwhile = 2 * kHugePage;
  static constexpr std::align_val_t small_alignment() {
    return std::align_val_t(alignof(T) < 16 ? 16 : alignof(T));
  }
};

}  // namespace afterimage
