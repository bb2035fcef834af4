// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "bench/workload/workload.h"
#include "foundation/media/media_limits.h"
#include "foundation/platform/files.h"

namespace afterimage {

struct MediaLoaderOptions {
  std::string workload;       // path of the workload file: names are relative to its folder
  std::string images_folder;  // a folder with photos to use instead; empty: none
  MediaLimits limits;
};

/// Loads the media files that a workload names. Each file is read once and shared by all requests.
///
/// With an images folder, a name is looked up there: its whole path, then its last part. If none of
/// the workload's images is there, the photos in the folder replace the workload's images, in order
/// of name. Data URLs are decoded; their MIME type must match the bytes.
///
/// Errors   kNotFound, kLimitExceeded, kUnavailable: the file; kInvalidArgument: a malformed data
///          URL, or a declared format that does not match the bytes; kUnsupported: http and other
///          URLs. Messages name the media part.
/// Threads  Not thread-safe.
class MediaLoader {
 public:
  /// `files` outlives the loader. Fails if the folder cannot be listed or contains no images.
  static Result<MediaLoader> open(MediaLoaderOptions options, const Files& files);

  Result<MediaItem> load(const MediaReference& reference);
  /// The item alone; of a document its pages, rasterised once for all that name the file. Errors of
  /// DocumentReader, too.
  Result<std::vector<MediaItem>> load_parts(const MediaReference& reference);

  /// The photos used as replacements, by the workload's name.
  [[nodiscard]] const std::map<std::string, std::string>& stand_ins() const { return stand_ins_; }

 private:
  MediaLoader(MediaLoaderOptions options, const Files& files)
      : options_(std::move(options)), files_(&files) {}
  Result<std::string> place_of(const MediaReference& reference);
  Result<FileBytes> read(const std::string& path);
  Result<std::vector<FileBytes>> read_frames(const std::string& folder);

  MediaLoaderOptions options_;
  const Files* files_;
  std::vector<std::string> photos_;  // image files in images_folder
  std::map<std::string, std::string> stand_ins_;
  std::map<std::string, FileBytes> read_;  // by path
  std::map<FileBytes, std::vector<MediaItem>> pages_;
  bool names_are_in_folder_ = false;
};

}  // namespace afterimage
