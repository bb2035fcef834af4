// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/decode.h"

#include <fmt/format.h>

#include <utility>

#include "afterimage/check.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

Result<std::vector<MediaFile>> probed_files(const MediaItem& item, Modality modality,
                                            const MediaLimits& limits) {
  AFI_TRY(std::vector<MediaFile> files, files_of(item, limits));
  if (item.modality != modality) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: declared as {}, but decoded as {}", files[0].name,
                            to_string(item.modality), to_string(modality)));
  }
  AFI_TRY_VOID(probe(item, limits));
  return files;
}

Result<Image> decode_stored(const MediaFile& file, const PictureHeader& header) {
  switch (header.format) {
    case FileFormat::kJpeg:
      return decode_jpeg(file, header);
    case FileFormat::kPng:
      return decode_png(file, header);
    case FileFormat::kWebp:
      return decode_webp(file, header);
    case FileFormat::kGif: {
      AFI_TRY(std::vector<Frame> frames, decode_gif(file, header));
      return std::move(frames[0].image);
    }
    default:
      return corrupt(file, "not an image");
  }
}

/// Decodes a still image that has passed probe().
Result<Image> decode_still(const MediaFile& file) {
  AFI_TRY(const PictureHeader header, read_picture_header(file));
  AFI_TRY(Image stored, decode_stored(file, header));
  Image image = turn_upright(std::move(stored), header.orientation);
  AFI_CHECK(image.rgb.size() == 3 * std::size_t{image.width} * image.height);
  return image;
}

Result<std::vector<Frame>> decode_folder(const std::vector<MediaFile>& files,
                                         std::uint32_t frame_rate_mhz) {
  std::vector<Frame> frames;
  for (const MediaFile& file : files) {
    AFI_TRY(Image image, decode_still(file));
    const auto index = static_cast<std::int64_t>(frames.size());
    frames.push_back({.image = std::move(image),
                      .at = Duration(index * kMillihertzNanoseconds / frame_rate_mhz)});
  }
  return frames;
}

Result<std::vector<Frame>> decode_animation(const MediaFile& file) {
  AFI_TRY(const PictureHeader header, read_picture_header(file));
  if (header.format == FileFormat::kGif) return decode_gif(file, header);
  if (header.frames != 1) return decode_webp_animation(file, header);
  AFI_TRY(Image image, decode_still(file));
  std::vector<Frame> frames;
  frames.push_back({.image = std::move(image)});
  return frames;
}

}  // namespace

Result<Image> decode_image(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, probed_files(item, Modality::kImage, limits));
  return decode_still(files[0]);
}

Result<Samples> decode_audio(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, probed_files(item, Modality::kAudio, limits));
  AFI_TRY(const SoundHeader header, read_sound_header(files[0]));
  return decode_sound(files[0], header);
}

Result<std::vector<Frame>> decode_video(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, probed_files(item, Modality::kVideo, limits));
  return is_folder_of_frames(item) ? decode_folder(files, item.frame_rate_mhz)
                                   : decode_animation(files[0]);
}

}  // namespace afterimage
