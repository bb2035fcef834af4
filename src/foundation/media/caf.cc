// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The header of CAF files, as macOS and iOS record them, whose samples libsndfile reads.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

constexpr std::size_t kEditCount = 4;  // bytes before the first sample

std::uint64_t caf_number(ByteCursor& cursor) {
  const std::uint64_t high = cursor.big(4);
  return high << 32U | cursor.big(4);
}

/// 0: it is no rate.
std::uint32_t caf_rate(std::uint64_t stored) {
  const auto rate = std::bit_cast<double>(stored);
  const bool is_whole = rate >= 1 && rate <= INT32_MAX && rate == std::floor(rate);
  return is_whole ? static_cast<std::uint32_t>(rate) : 0;
}

/// What the "desc" chunk says: rate and channels into `header`; returns the bytes of one sample of every channel.
Result<std::uint32_t> read_description(const MediaFile& file, std::span<const std::byte> body,
                                       SoundHeader& header) {
  ByteCursor cursor(body);
  header.sample_rate_hz = caf_rate(caf_number(cursor));
  const std::string_view format = as_text(cursor.take(4));
  cursor.take(4);  // whether floats, and in which order bytes are
  const std::uint32_t bytes = cursor.big(4);
  const std::uint32_t samples = cursor.big(4);
  header.channels = cursor.big(4);
  const std::uint32_t bits = cursor.big(4);
  if (cursor.ended_early()) return corrupt(file, "a CAF whose \"desc\" chunk ends early");
  if (format != "lpcm" && format != "alaw" && format != "ulaw") {
    return unsupported(file, fmt::format("CAF encoding \"{}\"; PCM, float, A-law and mu-law are "
                                         "read: convert it to WAV, FLAC or MP3",
                                         format));
  }
  if (samples != 1 || header.channels == 0 ||
      bytes != std::uint64_t{header.channels} * ((bits + 7) / 8)) {
    return corrupt(file, "a CAF whose \"desc\" chunk contradicts itself");
  }
  return bytes;
}

}  // namespace

Result<SoundHeader> read_caf_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(8));  // "caff", version and flags
  SoundHeader header{.format = FileFormat::kCaf};
  std::uint32_t each = 0;
  std::optional<std::uint64_t> found;
  while (cursor.rest().size() >= 12) {
    const std::string_view type = as_text(cursor.take(4));
    std::uint64_t length = caf_number(cursor);
    // A recording that was not ended: its samples reach to the end of the file.
    const bool is_open = type == "data" && length == UINT64_MAX;
    if (is_open) length = cursor.rest().size();
    const auto body = cursor.take(length);
    if (cursor.ended_early()) return corrupt(file, "a CAF that ends within one of its chunks");
    if (type == "desc" && each == 0) {
      AFI_TRY(each, read_description(file, body, header));
    }
    if (type != "data" || found.has_value()) continue;
    found = length;
    header.wav = {.data = body, .as_declared = !is_open};
  }
  if (each == 0 || found.value_or(0) < kEditCount) {
    return corrupt(file, "a CAF without a description or samples");
  }
  if ((*found - kEditCount) % each != 0) {
    return corrupt(file, fmt::format("a CAF with {} bytes of samples of {} bytes each",
                                     *found - kEditCount, each));
  }
  header.samples = (*found - kEditCount) / each;
  return header;
}

}  // namespace afterimage
