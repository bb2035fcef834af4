// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// In place of video.cc where FFmpeg's libraries are not linked.
#include "foundation/media/formats.h"
#include "foundation/media/media_limits.h"

namespace afterimage {
namespace {

std::unexpected<Error> absent(const MediaFile& file) {
  return unsupported(file,
                     "this build reads no MP4, WebM or Matroska files; build it with "
                     "AFTERIMAGE_VIDEO, or send an animated GIF or WebP");
}

}  // namespace

Result<VideoHeader> read_video_header(const MediaFile& file, const MediaLimits& /*limits*/) {
  return absent(file);
}

Result<std::unique_ptr<FrameSource>> open_video_frames(const MediaFile& file,
                                                       std::span<const std::uint32_t> /*positions*/,
                                                       const MediaLimits& /*limits*/) {
  return absent(file);
}

std::string video_decoder() { return "none"; }

Result<SoundHeader> read_coded_header(const MediaFile& file, const MediaLimits& /*limits*/) {
  return unsupported(file,
                     "this build reads sounds of WAV, FLAC, MP3 and AIFF files only; build it "
                     "with AFTERIMAGE_VIDEO, or send one of these");
}

Result<Samples> decode_coded(const MediaFile& file, const SoundHeader& /*header*/) {
  return absent(file);
}

bool has_pictures(const MediaFile& /*file*/) { return true; }

std::string coded_sound_decoder() { return "none"; }

}  // namespace afterimage
