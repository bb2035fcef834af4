// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/formats.h"

#include <fmt/format.h>

#include "foundation/media/media_limits.h"

namespace afterimage {

std::unexpected<Error> corrupt(const MediaFile& file, std::string_view what) {
  return fail(ErrorCode::kCorruption, fmt::format("{}: {}", file.name, what));
}

std::unexpected<Error> unsupported(const MediaFile& file, std::string_view what) {
  return fail(ErrorCode::kUnsupported, fmt::format("{}: {}", file.name, what));
}

bool is_folder_of_frames(const MediaItem& item) {
  return item.modality == Modality::kVideo && (item.files.size() > 1 || item.frame_rate_mhz != 0);
}

std::string name_of(const MediaItem& item) {
  return item.name.empty() ? fmt::format("unnamed {}", to_string(item.modality)) : item.name;
}

Result<std::vector<MediaFile>> files_of(const MediaItem& item, const MediaLimits& limits) {
  const std::string name = name_of(item);
  std::vector<MediaFile> files;
  for (const FileBytes& bytes : item.files) {
    MediaFile& file = files.emplace_back();
    file.name = is_folder_of_frames(item)
                    ? fmt::format("{}, frame {} of {}", name, files.size(), item.files.size())
                    : name;
    if (bytes != nullptr) file.bytes = *bytes;
    if (file.bytes.empty()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: the file is empty", file.name));
    }
    if (file.bytes.size() > limits.max_file.value()) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("{}: {} bytes; at most {} are allowed", file.name, file.bytes.size(),
                              limits.max_file.value()));
    }
  }
  if (files.empty()) return fail(ErrorCode::kInvalidArgument, fmt::format("{}: no file", name));
  return files;
}

Result<PictureHeader> read_picture_header(const MediaFile& file) {
  switch (sniff(file.bytes)) {
    case FileFormat::kJpeg:
      return read_jpeg_header(file);
    case FileFormat::kPng:
      return read_png_header(file);
    case FileFormat::kWebp:
      return read_webp_header(file);
    case FileFormat::kGif:
      return read_gif_header(file);
    case FileFormat::kPpm:
      return read_ppm_header(file);
    case FileFormat::kBmp:
      return read_bmp_header(file);
    case FileFormat::kIco:
      return read_ico_header(file);
    case FileFormat::kHeic:
    case FileFormat::kAvif:
      return read_heif_header(file);
    case FileFormat::kTiff:
      return read_tiff_header(file);
    case FileFormat::kJpeg2000:
      return read_jpeg2000_header(file);
    default:
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: not an image", file.name));
  }
}

Result<SoundHeader> read_sound_header(const MediaFile& file, const MediaLimits& limits) {
  switch (sniff(file.bytes)) {
    case FileFormat::kWav:
      return read_wav_header(file);
    case FileFormat::kFlac:
      return read_flac_header(file);
    case FileFormat::kMp3:
      return read_mp3_header(file);
    case FileFormat::kAiff:
      return read_aiff_header(file);
    case FileFormat::kCaf:
      return read_caf_header(file);
    case FileFormat::kOgg:
    case FileFormat::kAmr:
    case FileFormat::kAac:
    case FileFormat::kMp4:
    case FileFormat::kMatroska:
      return read_coded_header(file, limits);
    default:
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: not an audio file", file.name));
  }
}

void append_over_white(std::span<const std::uint8_t> rgba, std::vector<std::uint8_t>& rgb) {
  for (std::size_t i = 0; i + 4 <= rgba.size(); i += 4) {
    const unsigned alpha = rgba[i + 3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const unsigned over = rgba[i + channel] * alpha + 255 * (255 - alpha);
      rgb.push_back(static_cast<std::uint8_t>((over + 127) / 255));
    }
  }
}

Duration shown_for(Duration delay) {
  using std::chrono::milliseconds;
  return delay <= milliseconds(10) ? Duration(milliseconds(100)) : delay;
}

}  // namespace afterimage
