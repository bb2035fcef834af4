// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// A GPU for tests: a library with the functions of CUDA's driver that the device tier calls, in host
/// memory. Copies outside of one allocation fail, as the driver's do. What a stream was given is done
/// when somebody waits for it, not before. It does not run the copy kernel's code but what that must
/// do; `bench/device_bench` runs the kernel on a real GPU.
namespace afterimage::testing::fake_cuda {

/// Path of the library, for DeviceTierOptions::library.
std::string library();
/// Everything as at the start: a GPU of 1 GiB, nothing taken, nothing fails. Requires that no memory
/// is allocated.
void reset();
/// What other programs use of the GPU's memory.
void set_used_by_others(std::size_t bytes);
/// Every call of `function` fails with `code`, until reset(). 0: it works again.
void fail_function(const std::string& function, int code);
[[nodiscard]] std::size_t allocated();  // device memory
/// Flips a bit of every allocation at `offset`.
void damage(std::size_t offset);
/// Whether `bytes` are anywhere in device memory.
bool contains(const void* bytes, std::size_t size);

}  // namespace afterimage::testing::fake_cuda
