// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Binary PPM ("P6"): "P6", a line "# comment" or none, width, height and 255 in decimal, one white space after each, then
// RGB. Comments at other places, other ranges of values and several images in a file are not read.
#include "foundation/media/ppm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "afterimage/result.h"
#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

constexpr std::size_t kSignature = 3;  // "P6" and a white space

/// The number before the next white space, which is taken, too; nullopt: anything else.
std::optional<std::uint32_t> next_number(std::string_view& rest) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc() || digits == rest.size()) return std::nullopt;
  const char after = rest[digits];
  if (after != ' ' && after != '\n' && after != '\t' && after != '\r') return std::nullopt;
  rest.remove_prefix(digits + 1);
  return number;
}

struct Ppm {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::string_view pixels;  // all that follows the header
};

std::optional<Ppm> read_ppm(const MediaFile& file) {
  std::string_view rest = as_text(file.bytes).substr(kSignature);
  if (rest.starts_with('#')) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  const auto width = next_number(rest);
  const auto height = width.has_value() ? next_number(rest) : std::nullopt;
  const auto largest = height.has_value() ? next_number(rest) : std::nullopt;
  if (largest != 255U) return std::nullopt;
  return Ppm{.width = *width, .height = *height, .pixels = rest};
}

}  // namespace

Result<PictureHeader> read_ppm_header(const MediaFile& file) {
  const auto ppm = read_ppm(file);
  if (!ppm.has_value()) {
    return corrupt(file, "its PPM header is not \"P6\", width, height and 255");
  }
  return PictureHeader{.format = FileFormat::kPpm, .width = ppm->width, .height = ppm->height};
}

Result<Image> decode_ppm(const MediaFile& file, const PictureHeader& header) {
  const auto ppm = read_ppm(file);
  AFI_CHECK(ppm.has_value() && ppm->width == header.width && ppm->height == header.height);
  const std::size_t size = 3 * std::size_t{header.width} * header.height;
  if (ppm->pixels.size() != size) {
    return corrupt(file, fmt::format("a PPM of {}x{} pixels with {} bytes of them, not {}",
                                     header.width, header.height, ppm->pixels.size(), size));
  }
  return Image{.width = header.width,
               .height = header.height,
               .rgb = std::vector<std::uint8_t>(ppm->pixels.begin(), ppm->pixels.end())};
}

std::vector<std::byte> ppm_of_rgbx(std::span<const std::uint8_t> rgbx, std::uint32_t width,
                                   std::uint32_t height, std::string_view comment) {
  const std::size_t pixels = std::size_t{width} * height;
  AFI_CHECK(pixels > 0 && rgbx.size() == 4 * pixels && !comment.contains('\n'));
  const std::string line = comment.empty() ? "" : fmt::format("# {}\n", comment);
  const std::string header = fmt::format("P6\n{}{} {}\n255\n", line, width, height);
  std::vector<std::byte> file(header.size() + 3 * pixels);
  std::ranges::transform(header, file.begin(), [](char c) { return static_cast<std::byte>(c); });
  std::byte* const to = file.data() + header.size();
  // Four bytes of each pixel but the last: the next pixel is written over the fourth.
  for (std::size_t i = 0; i + 1 < pixels; ++i) std::memcpy(to + 3 * i, rgbx.data() + 4 * i, 4);
  std::memcpy(to + 3 * (pixels - 1), rgbx.data() + 4 * (pixels - 1), 3);
  return file;
}

}  // namespace afterimage
