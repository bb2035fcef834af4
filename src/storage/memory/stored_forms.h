// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tier.h"

/// The forms of an entry's tensors as bytes, for whatever format stores them: a byte each for dtype
/// and rank, six of zero, and eight for each extent, little-endian.
///
/// Errors   kCorruption: no forms. Any bytes may be given.
/// Threads  Any.
namespace afterimage {

/// Requires: `to` has at least EntryMeta::form_bytes() of them.
void write_forms(std::span<const TensorSpec> forms, std::span<std::byte> to);
/// So many forms from the beginning of `bytes`, which may go on.
Result<std::vector<TensorSpec>> read_forms(std::span<const std::byte> bytes, std::size_t count);
/// What an entry is, by the number that stands for it.
Result<EntryClass> stored_entry_class(std::uint8_t value);

}  // namespace afterimage
