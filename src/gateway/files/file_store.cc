// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/files/file_store.h"

#include <algorithm>
#include <span>

#include "afterimage/digest.h"
#include "foundation/crypto/sha256.h"
#include "foundation/media/probe.h"
#include "foundation/text/data_url.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

constexpr Bytes kLeastForNames = 1_MiB;
constexpr std::uint64_t kShareForNames = 16;

Bytes for_names(Bytes capacity) {
  if (capacity == Bytes(0)) return capacity;
  return std::max(kLeastForNames, Bytes(capacity.value() / kShareForNames));
}

std::unexpected<Error> not_found(std::string_view id) {
  return fail(ErrorCode::kNotFound, "there is no file '" + std::string(id) +
                                        "': it was not uploaded, or it has expired or was deleted");
}

}  // namespace

std::string media_type_of(std::string_view bytes, std::string_view declared) {
  switch (sniff(std::as_bytes(std::span(bytes)))) {
    case FileFormat::kJpeg:
      return "image/jpeg";
    case FileFormat::kPng:
      return "image/png";
    case FileFormat::kWebp:
      return "image/webp";
    case FileFormat::kGif:
      return "image/gif";
    case FileFormat::kWav:
      return "audio/wav";
    case FileFormat::kFlac:
      return "audio/flac";
    case FileFormat::kMp3:
      return "audio/mpeg";
    case FileFormat::kOgg:
      return "audio/ogg";
    case FileFormat::kAiff:
    case FileFormat::kCaf:
      return "audio/aiff";
    case FileFormat::kAmr:
      return "audio/amr";
    case FileFormat::kAac:
      return "audio/aac";
    case FileFormat::kMp4:
      return modality_of(std::as_bytes(std::span(bytes))) == Modality::kAudio ? "audio/mp4"
                                                                              : "video/mp4";
    case FileFormat::kPpm:
      return "image/x-portable-pixmap";
    case FileFormat::kPdf:
      return "application/pdf";
    case FileFormat::kBmp:
      return "image/bmp";
    case FileFormat::kIco:
      return "image/vnd.microsoft.icon";
    case FileFormat::kTiff:
      return "image/tiff";
    case FileFormat::kHeic:
      return "image/heic";
    case FileFormat::kAvif:
      return "image/avif";
    case FileFormat::kJpeg2000:
      return "image/jp2";
    case FileFormat::kMatroska:  // WebM, too: as declared
    case FileFormat::kUnknown:
      break;
  }
  if (is_media_type(declared) && declared != "application/octet-stream")
    return std::string(declared);
  const bool is_text = !bytes.contains('\0') && valid_text(bytes, bytes.size()) == bytes;
  return is_text ? "text/plain" : "application/octet-stream";
}

FileStore::FileStore(Bytes capacity, Duration ttl, const Clock& clock)
    : contents_(capacity, ttl, clock), files_(for_names(capacity), ttl, clock) {}

Result<FileInfo> FileStore::add(const std::string& tenant, FileInfo file, std::string_view bytes) {
  file.type = media_type_of(bytes, file.type);
  file.size = bytes.size();
  file.digest = to_hex(sha256(std::as_bytes(std::span(bytes))));
  file.expires = file.created + std::chrono::floor<std::chrono::seconds>(contents_.ttl()).count();
  const MutexLock lock(changes_);
  // Bytes that are there begin to live again, as long as the new file.
  auto content = contents_.find(tenant, file.digest);
  if (content == nullptr) content = std::make_shared<const std::string>(bytes);
  if (!contents_.put(tenant, file.digest, std::move(content), Bytes(bytes.size())) ||
      !files_.put(tenant, file.id, std::make_shared<const FileInfo>(file),
                  Bytes(file.name.size() + file.purpose.size()))) {
    return fail(ErrorCode::kLimitExceeded, "the file has " + std::to_string(bytes.size()) +
                                               " bytes, and all files together may have " +
                                               std::to_string(contents_.capacity().value()) +
                                               " (files.size)");
  }
  return file;
}

Result<FileInfo> FileStore::info(const std::string& tenant, std::string_view id) {
  const auto file = files_.find(tenant, std::string(id));
  // Bytes may leave before their name does.
  if (file == nullptr || contents_.find(tenant, file->digest) == nullptr) return not_found(id);
  return *file;
}

Result<UploadedFile> FileStore::content(const std::string& tenant, std::string_view id) {
  const auto file = files_.find(tenant, std::string(id));
  if (file == nullptr) return not_found(id);
  auto bytes = contents_.find(tenant, file->digest);
  if (bytes == nullptr) return not_found(id);
  return UploadedFile{.type = file->type, .bytes = std::move(bytes)};
}

Result<void> FileStore::erase(const std::string& tenant, std::string_view id) {
  const MutexLock lock(changes_);
  const auto file = files_.find(tenant, std::string(id));
  if (file == nullptr || !files_.erase(tenant, std::string(id))) return not_found(id);
  const auto others = files_.list(tenant);
  const bool is_used =
      std::ranges::any_of(others, [&](const auto& other) { return other->digest == file->digest; });
  if (!is_used) contents_.erase(tenant, file->digest);
  return {};
}

std::uint64_t FileStore::erase_content(std::string_view digest) {
  const MutexLock lock(changes_);
  contents_.erase_if([&](const auto&, const std::string& id, const auto&) { return id == digest; });
  return files_.erase_if(
      [&](const auto&, const auto&, const FileInfo& file) { return file.digest == digest; });
}

std::uint64_t FileStore::erase_tenants(const std::function<bool(std::string_view)>& chosen) {
  const MutexLock lock(changes_);
  const auto is_theirs = [&](const std::string& tenant, const auto&, const auto&) {
    return chosen(tenant);
  };
  contents_.erase_if(is_theirs);
  return files_.erase_if(is_theirs);
}

std::vector<std::shared_ptr<const FileInfo>> FileStore::list(const std::string& tenant) {
  auto files = files_.list(tenant);
  std::erase_if(files,
                [&](const auto& file) { return contents_.find(tenant, file->digest) == nullptr; });
  return files;
}

}  // namespace afterimage
