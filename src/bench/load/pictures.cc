// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/pictures.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "foundation/platform/random.h"

namespace afterimage {
namespace {

using PngBytes = std::vector<std::byte>;

constexpr std::size_t kStoredBlock = 65'535;  // the most that a stored block of deflate holds
constexpr std::uint32_t kPatch = 32;          // pixels
constexpr std::size_t kColours = 256;

void append_u32(PngBytes& out, std::uint64_t value) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    out.push_back(static_cast<std::byte>(value >> shift & 0xFFU));
  }
}

const Bytef* as_zlib(std::span<const std::byte> bytes) {
  return reinterpret_cast<const Bytef*>(bytes.data());
}

void append_chunk(PngBytes& out, std::string_view type, std::span<const std::byte> content) {
  append_u32(out, content.size());
  const std::size_t begin = out.size();
  for (const char c : type) out.push_back(static_cast<std::byte>(c));
  out.insert(out.end(), content.begin(), content.end());
  const std::span<const std::byte> covered = std::span(out).subspan(begin);
  append_u32(out, ::crc32_z(0, as_zlib(covered), covered.size()));
}

/// One row per line: a filter byte (none), then an index for each pixel. Patches of few neighbouring
/// colours, as pictures have them, and noise in the last two bits.
PngBytes pixel_rows(Rng& rng, std::uint32_t side) {
  PngBytes rows(static_cast<std::size_t>(side) * (side + 1));
  const std::uint32_t across = (side + kPatch - 1) / kPatch;
  std::vector<unsigned> patches(static_cast<std::size_t>(across) * across);
  for (unsigned& patch : patches) patch = static_cast<unsigned>(rng.below(kColours)) & ~3U;
  std::uint64_t noise = 0;
  std::size_t at = 0;
  for (std::uint32_t y = 0; y < side; ++y) {
    rows[at++] = std::byte{0};
    for (std::uint32_t x = 0; x < side; ++x) {
      if (x % 32 == 0) noise = rng.next();
      const std::size_t patch = static_cast<std::size_t>(y / kPatch) * across + x / kPatch;
      rows[at++] = static_cast<std::byte>(patches[patch] | (noise & 3U));
      noise >>= 2U;
    }
  }
  return rows;
}

/// A zlib stream of stored blocks.
PngBytes stored(std::span<const std::byte> content) {
  PngBytes out = {std::byte{0x78}, std::byte{0x01}};
  out.reserve(content.size() + content.size() / kStoredBlock * 5 + 16);
  const std::uint64_t check = ::adler32_z(1, as_zlib(content), content.size());
  while (!content.empty()) {
    const auto block = content.first(std::min(content.size(), kStoredBlock));
    content = content.subspan(block.size());
    const std::size_t size = block.size();
    for (const std::size_t byte : {static_cast<std::size_t>(content.empty() ? 1 : 0), size & 0xFFU,
                                   size >> 8U, ~size & 0xFFU, ~size >> 8U & 0xFFU}) {
      out.push_back(static_cast<std::byte>(byte));
    }
    out.insert(out.end(), block.begin(), block.end());
  }
  append_u32(out, check);
  return out;
}

}  // namespace

std::vector<std::byte> generated_picture(std::uint64_t number, std::uint32_t side) {
  Rng rng(number);
  constexpr auto kSignature = std::to_array<unsigned char>({0x89, 'P', 'N', 'G', 13, 10, 26, 10});
  PngBytes out;
  out.reserve(static_cast<std::size_t>(side) * (side + 2) + 2048);
  for (const unsigned char byte : kSignature) out.push_back(static_cast<std::byte>(byte));
  PngBytes header;
  append_u32(header, side);
  append_u32(header, side);
  for (const int value : {8, 3, 0, 0, 0}) header.push_back(static_cast<std::byte>(value));
  append_chunk(out, "IHDR", header);
  PngBytes palette(3 * kColours);
  for (std::byte& byte : palette) byte = static_cast<std::byte>(rng.below(256));
  append_chunk(out, "PLTE", palette);
  append_chunk(out, "IDAT", stored(pixel_rows(rng, side)));
  append_chunk(out, "IEND", {});
  return out;
}

}  // namespace afterimage
