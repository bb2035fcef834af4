// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/media.h"
#include "caches/similarity/embedder.h"
#include "foundation/media/media_limits.h"

namespace afterimage {

/// Image embedder: the image scaled down to a small grid, minus its average colour. Built in, needs
/// no model: one image in two formats is similar to itself, but so are two shots of one camera that
/// show different things. It stands in for an image encoder in experiments.
///
/// Shape    The largest square grid with three colour values per cell that fits into the
///          dimensions; the rest is zero.
/// Errors   kUnsupported: a text. As decode_image() for undecodable or too large images.
/// Source   lab/experiment/DESIGN.md.
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
