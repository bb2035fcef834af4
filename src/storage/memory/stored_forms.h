// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tier.h"

/// The specs (dtype and shape) of an entry's tensors as bytes, for every format that stores them: a
/// byte each for dtype and rank, six zero bytes, and eight bytes per extent, little-endian.
///
/// Errors   kCorruption: not valid specs. Any bytes may be given.
/// Threads  Any.
namespace afterimage {

/// Writes the specs. Requires that `to` has at least EntryMeta::form_bytes() bytes.
void write_forms(std::span<const TensorSpec> forms, std::span<std::byte> to);
/// Reads `count` specs from the beginning of `bytes`, which may be longer.
Result<std::vector<TensorSpec>> read_forms(std::span<const std::byte> bytes, std::size_t count);
/// The entry class with this numeric value. kCorruption: there is none.
Result<EntryClass> stored_entry_class(std::uint8_t value);

}  // namespace afterimage
