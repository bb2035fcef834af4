// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "testing/media_files.h"

/// Malformed files for tests: real files with a few bytes changed.
namespace afterimage::testing {

/// Overwrites `width` bytes from `offset`, big-endian.
FileContent with_big(FileContent file, std::size_t offset, std::uint32_t value, std::size_t width);
FileContent with_little(FileContent file, std::size_t offset, std::uint32_t value,
                        std::size_t width);
FileContent cut_to(FileContent file, std::size_t bytes);
/// Offset of the first occurrence of `text`, which must occur.
std::size_t find_text(const FileContent& file, std::string_view text);

/// A PNG whose IHDR, with a valid checksum, claims this size.
FileContent png_claiming(std::uint32_t width, std::uint32_t height);
/// A JPEG whose frame header claims this size, with about a hundred bytes of body.
FileContent jpeg_claiming(std::uint32_t width, std::uint32_t height);

FileContent text_file(std::string_view text);

}  // namespace afterimage::testing
