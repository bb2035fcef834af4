// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace afterimage {

/// A binary PPM file of these rows of RGBx pixels. Equal pixels of one size make equal bytes, unless
/// their comments differ. Requires width and height of at least 1, 4 * width * height bytes, and a comment
/// without a line's end; empty: none.
std::vector<std::byte> ppm_of_rgbx(std::span<const std::uint8_t> rgbx, std::uint32_t width,
                                   std::uint32_t height, std::string_view comment = {});

}  // namespace afterimage
