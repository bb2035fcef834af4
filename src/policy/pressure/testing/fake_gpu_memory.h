// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>

/// What NVML and ROCm SMI say of two GPUs, in one library that stands for both.
namespace afterimage::testing::fake_gpu_memory {

/// The file of the library, for NvmlGauge::open and RocmGauge::open.
std::string library();

/// Of both GPUs, in bytes. At first 1 GiB, of which 64 MiB are the driver's and 512 MiB are free.
void set(std::uint64_t total, std::uint64_t reserved, std::uint64_t free);
/// Calls that read return this; 0: they succeed.
void fail_reads(int code);
/// The libraries' first call returns this; 0: it succeeds.
void fail_start(int code);

}  // namespace afterimage::testing::fake_gpu_memory
