// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/sound_packets.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kMaxChannels = 64;

struct Signature {
  std::size_t offset;
  std::string_view bytes;
};

bool is_space(std::byte b) {
  return b == std::byte{' '} || (b >= std::byte{'\t'} && b <= std::byte{'\r'});
}

bool has(std::span<const std::byte> file, const Signature& signature) {
  return as_text(file).substr(std::min(signature.offset, file.size())).starts_with(signature.bytes);
}

/// Readers look for the header in the first 1,024 bytes: mail servers and printers write something before it.
bool is_pdf_behind_other_bytes(std::span<const std::byte> file) {
  constexpr std::size_t kSearched = 1'024;
  constexpr std::size_t kHeader = 8;  // "%PDF-1.7"
  const std::string_view start = as_text(file).substr(0, kSearched + kHeader);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = start.find("%PDF-"); at <= kSearched; at = start.find("%PDF-", at + 1)) {
    const std::string_view version = start.substr(at + 5, 3);
    if (version.size() == 3 && is_digit(version[0]) && version[1] == '.' && is_digit(version[2])) {
      return true;
    }
  }
  return false;
}

constexpr std::string_view kPictures =
    "JPEG, PNG, WebP, GIF, HEIC, AVIF, BMP, TIFF, ICO and JPEG 2000";

bool is_sound(FileFormat format) {
  switch (format) {
    case FileFormat::kWav:
    case FileFormat::kFlac:
    case FileFormat::kMp3:
    case FileFormat::kOgg:
    case FileFormat::kAiff:
    case FileFormat::kAmr:
    case FileFormat::kAac:
    case FileFormat::kCaf:
      return true;
    default:
      return false;
  }
}

/// What to do with a file of a format that is read, but not as what it was given.
std::string_view advice_for(FileFormat format) {
  if (format == FileFormat::kPdf) return "send it as a file";
  if (is_picture(format)) return "send it as an image";
  return is_sound(format) ? "send it as audio" : "send it as a video";
}

Error not_of_modality(const MediaFile& file, FileFormat format, std::string_view given_as,
                      std::string_view allowed) {
  std::string_view advice = foreign_format(file.bytes).advice;
  if (format != FileFormat::kUnknown) advice = advice_for(format);
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {}, given as {}; {} {}{}{}", file.name, describe_content(file.bytes),
                      given_as, allowed, kAreReadHere, advice.empty() ? "" : ": ", advice)};
}

bool may_move(FileFormat format) {
  return format == FileFormat::kWebp || format == FileFormat::kGif;
}

/// Raw pictures of cameras are TIFF files, too, whose first picture is a small one.
bool is_tiff(std::span<const std::byte> file) {
  return (has(file, {0, {"II*\0", 4}}) && !has(file, {8, "CR"})) || has(file, {0, {"MM\0*", 4}});
}

/// kHeic, kAvif, or kMp4.
FileFormat format_of_brands(std::span<const std::byte> file) {
  static constexpr std::string_view kHeic[] = {"heic", "heix", "heim", "heis", "hevc", "hevx"};
  static constexpr std::string_view kEither[] = {"mif1", "msf1", "mif2"};
  ByteCursor cursor(file);
  const std::size_t box = std::min<std::size_t>({cursor.big(4), 4'096, file.size()});
  const std::string_view brands =
      as_text(file).substr(0, box).substr(std::min<std::size_t>(box, 8));
  const auto has_brand = [&](std::string_view brand) {
    for (std::size_t at = 0; at + 4 <= brands.size(); at += 4) {
      if (brands.substr(at, 4) == brand) return true;
    }
    return false;
  };
  const auto is_major = [&](std::string_view brand) { return has(file, {8, brand}); };
  if (is_major("avif") || is_major("avis")) return FileFormat::kAvif;
  if (std::ranges::any_of(kHeic, is_major)) return FileFormat::kHeic;
  if (!std::ranges::any_of(kEither, is_major)) return FileFormat::kMp4;
  return has_brand("avif") || has_brand("avis") ? FileFormat::kAvif : FileFormat::kHeic;
}

Result<void> check_picture(const MediaFile& file, const PictureHeader& header,
                           const MediaLimits& limits) {
  if (header.width == 0 || header.height == 0) {
    return corrupt(file, fmt::format("{} of {}x{} pixels", with_article(to_string(header.format)),
                                     header.width, header.height));
  }
  // Also what is decoded and not shown.
  const std::uint32_t width = std::max(header.width, header.coded_width);
  const std::uint32_t height = std::max(header.height, header.coded_height);
  if (std::max(width, height) > limits.max_side ||
      std::uint64_t{width} * height > limits.max_pixels) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("{}: {} of {}x{} pixels; at most {} per side and {} in total are "
                            "allowed",
                            file.name, with_article(to_string(header.format)), width, height,
                            limits.max_side, limits.max_pixels));
  }
  return {};
}

