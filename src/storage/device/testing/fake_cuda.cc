// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/device/testing/fake_cuda.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using Address = std::uint64_t;

struct Copy {
  Address from;
  Address to;
  std::uint64_t size;
};

/// Work is done when somebody waits for it, as late as a GPU may.
struct Stream {
  std::vector<std::function<int()>> work;
};

struct Gpu {
  std::mutex mutex;
  std::size_t total = std::size_t{1} << 30U;
  std::size_t others = 0;
  std::size_t allocated = 0;
  std::map<Address, std::vector<std::byte>> memory;
  std::map<Address, std::size_t> pinned;
  std::map<std::string, int> failing;
};

Gpu& gpu() {
  static Gpu one;
  return one;
}

/// Host memory of a range that lies in one allocation; nullptr: it does not.
std::byte* at(Address address, std::size_t size) {
  auto& memory = gpu().memory;
  const auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  auto& [start, bytes] = *std::prev(after);
  const std::size_t offset = address - start;
  if (offset > bytes.size() || size > bytes.size() - offset) return nullptr;
  return bytes.data() + offset;
}

/// Whether all of it is pinned: asynchronous copies need that.
bool is_pinned(const void* memory, std::size_t size) {
  const auto address = reinterpret_cast<Address>(memory);
  const auto after = gpu().pinned.upper_bound(address);
  if (after == gpu().pinned.begin()) return false;
  const auto& [start, all] = *std::prev(after);
  return address - start <= all && size <= all - (address - start);
}

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kIllegalAddress = 700;
constexpr int kMisalignedAddress = 716;

int failure_of(const char* function) {
  const auto found = gpu().failing.find(function);
  return found == gpu().failing.end() ? 0 : found->second;
}

int copy_bytes(void* to, const void* from, std::size_t size) {
  if (to == nullptr || from == nullptr) return kIllegalAddress;
  std::memmove(to, from, size);
  return 0;
}

int later(void* stream, std::function<int()> work) {
  static_cast<Stream*>(stream)->work.push_back(std::move(work));
  return 0;
}

}  // namespace

