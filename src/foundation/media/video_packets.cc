// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/video_packets.h"

#include <algorithm>

#include "foundation/media/cursor.h"

namespace afterimage {
namespace {

constexpr std::byte kConfigurationVersion{1};  // else units are separated by start codes

/// Before each unit of a packet. 0: not known.
std::size_t length_bytes_of(AVCodecID codec, std::span<const std::byte> setup) {
  const std::size_t at = codec == AV_CODEC_ID_H264 ? 4 : 21;
  if (setup.size() <= at || setup[0] != kConfigurationVersion) return 0;
  return 1 + (std::to_integer<std::size_t>(setup[at]) & 3U);
}

enum class UnitKind : unsigned char { kStart, kPicture, kRemark, kOther };

UnitKind h264_unit(std::uint32_t header) {
  switch (header & 0x1fU) {
    case 5:
      return UnitKind::kStart;
    case 1:
    case 2:
    case 3:
    case 4:
      return UnitKind::kPicture;
    case 6:   // supplemental
    case 9:   // a delimiter
    case 12:  // filler
      return UnitKind::kRemark;
    default:
      return UnitKind::kOther;
  }
}

UnitKind hevc_unit(std::uint32_t header) {
  const std::uint32_t type = header >> 1U & 0x3fU;
  if (type == 19 || type == 20) return UnitKind::kStart;  // IDR
  if (type < 32) return UnitKind::kPicture;
  // A delimiter, filler, supplemental.
  if (type == 35 || type == 38 || type == 39 || type == 40) return UnitKind::kRemark;
  return UnitKind::kOther;
}

/// A frame that is shown again is none, and a key frame behind another in one packet does not begin it.
bool is_vp9_key(std::span<const std::byte> packet) {
  if (packet.empty()) return false;
  const auto bits = std::to_integer<std::uint32_t>(packet[0]);
  const bool is_profile_3 = (bits & 0x30U) == 0x30U;
  const std::uint32_t rest = is_profile_3 ? bits << 1U : bits;  // which has a bit more
  return (bits & 0xc0U) == 0x80U && (rest & 0x0cU) == 0;        // not shown again, a key frame
}

}  // namespace

VideoPacketReader::VideoPacketReader(AVCodecID codec, std::span<const std::byte> setup)
    : codec_(codec) {
  if (codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC) {
    length_bytes_ = length_bytes_of(codec, setup);
  }
}

VideoPacket VideoPacketReader::read(std::span<const std::byte> packet, bool is_key) const {
  if (codec_ == AV_CODEC_ID_VP9) {
    return {.is_start = is_key && is_vp9_key(packet), .has_only_pictures = true};
  }
  return length_bytes_ == 0 ? VideoPacket{} : read_units(packet, is_key);
}

VideoPacket VideoPacketReader::read_units(std::span<const std::byte> packet, bool is_key) const {
  VideoPacket read{.is_start = false, .has_only_pictures = true};
  bool has_picture = false;
  for (ByteCursor cursor(packet); !cursor.rest().empty();) {
    const auto unit = cursor.take(cursor.big(length_bytes_));
    if (cursor.ended_early() || unit.empty()) return {};
    const auto header = std::to_integer<std::uint32_t>(unit[0]);
    const UnitKind kind = codec_ == AV_CODEC_ID_H264 ? h264_unit(header) : hevc_unit(header);
    const bool is_picture = kind == UnitKind::kStart || kind == UnitKind::kPicture;
    if (is_picture && !has_picture) read.is_start = is_key && kind == UnitKind::kStart;
    has_picture = has_picture || is_picture;
    if (kind == UnitKind::kOther) read.has_only_pictures = false;
  }
  return read;
}

std::vector<bool> packets_to_decode(std::span<const VideoPacket> packets,
                                    std::span<const std::int64_t> times) {
  std::vector<bool> needed(packets.size());
  bool is_needed = false;  // by one of those behind it
  for (std::size_t i = packets.size(); i-- > 0;) {
    is_needed = is_needed || i == 0 || !packets[i].has_only_pictures ||
                std::ranges::binary_search(times, packets[i].time);
    needed[i] = is_needed;
    if (packets[i].is_start) is_needed = false;
  }
  return needed;
}

}  // namespace afterimage