Result<void> check_frames(std::string_view name, std::uint64_t frames, const PictureHeader& header,
                          const MediaLimits& limits) {
  if (frames > limits.max_frames) {
    return fail(ErrorCode::kLimitExceeded, fmt::format("{}: {} frames; at most {} are allowed",
                                                       name, frames, limits.max_frames));
  }
  // Divided rather than multiplied: frames × pixels may overflow.
  const std::uint64_t per_frame = std::uint64_t{header.width} * header.height;
  if (per_frame > limits.max_total_pixels / frames) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("{}: {} frames of {}x{} pixels; at most {} pixels in total are allowed",
                            name, frames, header.width, header.height, limits.max_total_pixels));
  }
  return {};
}

MediaInfo describe(const PictureHeader& header, std::uint32_t frames) {
  MediaInfo info{
      .format = header.format, .width = header.width, .height = header.height, .frames = frames};
  if (swaps_sides(header.orientation)) std::swap(info.width, info.height);
  return info;
}

Result<PictureHeader> probe_still(const MediaFile& file, std::string_view given_as,
                                  const MediaLimits& limits) {
  const FileFormat format = sniff(file.bytes);
  if (!is_picture(format)) {
    return std::unexpected(not_of_modality(file, format, given_as, kPictures));
  }
  AFI_TRY(const PictureHeader header, read_picture_header(file));
  AFI_TRY_VOID(check_picture(file, header, limits));
  return header;
}

Result<MediaInfo> probe_video_file(const MediaFile& file, const MediaLimits& limits) {
  AFI_TRY(const VideoHeader header, read_video_header(file, limits));
  MediaInfo info{.format = header.format,
                 .width = header.width,
                 .height = header.height,
                 .frames = header.frames,
                 .length = header.length};
  if (swaps_sides(header.orientation)) std::swap(info.width, info.height);
  return info;
}

Result<MediaInfo> probe_video(const MediaFile& file, const MediaLimits& limits) {
  const FileFormat format = sniff(file.bytes);
  if (is_video_file(format)) return probe_video_file(file, limits);
  if (!may_move(format)) {
    return std::unexpected(
        not_of_modality(file, format, "a video",
                        "MP4, WebM, Matroska, animated GIF and WebP, and folders of still frames"));
  }
  AFI_TRY(const PictureHeader header, read_picture_header(file));
  AFI_TRY_VOID(check_picture(file, header, limits));
  if (!header.unplayable.empty()) return corrupt(file, header.unplayable);
  AFI_TRY_VOID(check_frames(file.name, header.frames, header, limits));
  MediaInfo info = describe(header, header.frames);
  info.length = header.length;
  return info;
}

