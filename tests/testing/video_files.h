// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "testing/media_files.h"

/// Video files made in memory with FFmpeg's libraries. Only in builds with AFTERIMAGE_VIDEO.
namespace afterimage::testing {

struct VideoContent {
  std::vector<Image> frames;  // of one size, even in both directions
  /// The name of one of libavcodec's encoders. "mjpeg" codes each frame by itself, so that equal
  /// frames are equal bytes, wherever they are in a video.
  std::string encoder = "mjpeg";
  std::string container = "mp4";  // or "matroska", "webm", "mov"
  std::uint32_t frames_per_second = 10;
  int frames_between_keys = 1;  // 12: also frames that depend on others, before and after them
  int slices = 1;               // of a frame, where the encoder makes such
  bool with_sound_track = false;
  int quarter_turns = 0;  // clockwise, that a player has to make
};
FileContent make_video(const VideoContent& content);
FileContent make_video(std::vector<Image> frames);

struct PacketPlace {
  std::size_t at;  // in the file
  std::size_t size;
  std::int64_t time;  // when its frame is shown, in the stream's unit
  bool is_key;        // as the container says
};
/// The packets of the first video stream, in the file's order.
std::vector<PacketPlace> packets_in(const FileContent& file);

/// Whether libavcodec here has this encoder.
bool has_encoder(const std::string& name);

/// `count` frames of a film of which frame i is the picture of seed `first + i`, at this size.
std::vector<Image> film_frames(std::uint32_t first, std::uint32_t count, std::uint32_t width,
                               std::uint32_t height);

}  // namespace afterimage::testing
