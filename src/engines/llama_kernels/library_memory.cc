// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/library_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

namespace afterimage {
namespace {

constexpr std::size_t kLarge = std::size_t{8} << 20U;  // bytes
constexpr int kPopulateWrite =
    23;  // MADV_POPULATE_WRITE, since Linux 5.14; not in every libc's headers

decltype(ggml_backend_buffer_type_i::alloc_buffer) library_allocates = nullptr;

bool bring_pages(std::byte* at, std::size_t size) {
  return ::madvise(at, size, kPopulateWrite) == 0;
}

/// Brings the pages of a buffer, working a tenth of the time, so that neither the start nor the first requests wait for
/// it: a virtual machine that has given memory back to its host gets pages slowly.
void bring_all_pages(const std::stop_token& stop, std::byte* at, std::size_t size) {
  constexpr std::size_t kStep = std::size_t{2} << 20U;
  constexpr int kOtherShares = 9;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  for (std::size_t done = 0; done < size; done += kStep) {
    const auto began = std::chrono::steady_clock::now();
    if (!bring_pages(at + done, std::min(kStep, size - done))) return;
    const auto took = std::chrono::steady_clock::now() - began;
    stopped.wait_for(lock, stop, kOtherShares * took, [] { return false; });
    if (stop.stop_requested()) return;
  }
}

/// Threads that bring the pages of buffers, by where these begin.
class PageThreads {
 public:
  /// False: there is none to be had. Throws nothing: the library is written in C.
  bool start(std::byte* at, std::size_t size) noexcept {
    try {
      std::jthread thread(bring_all_pages, at, size);
      const std::scoped_lock lock(mutex_);
      threads_.insert_or_assign(at, std::move(thread));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  /// Returns when it no longer runs.
  void stop(std::byte* at) {
    decltype(threads_)::node_type stopped;  // outside the lock
    const std::scoped_lock lock(mutex_);
    stopped = threads_.extract(at);
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::jthread> threads_;
};

/// Never destroyed: buffers of static objects are freed later.
PageThreads& page_threads() {
  static PageThreads& threads = *new PageThreads;
  return threads;
}

std::byte* start_of(ggml_backend_buffer_t buffer) {
  return static_cast<std::byte*>(buffer->context);
}

void unmap(ggml_backend_buffer_t buffer) {
  page_threads().stop(start_of(buffer));
  ::munmap(buffer->context, buffer->size);
}

/// KV is cleared where it is allocated, when no page is there yet. Whatever is there is given back, and comes
/// again with zeros, when it is used or before.
/// False: the kernel doesn't bring pages.
bool renew_pages(std::byte* at, std::size_t size) {
  if (::madvise(at, size, MADV_DONTNEED) != 0) return false;
  static_cast<void>(::madvise(at, size, MADV_HUGEPAGE));  // if there are any
  if (!bring_pages(at, std::size_t{4} << 10U)) return false;
  return page_threads().start(at, size) || bring_pages(at, size);
}

void fill(ggml_backend_buffer_t buffer, std::uint8_t value) {
  std::memset(buffer->context, value, buffer->size);
}

/// Pages that are there are cleared where they are: requests clear memory, too, and must not lose it meanwhile.
void clear_first(ggml_backend_buffer_t buffer, std::uint8_t value) {
  buffer->iface.clear = fill;
  if (value != 0 || !renew_pages(start_of(buffer), buffer->size)) fill(buffer, value);
}

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t size) {
  if (size < kLarge) return library_allocates(type, size);
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  ggml_backend_buffer_t const buffer = ggml_backend_cpu_buffer_from_ptr(at, size);
  buffer->buft = type;
  buffer->iface.free_buffer = unmap;
  buffer->iface.clear = clear_first;
  return buffer;
}

}  // namespace

void use_fresh_pages() {
  static std::once_flag once;
  std::call_once(once, [] {
    ggml_backend_buffer_type_t const type = ggml_backend_cpu_buffer_type();
    library_allocates = type->iface.alloc_buffer;
    type->iface.alloc_buffer = allocate;
  });
}

}  // namespace afterimage
