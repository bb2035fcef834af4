// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/media_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "foundation/documents/document_reader.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

constexpr double kMaxFramesPerSecond = 1'000;
constexpr std::uint32_t kDefaultFrameRateMhz = 1'000;  // default for a folder of frames: 1 fps

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

/// Whether `subtype` is a declared name of this format: "png" in image/png, "wav" in input_audio.
bool is_declared_as(FileFormat format, const std::string& subtype) {
  switch (format) {
    case FileFormat::kJpeg:
      return subtype == "jpeg" || subtype == "jpg";
    case FileFormat::kPng:
      return subtype == "png";
    case FileFormat::kWebp:
      return subtype == "webp";
    case FileFormat::kGif:
      return subtype == "gif";
    case FileFormat::kWav:
      return subtype == "wav" || subtype == "x-wav" || subtype == "wave";
    case FileFormat::kFlac:
      return subtype == "flac" || subtype == "x-flac";
    case FileFormat::kMp3:
      return subtype == "mp3" || subtype == "mpeg" || subtype == "mpeg3" || subtype == "x-mp3";
    case FileFormat::kMp4:
      return subtype == "mp4" || subtype == "quicktime" || subtype == "x-m4v" ||
             subtype == "3gpp" || subtype == "m4a" || subtype == "x-m4a" || subtype == "aac";
    case FileFormat::kMatroska:
      return subtype == "webm" || subtype == "x-matroska" || subtype == "matroska";
    case FileFormat::kOgg:
      return subtype == "ogg" || subtype == "opus" || subtype == "oga" || subtype == "vorbis";
    case FileFormat::kAiff:
    case FileFormat::kCaf:
      return subtype == "aiff" || subtype == "x-aiff" || subtype == "aif";
    case FileFormat::kAmr:
      return subtype == "amr" || subtype == "amr-wb" || subtype == "3gpp";
    case FileFormat::kAac:
      return subtype == "aac" || subtype == "x-aac" || subtype == "aacp";
    case FileFormat::kPpm:
      return subtype == "x-portable-pixmap";
    case FileFormat::kPdf:
      return subtype == "pdf";
    case FileFormat::kBmp:
      return subtype == "bmp" || subtype == "x-ms-bmp";
    case FileFormat::kIco:
      return subtype == "x-icon" || subtype == "vnd.microsoft.icon";
    case FileFormat::kTiff:
      return subtype == "tiff";
    case FileFormat::kHeic:
      return subtype == "heic" || subtype == "heif";
    case FileFormat::kAvif:
      return subtype == "avif";
    case FileFormat::kJpeg2000:
      return subtype == "jp2" || subtype == "jpx" || subtype == "j2k";
    case FileFormat::kUnknown:
      break;
  }
  return false;
}

Result<void> check_declared(const std::string& name, const std::string& declared,
                            std::span<const std::byte> bytes) {
  const FileFormat format = sniff(bytes);
  if (is_declared_as(format, lower(declared))) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is declared as \"{}\" but its bytes are {}", name, declared,
                          to_string(format)));
}

/// data:<type>/<subtype>;base64,<bytes>
Result<FileBytes> read_data_url(const std::string& url, const MediaLimits& limits) {
  const std::string shown = url.substr(0, 40) + "…";
  const std::size_t comma = url.find(',');
  const std::string_view head =
      std::string_view(url).substr(5, comma == std::string::npos ? 0 : comma - 5);
  const std::size_t slash = head.find('/');
  if (slash == std::string_view::npos || !head.ends_with(";base64")) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is not a data URL of the form data:image/png;base64,…", shown));
  }
  const std::string_view body = std::string_view(url).substr(comma + 1);
  if (body.size() / 4 * 3 > limits.max_file.value()) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("'{}' has more than {} bytes", shown, limits.max_file.value()));
  }
  auto data = decode_data_url(url);
  if (!data.has_value()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' cannot be read: {}", shown, data.error().message));
  }
  const std::string_view subtype = head.substr(slash + 1, head.find(';') - slash - 1);
  AFI_TRY_VOID(check_declared(shown, std::string(subtype), data->bytes));
  return std::make_shared<const std::vector<std::byte>>(std::move(data->bytes));
}

