// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/workload/workload.h"

namespace afterimage {

struct MediaLoaderOptions {
  std::string workload;       // path of the workload file: names are relative to its folder
  std::string images_folder;  // a person's own photos; empty: none
  MediaLimits limits;
};

/// Brings the bytes that a workload's media parts name. Each file is read once and shared by all
/// requests.
///
/// With a folder of photos, a name is looked up there: its whole path, then its last part. If no
/// image of the workload is there at all, the photos stand in for the workload's images, in order
/// of name. Data URLs are decoded; their MIME type must be what the bytes are.
///
/// Errors   kNotFound, kLimitExceeded, kUnavailable: the file; kInvalidArgument: a data URL that is
///          none, or a declared format that the bytes are not; kUnsupported: http and other URLs.
///          Messages name the part's own name.
/// Threads  Not thread-safe.
class MediaLoader {
 public:
  /// `files` outlives the loader. Errors if the folder cannot be listed or holds no pictures.
  static Result<MediaLoader> open(MediaLoaderOptions options, const Files& files);

  Result<MediaItem> load(const MediaReference& reference);

  /// Which photo stood in for which name, if any did.
  [[nodiscard]] const std::map<std::string, std::string>& stand_ins() const { return stand_ins_; }

 private:
  MediaLoader(MediaLoaderOptions options, const Files& files)
      : options_(std::move(options)), files_(&files) {}
  Result<std::string> place_of(const MediaReference& reference);
  Result<FileBytes> read(const std::string& path);
  Result<std::vector<FileBytes>> read_frames(const std::string& folder);

  MediaLoaderOptions options_;
  const Files* files_;
  std::vector<std::string> photos_;  // names in images_folder that are pictures
  std::map<std::string, std::string> stand_ins_;
  std::map<std::string, FileBytes> read_;  // by path
  bool names_are_in_folder_ = false;
};

}  // namespace afterimage
