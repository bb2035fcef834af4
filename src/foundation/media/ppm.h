// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace afterimage {

/// A binary PPM file of these rows of RGBx pixels. Equal pixels of one size make equal bytes.
/// Requires width and height of at least 1 and 4 * width * height bytes.
std::vector<std::byte> ppm_of_rgbx(std::span<const std::uint8_t> rgbx, std::uint32_t width,
                                   std::uint32_t height);

}  // namespace afterimage