Result<MediaInfo> probe_folder(const std::vector<MediaFile>& files, const MediaItem& item,
                               const MediaLimits& limits) {
  if (item.frame_rate_mhz == 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: a folder of {} frames needs a frame rate", name_of(item), files.size()));
  }
  AFI_TRY(const PictureHeader first, probe_still(files[0], "a frame of a video", limits));
  AFI_TRY_VOID(check_frames(name_of(item), files.size(), first, limits));
  MediaInfo info = describe(first, static_cast<std::uint32_t>(files.size()));
  info.length = Duration(info.frames * kMillihertzNanoseconds / item.frame_rate_mhz);
  for (const MediaFile& file : files) {
    AFI_TRY(const PictureHeader header, probe_still(file, "a frame of a video", limits));
    if (header.frames != 1) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: a {} animation of {} frames, given as a frame of a video: send "
                              "it as the video, or its frames one by one",
                              file.name, to_string(header.format), header.frames));
    }
    const MediaInfo frame = describe(header, 1);
    if (frame.width != info.width || frame.height != info.height) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {}x{} pixels, but the first frame has {}x{}", file.name,
                              frame.width, frame.height, info.width, info.height));
    }
  }
  return info;
}

}  // namespace

Result<SoundHeader> probe_sound(const MediaFile& file, const MediaLimits& limits) {
  const FileFormat format = sniff(file.bytes);
  if (!is_sound(format) && !is_video_file(format)) {
    return std::unexpected(not_of_modality(
        file, format, "audio",
        "WAV, FLAC, MP3, AIFF, CAF, Ogg, AMR, AAC, and the sound of MP4, WebM and Matroska files"));
  }
  AFI_TRY(const SoundHeader header, read_sound_header(file, limits));
  if (header.sample_rate_hz == 0 || header.channels == 0) {
    return corrupt(file,
                   fmt::format("{} channels of {} Hz", header.channels, header.sample_rate_hz));
  }
  if (header.samples == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the file contains no samples", file.name));
  }
  if (header.samples > limits.max_samples || header.channels > kMaxChannels) {
    return fail(
        ErrorCode::kLimitExceeded,
        fmt::format("{}: {} samples in each of {} channels; at most {} samples and {} "
                    "channels are allowed",
                    file.name, header.samples, header.channels, limits.max_samples, kMaxChannels));
  }
  return header;
}

std::string_view to_string(FileFormat format) {
  switch (format) {
    case FileFormat::kUnknown:
      return "unknown";
    case FileFormat::kJpeg:
      return "JPEG";
    case FileFormat::kPng:
      return "PNG";
    case FileFormat::kWebp:
      return "WebP";
    case FileFormat::kGif:
      return "GIF";
    case FileFormat::kWav:
      return "WAV";
    case FileFormat::kFlac:
      return "FLAC";
    case FileFormat::kMp4:
      return "MP4";
    case FileFormat::kMatroska:
      return "Matroska";
    case FileFormat::kPpm:
      return "PPM";
    case FileFormat::kPdf:
      return "PDF";
    case FileFormat::kMp3:
      return "MP3";
    case FileFormat::kOgg:
      return "Ogg";
    case FileFormat::kAiff:
      return "AIFF";
    case FileFormat::kAmr:
      return "AMR";
    case FileFormat::kAac:
      return "AAC";
    case FileFormat::kCaf:
      return "CAF";
    case FileFormat::kBmp:
      return "BMP";
    case FileFormat::kIco:
      return "ICO";
    case FileFormat::kTiff:
      return "TIFF";
    case FileFormat::kHeic:
      return "HEIC";
    case FileFormat::kAvif:
      return "AVIF";
    case FileFormat::kJpeg2000:
      return "JPEG 2000";
  }
  return "unknown";
}

