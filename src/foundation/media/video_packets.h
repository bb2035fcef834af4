// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

extern "C" {
#include <libavcodec/codec_id.h>
}

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace afterimage {

/// What a packet of a video says of itself before it is decoded.
struct VideoPacket {
  std::int64_t time = 0;  // when its frame is shown, in the stream's unit
  /// Its picture, and all behind it, are decoded from nothing before it.
  bool is_start = false;
  /// Nothing behind it needs it, but for pictures before the next start.
  bool has_only_pictures = false;
};

/// Reads packets of one stream. H.264 and HEVC as MP4 and Matroska have them, and VP9; a packet of another
/// codec is neither.
class VideoPacketReader {
 public:
  /// `setup`: what the container has for the decoder.
  VideoPacketReader(AVCodecID codec, std::span<const std::byte> setup);
  /// `is_key`: as the container says, which is not enough: an open group of pictures begins with such a packet,
  /// too.
  [[nodiscard]] VideoPacket read(std::span<const std::byte> packet, bool is_key) const;

 private:
  [[nodiscard]] VideoPacket read_units(std::span<const std::byte> packet, bool is_key) const;

  AVCodecID codec_;
  std::size_t length_bytes_ = 0;  // before each unit; 0: they are separated otherwise
};

/// Which packets have to be decoded so that the frames of `times` are: from the last start before each on, and the
/// first packet of all, which tells the decoder who wrote it.
/// packets: in the file's order. times: increasing.
[[nodiscard]] std::vector<bool> packets_to_decode(std::span<const VideoPacket> packets,
                                                  std::span<const std::int64_t> times);

}  // namespace afterimage
