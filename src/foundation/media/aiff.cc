// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The header of AIFF and AIFF-C files, whose samples libsndfile reads.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

struct Encoding {
  std::string_view name;
  std::uint32_t bytes;  // of a sample; 0: as many as its bits need
};

const Encoding* encoding_of(std::string_view name) {
  static constexpr std::array kEncodings = {
      Encoding{"NONE", 0}, Encoding{"sowt", 0}, Encoding{"twos", 0}, Encoding{"fl32", 4},
      Encoding{"FL32", 4}, Encoding{"fl64", 8}, Encoding{"FL64", 8}, Encoding{"alaw", 1},
      Encoding{"ALAW", 1}, Encoding{"ulaw", 1}, Encoding{"ULAW", 1}};
  const auto* const found = std::ranges::find(kEncodings, name, &Encoding::name);
  return found == kEncodings.end() ? nullptr : found;
}

/// An 80-bit float; 0: it is no rate.
std::uint32_t rate_of(ByteCursor& cursor) {
  const std::uint32_t exponent = cursor.big(2);
  const std::uint32_t high = cursor.big(4);  // of the mantissa
  cursor.take(4);
  constexpr std::uint32_t kBias = 16'383;
  return exponent < kBias || exponent > kBias + 30 ? 0 : high >> (31 - (exponent - kBias));
}

/// What programs write that cannot go back to the header at the end: 0, or a little less than 2 GiB.
bool aiff_is_of_a_pipe(std::uint32_t length) { return length == 0 || length >= 0x7F000000U; }

/// What the "COMM" chunk says, into `header`; returns the bytes of one sample of every channel.
Result<std::uint64_t> read_common(const MediaFile& file, std::span<const std::byte> body,
                                  bool compressed, SoundHeader& header) {
  ByteCursor common(body);
  header.channels = common.big(2);
  header.samples = common.big(4);
  const std::uint32_t bits = common.big(2);
  header.sample_rate_hz = rate_of(common);
  const std::string_view name = compressed ? as_text(common.take(4)) : "NONE";
  if (common.ended_early()) return corrupt(file, "an AIFF whose \"COMM\" chunk ends early");
  const Encoding* const encoding = encoding_of(name);
  if (encoding == nullptr) {
    return unsupported(file, fmt::format("AIFF encoding \"{}\"; PCM, float, A-law and mu-law are "
                                         "read",
                                         name));
  }
  header.wav.format = body;
  return std::uint64_t{header.channels} * (encoding->bytes != 0 ? encoding->bytes : (bits + 7) / 8);
}

/// Of a file that was written into a pipe: the samples reach to its end.
Result<void> read_open_samples(const MediaFile& file, std::span<const std::byte> body,
                               std::uint64_t each, SoundHeader& header) {
  constexpr std::size_t kPlace = 8;  // where the first sample is, and the size of blocks: zeros
  if (each == 0 || body.size() < kPlace || ByteCursor(body).big(4) != 0) {
    return corrupt(file, "an AIFF without a length, whose samples cannot be found");
  }
  const auto data = body.subspan(kPlace);
  if (data.size() % each > 1) {
    return corrupt(
        file, fmt::format("an AIFF with {} bytes of samples of {} bytes each", data.size(), each));
  }
  header.samples = data.size() / each;
  header.wav.data = data.first(data.size() - data.size() % each);
  header.wav.as_declared = false;
  return {};
}

}  // namespace

Result<SoundHeader> read_aiff_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(4));  // "FORM"
  const std::uint32_t size = cursor.big(4);
  const bool compressed = as_text(cursor.take(4)) == "AIFC";
  const bool is_open = aiff_is_of_a_pipe(size);
  if (size > file.bytes.size() - 8 && !is_open) {
    return corrupt(file, fmt::format("an AIFF that declares {} bytes but has {}", size,
                                     file.bytes.size() - 8));
  }
  SoundHeader header{.format = FileFormat::kAiff};
  std::uint64_t each = 0;  // bytes of a sample of every channel
  std::uint64_t found = 0;
  while (cursor.rest().size() >= 8) {
    const std::string_view type = as_text(cursor.take(4));
    const std::uint32_t length = cursor.big(4);
    if (type == "SSND" && is_open && aiff_is_of_a_pipe(length)) {
      AFI_TRY_VOID(read_open_samples(file, cursor.rest(), each, header));
      return header;
    }
    const auto body = cursor.take(length);
    if (cursor.ended_early()) return corrupt(file, "an AIFF that ends within one of its chunks");
    if (!cursor.rest().empty()) cursor.take(length % 2);
    if (type == "SSND" && length >= 8)
      found = length - 8 - std::min(ByteCursor(body).big(4), length - 8);
    if (type == "COMM") {
      AFI_TRY(each, read_common(file, body, compressed, header));
    }
  }
  const std::uint64_t needed = header.samples * each;
  if (needed > found) {
    return corrupt(
        file, fmt::format("an AIFF that declares {} bytes of samples but has {}", needed, found));
  }
  return header;
}

}  // namespace afterimage
