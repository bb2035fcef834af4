// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/testing/lies.h"

#include <zlib.h>

#include <algorithm>

#include "afterimage/result.h"

namespace afterimage::testing {

FileContent with_big(FileContent file, std::size_t offset, std::uint32_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    file.at(offset + i) = static_cast<std::byte>(value >> (8 * (width - 1 - i)));
  }
  return file;
}

FileContent with_little(FileContent file, std::size_t offset, std::uint32_t value,
                        std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    file.at(offset + i) = static_cast<std::byte>(value >> (8 * i));
  }
  return file;
}

FileContent cut_to(FileContent file, std::size_t bytes) {
  AFI_CHECK(bytes <= file.size());
  file.resize(bytes);
  return file;
}

std::size_t find_text(const FileContent& file, std::string_view text) {
  const auto wanted = text_file(text);
  const auto found = std::search(file.begin(), file.end(), wanted.begin(), wanted.end());
  AFI_CHECK(found != file.end());
  return static_cast<std::size_t>(found - file.begin());
}

FileContent png_claiming(std::uint32_t width, std::uint32_t height) {
  constexpr std::size_t kType = 12;  // after the signature and IHDR's length
  FileContent file = make_png(make_picture(4, 4));
  file = with_big(std::move(file), kType + 4, width, 4);
  file = with_big(std::move(file), kType + 8, height, 4);
  const auto* named = reinterpret_cast<const unsigned char*>(file.data() + kType);
  const auto crc = static_cast<std::uint32_t>(crc32(0, named, 4 + 13));
  return with_big(std::move(file), kType + 4 + 13, crc, 4);
}

FileContent jpeg_claiming(std::uint32_t width, std::uint32_t height) {
  FileContent file = make_jpeg(make_picture(16, 16));
  const std::size_t frame = find_text(file, "\xFF\xC0");
  file = with_big(std::move(file), frame + 5, height, 2);
  return with_big(std::move(file), frame + 7, width, 2);
}

FileContent text_file(std::string_view text) {
  FileContent file;
  for (const char c : text) file.push_back(static_cast<std::byte>(c));
  return file;
}

}  // namespace afterimage::testing
