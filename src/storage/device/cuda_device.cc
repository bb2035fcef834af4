// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/device/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "foundation/platform/shared_library.h"
#include "storage/device/copy_kernel.h"

namespace afterimage {
namespace {

constexpr int kOutOfMemory = 2;           // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kMemoryType = 2;            // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kHostMemory = 1;       // CU_MEMORYTYPE_HOST
constexpr unsigned kForEveryContext = 1;  // CU_MEMHOSTALLOC_PORTABLE
constexpr unsigned kOwnOrder = 1;         // CU_STREAM_NON_BLOCKING
constexpr std::size_t kGrowth = 4;        // rows of a launch, times those before
constexpr std::size_t kMostRows = 65'536;
static_assert(kMostRows * sizeof(DeviceCopy) <= CudaDevice::Lane::kPinned);

}  // namespace

/// As cuda.h declares them; every result is 0 or an error code.
struct CudaDevice::Calls {
  explicit Calls(SharedLibrary its_library) : library(std::move(its_library)) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() {
    if (context != nullptr) release_context(device);
  }
  Result<void> bind();
  Result<void> start(std::uint32_t index);
  [[nodiscard]] Result<void> checked(int code, const char* what) const;

  SharedLibrary library;
  int (*init)(unsigned) = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*get_name)(char*, int, int) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
  int (*retain_context)(void**, int) = nullptr;
  int (*release_context)(int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*memory_info)(std::size_t*, std::size_t*) = nullptr;
  int (*allocate)(DeviceAddress*, std::size_t) = nullptr;
  int (*free)(DeviceAddress) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*free_host)(void*) = nullptr;
  int (*attribute)(void*, int, DeviceAddress) = nullptr;
  int (*create_stream)(void**, unsigned) = nullptr;
  int (*destroy_stream)(void*) = nullptr;
  int (*wait_for)(void*) = nullptr;
  int (*to_device)(DeviceAddress, const void*, std::size_t, void*) = nullptr;
  int (*to_host)(void*, DeviceAddress, std::size_t, void*) = nullptr;
  int (*within)(DeviceAddress, DeviceAddress, std::size_t, void*) = nullptr;
  int (*set_bytes)(DeviceAddress, unsigned char, std::size_t, void*) = nullptr;
  int (*load_module)(void**, const void*) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**) = nullptr;

  int device = 0;
  void* context = nullptr;
  void* kernel = nullptr;
  std::string name;
};

