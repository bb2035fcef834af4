// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/library_memory.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

namespace afterimage {
namespace {

constexpr std::size_t kLarge = std::size_t{8} << 20U;  // bytes
constexpr int kPopulateWrite =
    23;  // MADV_POPULATE_WRITE, since Linux 5.14; not in every libc's headers

decltype(ggml_backend_buffer_type_i::alloc_buffer) library_allocates = nullptr;

void unmap(ggml_backend_buffer_t buffer) { ::munmap(buffer->context, buffer->size); }

/// KV is cleared where it is allocated, when no page is there yet. Whatever is there is given back, and comes
/// again with zeros. False: the kernel doesn't bring all of it at once.
bool renew_pages(void* at, std::size_t size) {
  if (::madvise(at, size, MADV_DONTNEED) != 0) return false;
  static_cast<void>(::madvise(at, size, MADV_HUGEPAGE));  // if there are any
  return ::madvise(at, size, kPopulateWrite) == 0;
}

void fill(ggml_backend_buffer_t buffer, std::uint8_t value) {
  std::memset(buffer->context, value, buffer->size);
}

/// Pages that are there are cleared where they are: requests clear memory, too, and must not lose it meanwhile.
void clear_first(ggml_backend_buffer_t buffer, std::uint8_t value) {
  buffer->iface.clear = fill;
  if (value != 0 || !renew_pages(buffer->context, buffer->size)) fill(buffer, value);
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
