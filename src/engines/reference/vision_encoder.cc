// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/vision_encoder.h"

#include "afterimage/result.h"
#include "engines/reference/angle.h"

namespace afterimage {
namespace {

constexpr std::size_t kPatchesPerCell = 4;
constexpr std::uint64_t kSecondFrame = 100;  // of the random streams; the others are small numbers

PackedWeights patch_embedding(const VisionOptions& options, Rng rng) {
  return PackedWeights::random(3ULL * options.patch * options.patch, options.stack.width, rng);
}

// Patches are ordered cell by cell, so that the rows of a cell are adjacent when they are merged.
struct PatchPlace {
  std::size_t column;
  std::size_t row;
};
PatchPlace place_of(std::size_t index, CellGrid grid) {
  const std::size_t cell = index / kPatchesPerCell;
  const std::size_t inside = index % kPatchesPerCell;
  return {.column = 2 * (cell % grid.columns) + inside % 2,
          .row = 2 * (cell / grid.columns) + inside / 2};
}

std::size_t patch_count(CellGrid grid) {
  return kPatchesPerCell * static_cast<std::size_t>(grid.columns) * grid.rows;
}

std::vector<std::vector<float>> waves(std::size_t count, std::size_t size, const Kernels& kernels) {
  std::vector<std::vector<float>> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(position_wave(i, size, kernels));
  return result;
}

}  // namespace

VisionEncoder::VisionEncoder(const VisionOptions& options, std::size_t hidden,
                             const Kernels& kernels, Rng rng)
    : patch_(options.patch),
      planes_(options.deepstack_planes),
      kernels_(&kernels),
      embedding_(patch_embedding(options, rng.split(1))),
      second_(patch_embedding(options, rng.split(kSecondFrame))),
      stack_(options.stack, kernels, rng.split(2)) {
  for (std::size_t i = 0; i <= planes_; ++i) {
    projectors_.emplace_back(kPatchesPerCell * options.stack.width, hidden, kernels,
                             rng.split(3 + i));
  }
}

std::vector<Matrix> VisionEncoder::encode(const Image& image, CellGrid grid) const {
  AFI_CHECK(image.width == pixels(grid.columns) && image.height == pixels(grid.rows));
  return encode_patches(embedding_.times(patches(image, grid), *kernels_), grid);
}

std::vector<Matrix> VisionEncoder::encode_slice(const Image& both, CellGrid grid) const {
  const std::uint32_t height = pixels(grid.rows);
  AFI_CHECK(both.width == pixels(grid.columns) && both.height == 2 * height);
  Matrix x = embedding_.times(patches(both, grid), *kernels_);
  add(x, second_.times(patches(both, grid, height), *kernels_));
  return encode_patches(std::move(x), grid);
}

std::vector<Matrix> VisionEncoder::encode_patches(Matrix x, CellGrid grid) const {
  add_positions(x, grid);
  std::vector<Matrix> result(1);
  for (std::size_t layer = 0; layer < stack_.layers(); ++layer) {
    stack_.run(layer, x);
    const std::size_t plane = result.size() - 1;
    if (plane < planes_ && layer + 1 == (plane + 1) * stack_.layers() / (planes_ + 1)) {
      result.push_back(projectors_[plane + 1].project(Matrix(x).merged(kPatchesPerCell)));
    }
  }
  result.front() = projectors_.front().project(std::move(x).merged(kPatchesPerCell));
  return result;
}

Matrix VisionEncoder::patches(const Image& image, CellGrid grid, std::size_t below) const {
  Matrix x(patch_count(grid), 3 * patch_ * patch_);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const PatchPlace place = place_of(i, grid);
    float* to = x.row(i);
    for (std::size_t y = 0; y < patch_; ++y) {
      const std::size_t first =
          (below + place.row * patch_ + y) * image.width + place.column * patch_;
      const std::uint8_t* from = image.rgb.data() + 3 * first;
      for (std::size_t c = 0; c < 3 * patch_; ++c) {
        *to++ = static_cast<float>(from[c]) / 127.5F - 1.0F;
      }
    }
  }
  return x;
}

void VisionEncoder::add_positions(Matrix& x, CellGrid grid) const {
  const std::size_t half = x.columns() / 2;
  const auto across = waves(2 * static_cast<std::size_t>(grid.columns), half, *kernels_);
  const auto down = waves(2 * static_cast<std::size_t>(grid.rows), half, *kernels_);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const PatchPlace place = place_of(i, grid);
    for (std::size_t c = 0; c < half; ++c) {
      x.row(i)[c] += across[place.column][c];
      x.row(i)[half + c] += down[place.row][c];
    }
  }
}

}  // namespace afterimage
