// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace afterimage {

/// A square PNG whose pixels follow from the number: a palette of 256 colours, patches of them, and
/// noise. Not compressed, so that its bytes are the same with every version of zlib, and its size
/// is about side² bytes.
///
/// Cost     About one pass over the pixels and two checksums.
/// Threads  Any.
[[nodiscard]] std::vector<std::byte> generated_picture(std::uint64_t number, std::uint32_t side);

}  // namespace afterimage