FileFormat sniff(std::span<const std::byte> file) {
  const bool riff = has(file, {0, "RIFF"});
  const bool large = has(file, {0, "RF64"}) || has(file, {0, "BW64"});
  if (has(file, {0, "\xFF\xD8\xFF"})) return FileFormat::kJpeg;
  if (has(file, {0, "\x89PNG\r\n\x1A\n"})) return FileFormat::kPng;
  if (riff && has(file, {8, "WEBP"})) return FileFormat::kWebp;
  if (has(file, {0, "GIF87a"}) || has(file, {0, "GIF89a"})) return FileFormat::kGif;
  if ((riff || large) && has(file, {8, "WAVE"})) return FileFormat::kWav;
  if (has(file, {0, "fLaC"})) return FileFormat::kFlac;
  if (has(file, {4, "ftyp"}) && !has(file, {8, "crx "})) return format_of_brands(file);
  if (has(file, {0, "\x1A\x45\xDF\xA3"})) return FileFormat::kMatroska;
  if (has(file, {0, "P6"}) && file.size() > 2 && is_space(file[2])) return FileFormat::kPpm;
  if (has(file, {0, "%PDF-"}) || is_pdf_behind_other_bytes(file)) return FileFormat::kPdf;
  if (has(file, {0, "OggS"})) return FileFormat::kOgg;
  const bool form = has(file, {0, "FORM"});
  if (form && (has(file, {8, "AIFF"}) || has(file, {8, "AIFC"}))) return FileFormat::kAiff;
  if (has(file, {0, {"caff\0\1\0\0", 8}})) return FileFormat::kCaf;
  if (has(file, {0, "#!AMR\n"}) || has(file, {0, "#!AMR-WB\n"})) return FileFormat::kAmr;
  // Behind tags, which taggers put before any of them.
  const auto tagless = file.subspan(leading_tags(file));
  if (tagless.size() < file.size() && has(tagless, {0, "fLaC"})) return FileFormat::kFlac;
  if (is_adts(tagless)) return FileFormat::kAac;
  if (is_bmp(file)) return FileFormat::kBmp;
  if (is_icon(file)) return FileFormat::kIco;
  if (is_tiff(file)) return FileFormat::kTiff;
  if (has(file, {0, {"\0\0\0\x0CjP  \r\n\x87\n", 12}}) || has(file, {0, "\xFF\x4F\xFF\x51"}))
    return FileFormat::kJpeg2000;
  if (is_mp3(file)) return FileFormat::kMp3;
  return FileFormat::kUnknown;
}

bool is_picture(FileFormat format) {
  switch (format) {
    case FileFormat::kJpeg:
    case FileFormat::kPng:
    case FileFormat::kWebp:
    case FileFormat::kGif:
    case FileFormat::kPpm:
    case FileFormat::kBmp:
    case FileFormat::kIco:
    case FileFormat::kTiff:
    case FileFormat::kHeic:
    case FileFormat::kAvif:
    case FileFormat::kJpeg2000:
      return true;
    default:
      return false;
  }
}

Modality modality_of(std::span<const std::byte> file) {
  const FileFormat format = sniff(file);
  if (is_sound(format)) return Modality::kAudio;
  if (is_video_file(format)) {
    return has_pictures({.bytes = file, .name = {}}) ? Modality::kVideo : Modality::kAudio;
  }
  return may_move(format) ? Modality::kVideo : Modality::kImage;
}

MediaSize MediaInfo::size() const {
  MediaSize size{.width = width, .height = height, .length = length};
  if (sample_rate_hz > 0) {
    const double seconds = static_cast<double>(samples) / sample_rate_hz;
    size.length = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  return size;
}

Result<MediaInfo> probe(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, files_of(item, limits));
  if (is_folder_of_frames(item)) return probe_folder(files, item, limits);
  if (files.size() != 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} files, given as one {}", files[0].name, files.size(),
                            to_string(item.modality)));
  }
  switch (item.modality) {
    case Modality::kImage: {
      AFI_TRY(const PictureHeader header, probe_still(files[0], "an image", limits));
      return describe(header, 1);
    }
    case Modality::kAudio: {
      AFI_TRY(const SoundHeader header, probe_sound(files[0], limits));
      return MediaInfo{.format = header.format,
                       .sample_rate_hz = header.sample_rate_hz,
                       .channels = header.channels,
                       .samples = header.samples};
    }
    case Modality::kVideo:
      return probe_video(files[0], limits);
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: unknown modality", files[0].name));
}

}  // namespace afterimage