#define FAKE_CUDA_CALL(name)               \
  const std::lock_guard lock(gpu().mutex); \
  if (const int code = failure_of(#name); code != 0) return code

extern "C" {

int cuInit(unsigned) {
  FAKE_CUDA_CALL(cuInit);
  return 0;
}
int cuDeviceGet(int* device, int index) {
  FAKE_CUDA_CALL(cuDeviceGet);
  *device = index;
  return index == 0 ? 0 : 101;  // CUDA_ERROR_INVALID_DEVICE
}
int cuDeviceGetName(char* name, int size, int) {
  FAKE_CUDA_CALL(cuDeviceGetName);
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return 0;
}
int cuGetErrorString(int code, const char** words) {
  *words = code == kOutOfMemory ? "out of memory" : "fake error";
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  FAKE_CUDA_CALL(cuDevicePrimaryCtxRetain);
  *context = &gpu();
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(void* context) { return context == &gpu() ? 0 : 201; }
int cuCtxPopCurrent_v2(void** context) {
  *context = &gpu();
  return 0;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  FAKE_CUDA_CALL(cuMemGetInfo_v2);
  *total = gpu().total;
  *free = gpu().total - std::min(gpu().total, gpu().others + gpu().allocated);
  return 0;
}
int cuMemAlloc_v2(Address* memory, std::size_t size) {
  FAKE_CUDA_CALL(cuMemAlloc_v2);
  if (gpu().others + gpu().allocated + size > gpu().total) return kOutOfMemory;
  std::vector<std::byte> bytes(size, std::byte{0xA5});
  *memory = reinterpret_cast<Address>(bytes.data());
  gpu().memory.emplace(*memory, std::move(bytes));
  gpu().allocated += size;
  return 0;
}
int cuMemFree_v2(Address memory) {
  const std::lock_guard lock(gpu().mutex);
  const auto found = gpu().memory.find(memory);
  if (found == gpu().memory.end()) return kInvalidValue;
  gpu().allocated -= found->second.size();
  gpu().memory.erase(found);
  return 0;
}
int cuMemHostAlloc(void** memory, std::size_t size, unsigned) {
  FAKE_CUDA_CALL(cuMemHostAlloc);
  *memory = ::operator new(size, std::align_val_t{4096});
  gpu().pinned[reinterpret_cast<Address>(*memory)] = size;
  return 0;
}
int cuMemFreeHost(void* memory) {
  const std::lock_guard lock(gpu().mutex);
  gpu().pinned.erase(reinterpret_cast<Address>(memory));
  ::operator delete(memory, std::align_val_t{4096});
  return 0;
}
int cuPointerGetAttribute(void* value, int, Address address) {
  FAKE_CUDA_CALL(cuPointerGetAttribute);
  if (!is_pinned(reinterpret_cast<const void*>(address), 1)) return kInvalidValue;
  const unsigned host = 1;
  std::memcpy(value, &host, sizeof(host));
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  FAKE_CUDA_CALL(cuStreamCreate);
  *stream = new Stream;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamSynchronize(void* stream) {
  FAKE_CUDA_CALL(cuStreamSynchronize);
  int result = 0;
  for (const auto& work : std::exchange(static_cast<Stream*>(stream)->work, {})) {
    if (const int code = work(); code != 0) result = code;
  }
  return result;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t size, void* stream) {
  FAKE_CUDA_CALL(cuMemcpyHtoDAsync_v2);
  if (at(to, size) == nullptr || !is_pinned(from, size)) return kInvalidValue;
  return later(stream, [=] { return copy_bytes(at(to, size), from, size); });
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t size, void* stream) {
  FAKE_CUDA_CALL(cuMemcpyDtoHAsync_v2);
  if (at(from, size) == nullptr || !is_pinned(to, size)) return kInvalidValue;
  return later(stream, [=] { return copy_bytes(to, at(from, size), size); });
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t size, void* stream) {
  FAKE_CUDA_CALL(cuMemcpyDtoDAsync_v2);
  if (at(to, size) == nullptr || at(from, size) == nullptr) return kInvalidValue;
  return later(stream, [=] { return copy_bytes(at(to, size), at(from, size), size); });
}
int cuMemsetD8Async(Address to, unsigned char value, std::size_t size, void* stream) {
  FAKE_CUDA_CALL(cuMemsetD8Async);
  if (at(to, size) == nullptr) return kInvalidValue;
  return later(stream, [=] {
    std::byte* const target = at(to, size);
    if (target == nullptr) return kIllegalAddress;
    std::memset(target, value, size);
    return 0;
  });
}
int cuModuleLoadData(void** module, const void*) {
  FAKE_CUDA_CALL(cuModuleLoadData);
  *module = &gpu();
  return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  FAKE_CUDA_CALL(cuModuleGetFunction);
  *function = &gpu();
  return std::strcmp(name, "afterimage_copy") == 0 ? 0 : 500;  // CUDA_ERROR_NOT_FOUND
}
int cuLaunchKernel(void*, unsigned rows, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void* stream, void** arguments, void**) {
  FAKE_CUDA_CALL(cuLaunchKernel);
  const auto* const table =
      reinterpret_cast<const std::byte*>(*static_cast<Address*>(arguments[0]));
  return later(stream, [table, rows] {
    if (!is_pinned(table, rows * sizeof(Copy))) return kIllegalAddress;
    for (unsigned n = 0; n < rows; ++n) {
      Copy row{};
      std::memcpy(&row, table + n * sizeof(Copy), sizeof(Copy));
      if ((row.from | row.to) % 16 != 0) return kMisalignedAddress;
      const int code = copy_bytes(at(row.to, row.size), at(row.from, row.size), row.size);
      if (code != 0) return code;
    }
    return 0;
  });
}

}  // extern "C"

namespace afterimage::testing::fake_cuda {

std::string library() { return AFTERIMAGE_FAKE_CUDA; }

void reset() {
  const std::lock_guard lock(gpu().mutex);
  gpu().others = 0;
  gpu().failing.clear();
}

void set_used_by_others(std::size_t bytes) {
  const std::lock_guard lock(gpu().mutex);
  gpu().others = bytes;
}

void fail_function(const std::string& function, int code) {
  const std::lock_guard lock(gpu().mutex);
  gpu().failing[function] = code;
}

std::size_t allocated() {
  const std::lock_guard lock(gpu().mutex);
  return gpu().allocated;
}

void damage(std::size_t offset) {
  const std::lock_guard lock(gpu().mutex);
  for (auto& [start, bytes] : gpu().memory) {
    if (offset < bytes.size()) bytes[offset] ^= std::byte{1};
  }
}

bool contains(const void* bytes, std::size_t size) {
  const std::lock_guard lock(gpu().mutex);
  return std::ranges::any_of(gpu().memory, [&](const auto& allocation) {
    const auto& held = allocation.second;
    return ::memmem(held.data(), held.size(), bytes, size) != nullptr;
  });
}

}  // namespace afterimage::testing::fake_cuda
