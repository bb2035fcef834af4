// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "afterimage/result.h"
#include "engines/llama_kernels/kernel_table.h"

namespace afterimage {

/// Of all tables: results of models that were computed with another one are not mixed with these.
/// Increment it with every change to an order of sums or to what is rounded.
inline constexpr const char* kOrderOfSums = "3";

/// Keys of a sliding window may lie in a ring of cells, anywhere in it: attention follows their
/// positions, if each lies in the cell of its position modulo kKeyOrderPeriod, the ring has a
/// multiple of that many cells, and at least kFewestSpareCells more than the window.
inline constexpr std::uint32_t kKeyOrderPeriod = 256;
inline constexpr std::uint32_t kFewestSpareCells = 512;

/// Lets llama.cpp's CPU backend compute matrix products and attention with our kernels, whose
/// results don't depend on the batch: for all models of the process, from the next graph on.
///
/// `name`   of a table (LlamaKernels::name); empty: the fastest that this machine has, or the
///          library's own if it has none; "library": the library's own.
/// Errors   kUnsupported: this machine has no table of that name.
/// Threads  While no model computes.
Result<void> use_batch_independent_kernels(std::string_view name);

/// The table in use; empty: the library computes with its own kernels.
std::string_view batch_independent_kernels();

/// The same with a table; nullptr: the library's own kernels.
void use_kernels(const LlamaKernels* table);

}  // namespace afterimage
