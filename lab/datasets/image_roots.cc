// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/image_roots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "afterimage/identity.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/text/json_lines.h"

namespace afterimage {
namespace {

namespace fs = std::filesystem;

/// Resolves `name` below `root`; nullopt: it leads outside.
std::optional<std::string> below(const std::string& root, const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return std::nullopt;
  const fs::path base = fs::path(root).lexically_normal();
  const fs::path path = (base / name).lexically_normal();
  const fs::path way = path.lexically_relative(base);
  if (way.empty() || way == "." || way.begin()->string() == "..") return std::nullopt;
  return path.string();
}

std::vector<std::string> names_of(const Sample& sample) {
  std::vector<std::string> names = sample.image_names;
  const std::string& id = sample.image_id;
  if (id.empty()) return names;
  for (const std::string& folder : {std::string(), id.substr(0, 3) + "/"}) {
    for (const char* ending : {".jpg", ".jpeg", ".png"}) names.push_back(folder + id + ending);
  }
  return names;
}

MediaItem still(const FileBytes& bytes, const std::string& name) {
  return {.modality = Modality::kImage, .files = {bytes}, .name = name};
}

}  // namespace

ImageRoots::ImageRoots(std::vector<std::string> roots, const Files& files, MediaLimits limits)
    : roots_(std::move(roots)), files_(&files), limits_(limits) {}

Result<ImageRoots::Found> ImageRoots::find(const Sample& sample) const {
  std::optional<Error> refused;
  for (const std::string& name : names_of(sample)) {
    bool leads_out = true;
    for (const std::string& root : roots_) {
      const auto path = below(root, name);
      if (!path.has_value()) continue;
      leads_out = false;
      auto content = files_->read(*path, limits_.max_file);
      if (!content.has_value()) {
        if (content.error().code != ErrorCode::kNotFound) refused = std::move(content).error();
        continue;
      }
      Found found{.path = *path,
                  .bytes = std::make_shared<const std::vector<std::byte>>(*std::move(content))};
      AFI_TRY_VOID(probe(still(found.bytes, *path), limits_));
      return found;
    }
    if (leads_out && !roots_.empty() && !refused.has_value()) {
      refused = Error{ErrorCode::kInvalidArgument,
                      fmt::format("'{}' leads outside the image roots and is not opened", name)};
    }
  }
  if (refused.has_value()) return std::unexpected(*refused);
  return fail(ErrorCode::kNotFound,
              fmt::format("no image \"{}\" below {}", sample.image_id,
                          roots_.empty() ? "any root: pass one with --gqa-image-dir, or set "
                                           "SEMANTIC_CACHE_IMAGE_ROOT"
                                         : fmt::format("'{}'", fmt::join(roots_, "', '"))));
}

Result<FileBytes> ImageRoots::bytes_of(const Sample& sample) const {
  if (sample.image != nullptr) return sample.image;
  AFI_TRY(std::vector<std::byte> content, files_->read(sample.image_path, limits_.max_file));
  return std::make_shared<const std::vector<std::byte>>(std::move(content));
}

AttachedImages attach_images(std::span<Sample> samples, const ImageRoots& roots) {
  AttachedImages images;
  std::map<std::string, std::pair<std::string, ContentDigest>> known;  // by candidate names
  for (Sample& sample : samples) {
    if (sample.image != nullptr) {
      sample.content = content_digest(still(sample.image, sample.image_id));
      ++images.attached;
      continue;
    }
    if (!sample.names_picture()) continue;
    const std::string key =
        fmt::format("{}\n{}", sample.image_id, fmt::join(sample.image_names, "\n"));
    auto it = known.find(key);
    if (it == known.end()) {
      const auto found = roots.find(sample);
      if (!found.has_value()) {
        if (images.missing++ == 0) images.first_missing = found.error().message;
        continue;
      }
      it = known
               .emplace(key,
                        std::pair(found->path, content_digest(still(found->bytes, found->path))))
               .first;
    }
    std::tie(sample.image_path, sample.content) = it->second;
    ++images.attached;
  }
  return images;
}

}  // namespace afterimage