std::string last_part(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string path_in(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

}  // namespace

Result<MediaLoader> MediaLoader::open(MediaLoaderOptions options, const Files& files) {
  MediaLoader loader(std::move(options), files);
  const std::string& folder = loader.options_.images_folder;
  if (folder.empty()) return loader;
  AFI_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    const auto bytes = files.read(path_in(folder, name), loader.options_.limits.max_file);
    if (bytes.has_value() && is_picture(sniff(*bytes))) loader.photos_.push_back(name);
  }
  if (loader.photos_.empty()) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format(
            "'{}' holds no JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF, BMP, ICO or JPEG 2000 files",
            folder));
  }
  return loader;
}

Result<MediaItem> MediaLoader::load(const MediaReference& reference) {
  MediaItem item{.modality = reference.modality, .name = reference.name};
  if (reference.name.starts_with("data:")) {
    AFI_TRY(FileBytes bytes, read_data_url(reference.name, options_.limits));
    item.files.push_back(std::move(bytes));
    item.name = item.name.substr(0, 40) + "…";
    return item;
  }
  if (reference.name.find("://") != std::string::npos) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("'{}' is not fetched: a workload refers to local files, relative to its own "
                    "folder, or contains data URLs",
                    reference.name));
  }
  AFI_TRY(const std::string path, place_of(reference));
  if (reference.modality == Modality::kVideo && files_->is_folder(path)) {
    const double fps = reference.frames_per_second;
    if (!(fps >= 0 && fps <= kMaxFramesPerSecond)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' has {} frames per second; at most {}", reference.name, fps,
                              kMaxFramesPerSecond));
    }
    item.frame_rate_mhz =
        fps > 0 ? static_cast<std::uint32_t>(std::lround(fps * 1'000)) : kDefaultFrameRateMhz;
    AFI_TRY(item.files, read_frames(path));
    return item;
  }
  AFI_TRY(FileBytes bytes, read(path));
  if (!reference.declared_format.empty()) {
    AFI_TRY_VOID(check_declared(reference.name, reference.declared_format, *bytes));
  }
  item.files.push_back(std::move(bytes));
  return item;
}

Result<std::vector<MediaItem>> MediaLoader::load_parts(const MediaReference& reference) {
  AFI_TRY(MediaItem item, load(reference));
  if (!is_document(item)) return std::vector<MediaItem>{std::move(item)};
  const FileBytes file = item.files.at(0);
  if (const auto it = pages_.find(file); it != pages_.end()) return it->second;
  AFI_TRY(std::vector<MediaItem> pages, DocumentReader().pages(item));
  return pages_.emplace(file, std::move(pages)).first->second;
}

Result<std::string> MediaLoader::place_of(const MediaReference& reference) {
  std::string beside = path_beside(options_.workload, reference.name);
  if (reference.modality != Modality::kImage || photos_.empty()) return beside;
  const std::string& folder = options_.images_folder;
  for (const std::string& name : {reference.name, last_part(reference.name)}) {
    if (!files_->read(path_in(folder, name), options_.limits.max_file).has_value()) continue;
    names_are_in_folder_ = true;
    return path_in(folder, name);
  }
  if (names_are_in_folder_) {
    return fail(ErrorCode::kNotFound, fmt::format("'{}' is not in '{}'", reference.name, folder));
  }
  const auto [it, fresh] = stand_ins_.try_emplace(reference.name);
  if (fresh) it->second = photos_[(stand_ins_.size() - 1) % photos_.size()];
  return path_in(folder, it->second);
}

Result<FileBytes> MediaLoader::read(const std::string& path) {
  if (const auto it = read_.find(path); it != read_.end()) return it->second;
  AFI_TRY(std::vector<std::byte> bytes, files_->read(path, options_.limits.max_file));
  auto shared = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  read_.emplace(path, shared);
  return shared;
}

Result<std::vector<FileBytes>> MediaLoader::read_frames(const std::string& folder) {
  AFI_TRY(const std::vector<std::string> names, files_->list(folder));
  if (names.empty() || names.size() > options_.limits.max_frames) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("'{}' has {} frames; a video needs 1 to {}", folder, names.size(),
                            options_.limits.max_frames));
  }
  std::vector<FileBytes> frames;
  for (const std::string& name : names) {
    AFI_TRY(FileBytes frame, read(path_in(folder, name)));
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace afterimage
