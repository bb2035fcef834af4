// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/picture_grid.h"

#include <array>
#include <memory>

#include "caches/similarity/dot.h"
#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"

namespace afterimage {
namespace {

constexpr std::size_t kColours = 3;

std::uint32_t side_of(std::size_t dimensions) {
  std::uint32_t side = 1;
  while (kColours * (side + 1) * (side + 1) <= dimensions) ++side;
  return side;
}

/// Subtracting the average keeps a dark and a light image of one scene similar, and keeps two
/// scenes from being similar just because of equal brightness.
Vector grid_of(const Image& image, std::size_t dimensions) {
  const std::uint32_t side = side_of(dimensions);
  const Image small = resize(image, side, side);
  std::array<double, kColours> average{};
  for (std::size_t i = 0; i < small.rgb.size(); ++i) average[i % kColours] += small.rgb[i];
  for (double& colour : average) colour /= static_cast<double>(side * side);
  Vector vector(dimensions, 0.0F);
  for (std::size_t i = 0; i < small.rgb.size(); ++i) {
    vector[i] = static_cast<float>(small.rgb[i] - average[i % kColours]);
  }
  normalize(vector);
  return vector;
}

}  // namespace

PictureGrid::PictureGrid(std::size_t dimensions, const MediaLimits& limits)
    : dimensions_(dimensions),
      limits_(limits),
      name_("picture-grid-1/" + std::to_string(dimensions)) {}

Result<PictureGrid> PictureGrid::create(std::size_t dimensions, const MediaLimits& limits) {
  if (dimensions < 12 || dimensions > 65'536) {
    return fail(ErrorCode::kInvalidArgument,
                "a picture grid has 12 to 65536 dimensions, not " + std::to_string(dimensions));
  }
  return PictureGrid(dimensions, limits);
}

Result<std::vector<Vector>> PictureGrid::embed(std::span<const EmbedInput> inputs) {
  std::vector<Vector> vectors;
  for (const EmbedInput& input : inputs) {
    const auto* bytes = std::get_if<std::span<const std::byte>>(&input);
    if (bytes == nullptr) {
      return fail(ErrorCode::kUnsupported, name_ + " embeds images only; the input is a text");
    }
    const MediaItem item{
        .modality = Modality::kImage,
        .files = {std::make_shared<const std::vector<std::byte>>(bytes->begin(), bytes->end())}};
    AFI_TRY(const Image image, decode_image(item, limits_));
    vectors.push_back(grid_of(image, dimensions_));
  }
  return vectors;
}

}  // namespace afterimage
