// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/media/media_limits.h"
#include "foundation/platform/files.h"
#include "lab/datasets/sample.h"

namespace afterimage {

/// Folders below which images are searched, in order.
///
/// Names    The names from the data set, below each root; then <id>.jpg, .jpeg, .png, and <first
///          three characters of id>/<id> with these extensions.
/// Safety   Names are untrusted: paths outside the roots and files above the size limit are not
///          opened, and the file must be an image. Symbolic links below a root are the operator's
///          and are followed.
/// Threads  Any.
class ImageRoots {
 public:
  /// `files` outlives this object.
  ImageRoots(std::vector<std::string> roots, const Files& files, MediaLimits limits = {});

  struct Found {
    std::string path;
    FileBytes bytes;
  };
  /// kNotFound: not found; kInvalidArgument: its names lead outside the roots, or the file is not
  /// an image; kLimitExceeded.
  [[nodiscard]] Result<Found> find(const Sample& sample) const;
  /// Reads the image again from where it was found.
  [[nodiscard]] Result<FileBytes> bytes_of(const Sample& sample) const;

  [[nodiscard]] const std::vector<std::string>& roots() const { return roots_; }

 private:
  std::vector<std::string> roots_;
  const Files* files_;
  MediaLimits limits_;
};

/// Counts of images found and missing.
struct AttachedImages {
  std::size_t attached = 0;
  std::size_t missing = 0;    // named but not found
  std::string first_missing;  // reason for the first of those
};

/// Finds each sample's image and stores its digest. A sample without an image is used without one.
AttachedImages attach_images(std::span<Sample> samples, const ImageRoots& roots);

}  // namespace afterimage
