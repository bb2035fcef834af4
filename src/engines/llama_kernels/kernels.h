// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>

#include "engines/llama_kernels/kernel_table.h"

namespace afterimage {

/// The tables that this machine can run, the fastest first. Empty: its processor has none.
std::span<const LlamaKernels* const> supported_llama_kernels();

/// Numbers of a row that LlamaKernels::pack() counts as one.
std::size_t pack_unit(WeightType type);
/// Bytes of a packed row of activations, a multiple of 64.
std::size_t packed_bytes(WeightType type, std::size_t inner);
/// Bytes that LlamaKernels::attend() needs for `rows` rows.
std::size_t attention_scratch(std::size_t key_width, std::size_t value_width, std::size_t rows);

}  // namespace afterimage
