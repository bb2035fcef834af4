// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/tensor.h"

namespace afterimage {

/// SHA-256 of a media item's raw bytes, the same digest that other tools compute.
///
/// Shape    One file: SHA-256 of its bytes. A folder of frames: SHA-256 of a framed list of the
///          frames' digests and their rate; the message begins with a label that no media file
///          begins with, so no decodable file has the digest of a folder.
/// Cost     One pass at the speed of OpenSSL (1.4 to 1.8 GB/s a core with SHA-NI).
/// Threads  Any.
ContentDigest content_digest(const MediaItem& item);

/// Pixels that are already decoded, for engines that never see the file.
struct Pixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::string_view format;  // meaning of one element: "rgb", "rgba", "grey", "palette", …
  DType dtype = DType::kU8;
  std::span<const std::byte> data;
  std::span<const std::byte> palette;  // empty unless elements are indices into it
};

/// Samples that are already decoded.
struct AudioSamples {
  std::uint32_t sample_rate_hz = 0;
  std::uint32_t channels = 1;
  DType dtype = DType::kF32;
  std::span<const std::byte> data;
};

/// SHA-256 of shape, format and dtype together with the data, so that a white 10×20 image differs
/// from a white 20×10 one.
DecodedDigest decoded_digest(const Pixels& pixels);
DecodedDigest decoded_digest(const AudioSamples& samples);

}  // namespace afterimage
