// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cstddef>
#include <cstdint>

#include "engines/llama_kernels/halves_neon.inl"
#include "engines/llama_kernels/kernel_table.h"

// Sixteen numbers in four of 32 registers, with instructions that add products of four bytes.
namespace afterimage {
namespace {

constexpr std::size_t kTileVectors = 1;  // of 16 weight rows
constexpr std::size_t kTileColumns = 3;
constexpr std::size_t kFloatColumns = 1;  // of weights that are floats, with kFloatRows rows
constexpr std::size_t kQueryTile = 6;
constexpr std::size_t kKeyVectors = 1;  // of 16 keys, in one step of scores
constexpr bool kSignedBytes = true;

}  // namespace
}  // namespace afterimage

// Uses what is above.
#include "engines/llama_kernels/two_halves.inl"
// Uses both.
#include "engines/llama_kernels/attention.inl"

namespace afterimage {

extern const LlamaKernels kLlamaNeonDotKernels;
constinit const LlamaKernels kLlamaNeonDotKernels = {
    "neon-dot", pack, multiply, attend, merge, finish,
};

}  // namespace afterimage
