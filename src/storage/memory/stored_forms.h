// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tier.h"

/// The specs (dtype and shape) of an entry's tensors and its labels as bytes, for every format that
/// stores them: for each tensor a byte each for dtype and rank, six zero bytes, and eight bytes per
/// extent; then eight bytes per label, all little-endian.
///
/// Errors   kCorruption: not valid specs. Any bytes may be given.
/// Threads  Any.
namespace afterimage {

/// Writes specs and labels. Requires that `to` has at least EntryMeta::form_bytes() bytes.
void write_forms(const EntryMeta& meta, std::span<std::byte> to);
/// Reads so many specs and labels from the beginning of `bytes`, which may be longer, into `meta`.
Result<void> read_forms(std::span<const std::byte> bytes, std::size_t tensors, std::size_t labels,
                        EntryMeta& meta);
/// The entry class with this numeric value. kCorruption: there is none.
Result<EntryClass> stored_entry_class(std::uint8_t value);

}  // namespace afterimage
