// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/media/media_limits.h"

namespace afterimage {

enum class FileFormat : unsigned char {
  kUnknown,
  kJpeg,
  kPng,
  kWebp,
  kGif,
  kWav,
  kFlac,
  kMp4,
  kMatroska,
  kPpm,
  kPdf,
  kMp3,
  kOgg,
  kAiff,
  kAmr,
  kAac,
  kBmp,
  kIco,
  kTiff,
  kHeic,
  kAvif,
  kJpeg2000,
  kCaf
};

/// "JPEG", "Matroska", "JPEG 2000", "unknown".
std::string_view to_string(FileFormat format);

/// Detects the format from the first bytes. The file's name and declared MIME type are ignored.
FileFormat sniff(std::span<const std::byte> file);

/// "a PNG file", "a JPEG XL file" of formats that are not read, "text that starts with ...", "bytes that start
/// with ...".
std::string describe_content(std::span<const std::byte> file);

/// In messages, behind the formats that are. A server writes which of its engines reads them in this place.
inline constexpr std::string_view kAreReadHere = "are read here";

/// Whether files of this format are read as images.
bool is_picture(FileFormat format);

/// What a file is by itself: sound if it is of one of the formats for sound, or an MP4, WebM or
/// Matroska file without pictures; a video if it has pictures that may move; else an image.
Modality modality_of(std::span<const std::byte> file);

/// What a media item's headers say about it. Nothing was decoded.
struct MediaInfo {
  FileFormat format = FileFormat::kUnknown;  // of the first file
  std::uint32_t width = 0;                   // pixels, upright: after EXIF orientation
  std::uint32_t height = 0;
  std::uint32_t frames = 0;          // 1 for a still image, 0 for audio
  Duration length{0};                // video only: until its last frame is no longer shown
  std::uint32_t sample_rate_hz = 0;  // audio only
  std::uint32_t channels = 0;        // audio only
  std::uint64_t samples = 0;         // audio only, per channel

  [[nodiscard]] MediaSize size() const;
};

/// Decodes nothing but the first samples of a compressed sound, which tell its rate: the cost grows with the headers (for an animation, or an MP3, AMR or AAC file, with its frame headers; for an
/// MP4, WebM, Matroska or Ogg file, with the file), not with the pixels. Allocates nothing whose size the
/// file controls, except that libavformat may allocate up to 256 MiB for a table of frames.
///
/// A video is one GIF or WebP, one MP4, WebM or Matroska file, or a folder of still frames of one size: an item with a frame rate.
/// Of an animation that is given as an image, the first frame is the image.
///
/// Errors   kInvalidArgument: empty, of an unknown format, or not of the given modality;
///          kCorruption: the header ends early or contradicts itself; kLimitExceeded: see
///          MediaLimits; kUnsupported: well-formed, but of a kind that cannot be decoded.
///          Messages name item.name and say what was found and what is allowed.
/// Threads  Any.
Result<MediaInfo> probe(const MediaItem& item, const MediaLimits& limits = {});

}  // namespace afterimage
