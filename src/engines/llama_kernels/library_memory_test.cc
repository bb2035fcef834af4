// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/library_memory.h"

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace afterimage {
namespace {

struct FreeBuffer {
  void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
};
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;

Buffer buffer_of(std::size_t size) {
  use_fresh_pages();
  use_fresh_pages();
  return Buffer(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size));
}

std::span<std::uint8_t> bytes_of(const Buffer& buffer) {
  return {static_cast<std::uint8_t*>(ggml_backend_buffer_get_base(buffer.get())),
          ggml_backend_buffer_get_size(buffer.get())};
}

bool holds_only(std::span<const std::uint8_t> bytes, std::uint8_t value) {
  return std::ranges::all_of(bytes, [&](std::uint8_t byte) { return byte == value; });
}

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

TEST(LibraryMemory, LargeBuffersAreMapped) {
  for (const std::size_t size : {std::size_t{8} << 20U, std::size_t{100} << 20U}) {
    const Buffer buffer = buffer_of(size);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes_of(buffer).data()) % page(), 0U);
  }
}

TEST(LibraryMemory, WhatIsWrittenBeforeTheFirstClearIsCleared) {
  const Buffer buffer = buffer_of(std::size_t{8} << 20U);
  ASSERT_NE(buffer, nullptr);
  const auto bytes = bytes_of(buffer);
  std::memset(bytes.data(), 5, bytes.size());
  ggml_backend_buffer_clear(buffer.get(), 0);
  EXPECT_TRUE(holds_only(bytes, 0));
}

TEST(LibraryMemory, BuffersOfEverySizeAreClearedAsOften) {
  for (const std::size_t size :
       {std::size_t{4096}, std::size_t{8} << 20U, (std::size_t{20} << 20U) + 32}) {
    const Buffer buffer = buffer_of(size);
    ASSERT_NE(buffer, nullptr);
    EXPECT_TRUE(ggml_backend_buffer_is_host(buffer.get()));
    const auto bytes = bytes_of(buffer);
    ASSERT_EQ(bytes.size(), size);
    ggml_backend_buffer_clear(buffer.get(), 0);
    EXPECT_TRUE(holds_only(bytes, 0));
    std::memset(bytes.data(), 5, size);
    ggml_backend_buffer_clear(buffer.get(), 0);
    EXPECT_TRUE(holds_only(bytes, 0));
    ggml_backend_buffer_clear(buffer.get(), 7);
    EXPECT_TRUE(holds_only(bytes, 7));
  }
}

bool all_pages_are_there(std::span<std::uint8_t> bytes) {
  std::vector<unsigned char> pages((bytes.size() + page() - 1) / page());
  return ::mincore(bytes.data(), bytes.size(), pages.data()) == 0 &&
         std::ranges::all_of(pages, [](unsigned char page) { return (page & 1U) != 0; });
}

/// Whether they are, or come within a minute.
bool all_pages_come(std::span<std::uint8_t> bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!all_pages_are_there(bytes)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// A machine without the memory must notice soon after the start, not when a conversation has grown.
TEST(LibraryMemory, AllPagesComeOnceABufferIsCleared) {
  const Buffer buffer = buffer_of((std::size_t{33} << 20U) + 32);
  ASSERT_NE(buffer, nullptr);
  const auto bytes = bytes_of(buffer);
  EXPECT_FALSE(all_pages_are_there(bytes));
  ggml_backend_buffer_clear(buffer.get(), 0);
  EXPECT_TRUE(all_pages_come(bytes));
}

TEST(LibraryMemory, WhatIsWrittenWhilePagesComeStays) {
  for (int round = 0; round < 20; ++round) {
    const Buffer buffer = buffer_of(std::size_t{64} << 20U);
    ASSERT_NE(buffer, nullptr);
    const auto bytes = bytes_of(buffer);
    ggml_backend_buffer_clear(buffer.get(), 0);
    std::memset(bytes.data(), 5, bytes.size());
    EXPECT_TRUE(all_pages_come(bytes));
    EXPECT_TRUE(holds_only(bytes, 5));
  }
}

TEST(LibraryMemory, BuffersAreFreedWhilePagesCome) {
  for (int round = 0; round < 20; ++round) {
    const Buffer buffer = buffer_of(std::size_t{64} << 20U);
    ASSERT_NE(buffer, nullptr);
    ggml_backend_buffer_clear(buffer.get(), 0);
  }
}

// An engine in a static map ended after the threads' own map did.
TEST(LibraryMemoryDeathTest, BuffersOfStaticObjectsAreFreedAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_with_a_buffer = [] {
    static std::vector<Buffer> kept;
    kept.push_back(buffer_of(std::size_t{64} << 20U));
    ggml_backend_buffer_clear(kept.back().get(), 0);
    std::exit(0);
  };
  EXPECT_EXIT(end_with_a_buffer(), ::testing::ExitedWithCode(0), "");
}

TEST(LibraryMemory, WhatCannotBeMappedIsNotAllocated) {
  EXPECT_EQ(buffer_of(std::size_t{1} << 60U), nullptr);
}

}  // namespace
}  // namespace afterimage