/// While it lives, the calling thread uses our context; afterwards the one that it had.
class CudaDevice::Current {
 public:
  explicit Current(const Calls& calls) : calls_(calls), code_(calls.push(calls.context)) {}
  ~Current() {
    void* ours = nullptr;
    if (code_ == 0) calls_.pop(&ours);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Calls& calls_;
  int code_;  // if it failed, so does the call that follows
};

Result<void> CudaDevice::Calls::checked(int code, const char* what) const {
  if (code == 0) return {};
  const char* words = nullptr;
  if (error_string(code, &words) != 0 || words == nullptr) words = "unknown error";
  return fail(code == kOutOfMemory ? ErrorCode::kNoSpace : ErrorCode::kUnavailable,
              fmt::format("CUDA: {}: {} (code {})", what, words, code));
}

Result<void> CudaDevice::Calls::bind() {
  AFI_TRY_VOID(library.bind(init, "cuInit"));
  AFI_TRY_VOID(library.bind(get_device, "cuDeviceGet"));
  AFI_TRY_VOID(library.bind(get_name, "cuDeviceGetName"));
  AFI_TRY_VOID(library.bind(error_string, "cuGetErrorString"));
  AFI_TRY_VOID(library.bind(retain_context, "cuDevicePrimaryCtxRetain"));
  AFI_TRY_VOID(library.bind(release_context, "cuDevicePrimaryCtxRelease_v2"));
  AFI_TRY_VOID(library.bind(push, "cuCtxPushCurrent_v2"));
  AFI_TRY_VOID(library.bind(pop, "cuCtxPopCurrent_v2"));
  AFI_TRY_VOID(library.bind(memory_info, "cuMemGetInfo_v2"));
  AFI_TRY_VOID(library.bind(allocate, "cuMemAlloc_v2"));
  AFI_TRY_VOID(library.bind(free, "cuMemFree_v2"));
  AFI_TRY_VOID(library.bind(allocate_host, "cuMemHostAlloc"));
  AFI_TRY_VOID(library.bind(free_host, "cuMemFreeHost"));
  AFI_TRY_VOID(library.bind(attribute, "cuPointerGetAttribute"));
  AFI_TRY_VOID(library.bind(create_stream, "cuStreamCreate"));
  AFI_TRY_VOID(library.bind(destroy_stream, "cuStreamDestroy_v2"));
  AFI_TRY_VOID(library.bind(wait_for, "cuStreamSynchronize"));
  AFI_TRY_VOID(library.bind(to_device, "cuMemcpyHtoDAsync_v2"));
  AFI_TRY_VOID(library.bind(to_host, "cuMemcpyDtoHAsync_v2"));
  AFI_TRY_VOID(library.bind(within, "cuMemcpyDtoDAsync_v2"));
  AFI_TRY_VOID(library.bind(set_bytes, "cuMemsetD8Async"));
  AFI_TRY_VOID(library.bind(load_module, "cuModuleLoadData"));
  AFI_TRY_VOID(library.bind(get_function, "cuModuleGetFunction"));
  return library.bind(launch, "cuLaunchKernel");
}

Result<void> CudaDevice::Calls::start(std::uint32_t index) {
  AFI_TRY_VOID(checked(init(0), "the driver does not start"));
  AFI_TRY_VOID(checked(get_device(&device, static_cast<int>(index)),
                       fmt::format("there is no device {}", index).c_str()));
  std::array<char, 256> text{};
  AFI_TRY_VOID(checked(get_name(text.data(), static_cast<int>(text.size()) - 1, device),
                       "the device has no name"));
  name = text.data();
  AFI_TRY_VOID(checked(retain_context(&context, device), "the device cannot be used"));
  const Current current(*this);
  void* module = nullptr;
  AFI_TRY_VOID(checked(load_module(&module, kCopyKernel), "the copy kernel does not load"));
  return checked(get_function(&kernel, module, "afterimage_copy"), "the copy kernel is missing");
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(std::uint32_t index,
                                                     const std::string& library) {
  AFI_TRY(SharedLibrary loaded, SharedLibrary::open(library));
  auto calls = std::make_unique<Calls>(std::move(loaded));
  AFI_TRY_VOID(calls->bind());
  AFI_TRY_VOID(calls->start(index));
  return std::unique_ptr<CudaDevice>(new CudaDevice(std::move(calls)));
}

CudaDevice::CudaDevice(std::unique_ptr<Calls> calls) : calls_(std::move(calls)) {}
CudaDevice::~CudaDevice() = default;

const std::string& CudaDevice::name() const { return calls_->name; }

Result<DeviceMemory> CudaDevice::memory() const {
  const Current current(*calls_);
  std::size_t free = 0;
  std::size_t total = 0;
  AFI_TRY_VOID(calls_->checked(calls_->memory_info(&free, &total), "reading the free memory"));
  return DeviceMemory{.free = Bytes(free), .total = Bytes(total)};
}

bool CudaDevice::is_pinned(const std::byte* memory) const {
  const Current current(*calls_);
  unsigned type = 0;
  const auto address = reinterpret_cast<DeviceAddress>(memory);
  return calls_->attribute(&type, kMemoryType, address) == 0 && type == kHostMemory;
}

Result<DeviceAddress> CudaDevice::allocate(std::size_t size) {
  const Current current(*calls_);
  DeviceAddress memory = 0;
  AFI_TRY_VOID(calls_->checked(calls_->allocate(&memory, size), "allocating memory"));
  return memory;
}

void CudaDevice::free(DeviceAddress memory) {
  const Current current(*calls_);
  calls_->free(memory);
}

Result<std::unique_ptr<CudaDevice::Lane>> CudaDevice::Lane::create(CudaDevice& device) {
  std::unique_ptr<Lane> lane(new Lane(device));
  const Calls& calls = *device.calls_;
  const Current current(calls);
  for (void*& stream : lane->streams_) {
    AFI_TRY_VOID(calls.checked(calls.create_stream(&stream, kOwnOrder), "creating a stream"));
  }
  void* pinned = nullptr;
  AFI_TRY_VOID(calls.checked(calls.allocate_host(&pinned, kPinned, kForEveryContext),
                             "allocating pinned host memory"));
  lane->pinned_ = static_cast<std::byte*>(pinned);
  return lane;
}

CudaDevice::Lane::~Lane() {
  const Calls& calls = *device_.calls_;
  const Current current(calls);
  for (void* const stream : streams_) {
    if (stream != nullptr) calls.destroy_stream(stream);
  }
  if (pinned_ != nullptr) calls.free_host(pinned_);
}

/// After a failure nothing is in flight or listed: the memory of this work may go.
Result<void> CudaDevice::Lane::started(int code, const char* what) {
  if (code != 0) (void)finish();
  return device_.calls_->checked(code, what);
}

/// Waits for all that was started; nothing is listed any more.
int CudaDevice::Lane::finish() {
  const Calls& calls = *device_.calls_;
  int code = calls.wait_for(streams_[0]);
  // The second stream is used from the second launch on.
  if (launches_ > 1) code = std::max(code, calls.wait_for(streams_[1]));
  rows_ = 0;
  launched_ = 0;
  launches_ = 0;
  launch_at_ = kFirstRows;
  return code;
}

Result<void> CudaDevice::Lane::start_upload(std::span<const std::byte> from,
                                            std::span<const DeviceSpan> to) {
  const Calls& calls = *device_.calls_;
  const Current current(calls);
  for (const DeviceSpan& span : to) {
    AFI_TRY_VOID(started(calls.to_device(span.at, from.data(), span.size, streams_[0]),
                         "copying to the device"));
    from = from.subspan(span.size);
  }
  return {};
}

Result<void> CudaDevice::Lane::start_download(std::span<const DeviceSpan> from,
                                              std::span<std::byte> to) {
  const Calls& calls = *device_.calls_;
  const Current current(calls);
  for (const DeviceSpan& span : from) {
    AFI_TRY_VOID(started(calls.to_host(to.data(), span.at, span.size, streams_[0]),
                         "copying from the device"));
    to = to.subspan(span.size);
  }
  return {};
}

Result<void> CudaDevice::Lane::wait() {
  const Calls& calls = *device_.calls_;
  const Current current(calls);
  const auto last = launch();
  const auto done = calls.checked(finish(), "waiting for a copy");
  return last.has_value() ? done : last;
}

Result<void> CudaDevice::Lane::clear(std::span<const DeviceSpan> spans) {
  const Calls& calls = *device_.calls_;
  const Current current(calls);
  for (const DeviceSpan& span : spans) {
    AFI_TRY_VOID(
        calls.checked(calls.set_bytes(span.at, 0, span.size, streams_[0]), "clearing memory"));
  }
  return calls.checked(calls.wait_for(streams_[0]), "clearing memory");
}

/// The copies that are listed and not launched. The GPU reads the list in host memory: sending it
/// would be a copy before each launch. Launches alternate between two streams, so that the blocks of
/// the next fill the GPU while the last ones of this end.
Result<void> CudaDevice::Lane::launch() {
  if (launched_ == rows_) return {};
  const Calls& calls = *device_.calls_;
  const auto rows = static_cast<unsigned>(rows_ - launched_);
  auto first = reinterpret_cast<DeviceAddress>(pinned_ + launched_ * sizeof(DeviceCopy));
  launched_ = rows_;
  launch_at_ = std::min((1 + kGrowth) * rows_, kMostRows);
  std::array<void*, 1> arguments = {&first};
  return started(calls.launch(calls.kernel, rows, 1, 1, kCopyThreads, 1, 1, 0,
                              streams_[launches_++ % 2], arguments.data(), nullptr),
                 "copying within the device");
}

Result<void> CudaDevice::Lane::start_copy(std::span<const DeviceSpan> from,
                                          std::span<const DeviceSpan> to) {
  const Calls& calls = *device_.calls_;
  const Current current(calls);
  auto* const table = reinterpret_cast<DeviceCopy*>(pinned_);
  DeviceSpan target;  // what is left of it
  for (DeviceSpan source : from) {
    while (source.size > 0) {
      if (target.size == 0) {
        target = to.front();
        to = to.subspan(1);
        continue;
      }
      std::size_t here = std::min(source.size, target.size);
      if ((source.at | target.at) % 16 != 0) {
        AFI_TRY_VOID(started(calls.within(target.at, source.at, here, streams_[0]),
                             "copying within the device"));
      } else {
        here = std::min(here, kCopySize);
        table[rows_++] = {.from = source.at, .to = target.at, .size = here};
        if (rows_ == launch_at_) AFI_TRY_VOID(rows_ == kMostRows ? wait() : launch());
      }
      source = {.at = source.at + here, .size = source.size - here};
      target = {.at = target.at + here, .size = target.size - here};
    }
  }
  return {};
}

}  // namespace afterimage
