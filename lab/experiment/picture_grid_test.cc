// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/picture_grid.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "caches/similarity/dot.h"
#include "testing/embedder_conformance.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {
using testing::EmbedderConformance;
using testing::EmbedderFactory;
using testing::FileContent;

float similarity(const FileContent& a, const FileContent& b) {
  auto embedder = PictureGrid::create().value();
  const Vector x = embedder.embed_one(std::span(a)).value();
  const Vector y = embedder.embed_one(std::span(b)).value();
  return dot_product()(x.data(), y.data(), x.size());
}

std::string png(std::uint32_t seed) {
  const auto content = testing::make_png(testing::make_picture(64, 48, seed));
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

INSTANTIATE_TEST_SUITE_P(PictureGrid, EmbedderConformance,
                         ::testing::Values(EmbedderFactory{"picture_grid",
                                                           [] {
                                                             return std::make_unique<PictureGrid>(
                                                                 PictureGrid::create().value());
                                                           },
                                                           {png(1), png(2)},
                                                           true}));

TEST(PictureGrid, OneImageInTwoFormatsIsSimilar) {
  const Image picture = testing::make_picture(64, 48);
  EXPECT_NEAR(similarity(testing::make_png(picture), testing::make_webp(picture)), 1.0F, 1e-5F);
  EXPECT_GT(similarity(testing::make_png(picture), testing::make_jpeg(picture)), 0.8F);
}

TEST(PictureGrid, AnotherImageIsLessSimilar) {
  const FileContent one = testing::make_png(testing::make_picture(64, 48, 1));
  const FileContent other = testing::make_png(testing::make_picture(64, 48, 2));
  EXPECT_LT(similarity(one, other), 0.95F);
}

// A plain image is nothing but its average: two of them must not match for that.
TEST(PictureGrid, PlainImagesMatchNothing) {
  const FileContent red = testing::make_png(testing::make_plain(8, 8, 200, 0, 0));
  EXPECT_EQ(similarity(red, red), 0.0F);
}

TEST(PictureGrid, RejectsUnsupportedInput) {
  EXPECT_EQ(PictureGrid::create(11).error().code, ErrorCode::kInvalidArgument);
  auto embedder = PictureGrid::create().value();
  EXPECT_EQ(embedder.embed_one(std::string_view("a text")).error().code, ErrorCode::kUnsupported);
  FileContent torn = testing::make_png(testing::make_picture(64, 48));
  torn.resize(torn.size() / 2);
  EXPECT_EQ(embedder.embed_one(std::span<const std::byte>(torn)).error().code,
            ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
