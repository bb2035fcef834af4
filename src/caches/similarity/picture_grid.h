// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/media.h"
#include "caches/similarity/embedder.h"

namespace afterimage {

/// Pictures by what colour is where: the picture scaled to a small grid, less its average. Built
/// in, learns nothing: one picture in two files is near itself, and so are two shots of one camera,
/// also where they show different things. It stands in for an encoder of pictures in experiments.
///
/// Shape    The largest square grid with three colours a field that fits into the dimensions; the
///          rest is zero.
/// Errors   kUnsupported: a text. As decode_image() for what is no picture, or too large.
/// Source   src/vectors/DESIGN.md.
class PictureGrid final : public Embedder {
 public:
  /// kInvalidArgument: fewer than 12 or more than 65,536 dimensions.
  static Result<PictureGrid> create(std::size_t dimensions = 512, const MediaLimits& limits = {});

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return dimensions_; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override;

 private:
  PictureGrid(std::size_t dimensions, const MediaLimits& limits);

  std::size_t dimensions_;
  MediaLimits limits_;
  std::string name_;
};

}  // namespace afterimage
