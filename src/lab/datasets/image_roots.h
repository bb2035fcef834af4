// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/datasets/sample.h"

namespace afterimage {

/// Folders below which pictures are looked for, in order.
///
/// Names     What the data set names, below each root; then <id>.jpg, .jpeg, .png, and
///           <first three characters of id>/<id> with these endings.
/// Safety    A name is data of a stranger: what leads out of all roots is not opened, and neither
/// is
///           what is larger than the limit. What was found must be a picture. Links below a root
///           are its owner's, and are followed.
/// Threads   Any.
class ImageRoots {
 public:
  /// `files` outlives them.
  ImageRoots(std::vector<std::string> roots, const Files& files, MediaLimits limits = {});

  struct Found {
    std::string path;
    FileBytes bytes;
  };
  /// kNotFound: there is none; kInvalidArgument: its names lead out of the roots, or it is no
  /// picture; kLimitExceeded.
  [[nodiscard]] Result<Found> find(const Sample& sample) const;
  /// The picture once more, from where it was found.
  [[nodiscard]] Result<FileBytes> bytes_of(const Sample& sample) const;

  [[nodiscard]] const std::vector<std::string>& roots() const { return roots_; }

 private:
  std::vector<std::string> roots_;
  const Files* files_;
  MediaLimits limits_;
};

/// What became of the pictures that samples name.
struct AttachedImages {
  std::size_t attached = 0;
  std::size_t missing = 0;    // named, and not there
  std::string first_missing;  // why, of the first
};

/// Finds each sample's picture and notes its digest. A sample without one is asked without.
AttachedImages attach_images(std::span<Sample> samples, const ImageRoots& roots);

}  // namespace afterimage
