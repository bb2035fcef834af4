// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/decode.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace testing;

struct Sample {
  const char* name;
  Modality modality;
  FileContent file;
};

/// A small file of every format and of every storage variant that is decoded differently.
std::vector<Sample> all_kinds() {
  const Image picture = make_picture(21, 18);
  const auto jpeg = [&picture](auto change) {
    JpegContent content{.width = 21, .height = 18, .samples = picture.rgb};
    change(content);
    return make_jpeg(content);
  };
  std::vector<float> wave(300);
  for (std::size_t i = 0; i < wave.size(); ++i) wave[i] = static_cast<float>(i % 37) / 40.0F;
  const std::vector<Image> film = {make_picture(9, 7, 1), make_picture(9, 7, 2),
                                   make_picture(9, 7, 3)};
  return {
      {"PNG", Modality::kImage, make_png(picture)},
      {"interlaced PNG", Modality::kImage,
       make_png({.width = 21, .height = 18, .interlaced = true, .rows = picture.rgb})},
      {"turned PNG", Modality::kImage,
       make_png({.width = 21, .height = 18, .rows = picture.rgb, .exif = make_exif(6)})},
      {"palette PNG", Modality::kImage,
       make_png_palette(4, 1, {0, 1, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 128})},
      {"JPEG", Modality::kImage, jpeg([](auto&) {})},
      {"turned JPEG", Modality::kImage, jpeg([](auto& c) { c.exif_orientation = 8; })},
      {"progressive JPEG", Modality::kImage, jpeg([](auto& c) { c.progressive = true; })},
      {"JPEG in three scans", Modality::kImage, jpeg([](auto& c) { c.separate_scans = true; })},
      {"arithmetic JPEG", Modality::kImage, jpeg([](auto& c) { c.arithmetic = true; })},
      {"JPEG with restarts", Modality::kImage, jpeg([](auto& c) { c.restart_rows = 1; })},
      {"lossless WebP", Modality::kImage, make_webp(picture)},
      {"lossy WebP", Modality::kImage, make_webp_lossy(picture, 50)},
      {"turned WebP", Modality::kImage, make_webp_exif(picture, 5)},
      {"animated WebP", Modality::kVideo, make_webp_animation(film, 40)},
      {"GIF", Modality::kImage, make_gif({film[0]}, 10)},
      {"animated GIF", Modality::kVideo, make_gif(film, 10)},
      {"WAV", Modality::kAudio, make_wav(wave, 8000, 2)},
      {"float WAV", Modality::kAudio, make_wav_float(wave, 8000)},
      {"FLAC", Modality::kAudio, make_flac(wave, 8000)},
  };
}

/// The whole result of a decode as one row of numbers, for comparison.
using Outcome = Result<std::vector<double>>;

void append(std::vector<double>& row, const Image& image) {
  row.push_back(image.width);
  row.push_back(image.height);
  row.insert(row.end(), image.rgb.begin(), image.rgb.end());
}

Outcome decode(const MediaItem& item, const MediaLimits& limits = {}) {
  std::vector<double> row;
  switch (item.modality) {
    case Modality::kImage: {
      AFI_TRY(const Image image, decode_image(item, limits));
      append(row, image);
      break;
    }
    case Modality::kAudio: {
      AFI_TRY(const Samples samples, decode_audio(item, limits));
      row.push_back(samples.sample_rate_hz);
      row.insert(row.end(), samples.mono.begin(), samples.mono.end());
      break;
    }
    case Modality::kVideo: {
      AFI_TRY(const std::vector<Frame> frames, decode_video(item, limits));
      for (const Frame& frame : frames) {
        row.push_back(static_cast<double>(frame.at.count()));
        append(row, frame.image);
      }
      break;
    }
  }
  return row;
}

/// PNG's IEND, and the second eXIf that libpng writes before it.
constexpr std::size_t kTrailer = 50;

// CVE-2026-22773: an image of one pixel crashed a server. Images of one row or column crash other
// decoders.
TEST(Decode, DecodesImagesOfOnePixelRowOrColumn) {
  for (const auto& [width, height] : {std::pair{1U, 1U}, std::pair{1U, 40U}, std::pair{40U, 1U}}) {
    const Image picture = make_picture(width, height);
    for (const FileContent& file : {make_png(picture), make_jpeg(picture), make_webp(picture),
                                    make_webp_lossy(picture, 50), make_gif({picture}, 10)}) {
      const MediaItem item = media_item(Modality::kImage, file);
      const Image decoded = decode_image(item).value();
      EXPECT_EQ(std::pair(decoded.width, decoded.height), std::pair(width, height));
      EXPECT_EQ(decoded.rgb.size(), std::size_t{3} * width * height);
    }
  }
}

TEST(Decode, ATruncatedFileIsAnErrorOrComplete) {
  for (const Sample& sample : all_kinds()) {
    const Outcome whole = decode(media_item(sample.modality, sample.file));
    ASSERT_TRUE(whole.has_value()) << sample.name << ": " << to_string(whole.error());
    for (std::size_t size = 0; size < sample.file.size(); ++size) {
      const Outcome cut = decode(media_item(sample.modality, cut_to(sample.file, size)));
      const std::size_t missing = sample.file.size() - size;
      if (cut.has_value()) {
        EXPECT_EQ(*cut, *whole) << sample.name << " cut to " << size;
        EXPECT_LE(missing, kTrailer) << sample.name << ": more than a trailer is missing";
      } else if (size >= 12) {
        EXPECT_EQ(cut.error().code, ErrorCode::kCorruption)
            << sample.name << " cut to " << size << ": " << cut.error().message;
      }
    }
  }
}

TEST(DecodeProperty, FlippedBitsNeverCrashOrExceedTheLimits) {
  const std::vector<Sample> samples = all_kinds();
  const MediaLimits limits{.max_side = 64,
                           .max_pixels = 4096,
                           .max_frames = 8,
                           .max_total_pixels = 8192,
                           .max_samples = 1000};
  for_each_seed(1500, [&](Rng& rng) {
    const Sample& sample = samples[rng.below(samples.size())];
    FileContent file = sample.file;
    for (std::uint64_t flips = 1 + rng.below(6); flips > 0; --flips) {
      file[rng.below(file.size())] ^= std::byte{1} << static_cast<int>(rng.below(8));
    }
    const MediaItem item = media_item(sample.modality, std::move(file));
    if (const auto image = decode_image(item, limits)) {
      ASSERT_LE(std::max(image->width, image->height), 64U) << sample.name;
      ASSERT_EQ(image->rgb.size(), 3U * image->width * image->height) << sample.name;
    }
    if (const auto frames = decode_video(item, limits)) {
      ASSERT_LE(frames->size(), 8U) << sample.name;
      for (const Frame& frame : *frames) ASSERT_LE(frame.image.rgb.size(), 3U * 4096);
    }
    if (const auto sound = decode_audio(item, limits)) {
      ASSERT_LE(sound->mono.size(), 1000U) << sample.name;
    }
  });
}

TEST(DecodeProperty, AFlippedBitOfAPngIsAnErrorOrChangesNothing) {
  const Sample sample = all_kinds()[2];
  const auto whole = decode(media_item(sample.modality, sample.file));
  for (std::size_t bit = 0; bit < 8 * sample.file.size(); ++bit) {
    FileContent file = sample.file;
    file[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    const auto flipped = decode(media_item(sample.modality, std::move(file)));
    ASSERT_TRUE(!flipped.has_value() || *flipped == *whole) << "bit " << bit;
  }
}

TEST(Decode, AppliesTheSameLimitsAsProbe) {
  const Image picture = make_picture(7, 5);
  const MediaItem image = media_item(Modality::kImage, make_png(picture));
  const MediaItem film = media_item(Modality::kVideo, make_gif({picture, picture}, 10));
  const MediaItem folder = folder_item({make_png(picture), make_png(picture)}, 1000);
  const MediaItem sound = media_item(Modality::kAudio, make_wav(std::vector<float>(10), 8000));
  const struct {
    const char* name;
    const MediaItem& item;
    MediaLimits limits;
  } kCases[] = {
      {"side", image, {.max_side = 6}},
      {"pixels", image, {.max_pixels = 34}},
      {"file", image, {.max_file = 10_B}},
      {"frames", film, {.max_frames = 1}},
      {"total", film, {.max_total_pixels = 69}},
      {"total of a folder", folder, {.max_total_pixels = 69}},
      {"samples", sound, {.max_samples = 9}},
  };
  for (const auto& c : kCases) {
    EXPECT_TRUE(decode(c.item).has_value()) << c.name;
    EXPECT_EQ(decode(c.item, c.limits).error().code, ErrorCode::kLimitExceeded) << c.name;
  }
}

// As Pillow's, and so vLLM's. EXIF orientation of an animation is not applied, as in players.
TEST(Decode, AnAnimationGivenAsAnImageIsItsFirstFrame) {
  const std::vector<Image> film = {make_picture(9, 7, 1), make_picture(9, 7, 2),
                                   make_picture(9, 7, 3)};
  for (const FileContent& file : {make_gif(film, 10), make_webp_animation(film, 40)}) {
    const MediaItem item = media_item(Modality::kImage, file);
    const MediaInfo info = probe(item).value();
    EXPECT_EQ(info.frames, 1U);
    EXPECT_EQ(info.length, Duration(0));
    EXPECT_EQ(decode_image(item).value().rgb, film[0].rgb);
    // Frames that are not looked at have no limits.
    EXPECT_TRUE(decode_image(item, {.max_frames = 1, .max_total_pixels = 63}).has_value());
    for (std::size_t size = 0; size + 1 < file.size(); ++size) {
      const auto cut = decode_image(media_item(Modality::kImage, cut_to(file, size)));
      if (cut.has_value()) EXPECT_EQ(cut->rgb, film[0].rgb) << size;
    }
  }
}

TEST(Decode, DecodesOnlyAsTheGivenModality) {
  const MediaItem image = media_item(Modality::kImage, make_webp(make_picture(4, 4)), "cat");
  EXPECT_EQ(decode_video(image).error().message, "cat: declared as image, but decoded as video");
  EXPECT_EQ(decode_audio(image).error().code, ErrorCode::kInvalidArgument);
}

TEST(Decode, AFolderPlaysItsFilesInOrderAtItsRate) {
  using namespace std::chrono_literals;
  const std::vector<Image> pictures = {make_picture(4, 3, 1), make_picture(4, 3, 2),
                                       make_picture(4, 3, 3)};
  const auto frames = decode_video(folder_item(
      {make_png(pictures[0]), make_webp(pictures[1]), make_gif({pictures[2]}, 10)}, 2500));
  ASSERT_TRUE(frames.has_value()) << to_string(frames.error());
  ASSERT_EQ(frames->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*frames)[i].image.rgb, pictures[i].rgb) << i;
    EXPECT_EQ((*frames)[i].at, i * 400ms) << i;
  }
}

TEST(Decode, ADamagedFrameOfAFolderIsNamed) {
  const FileContent good = make_png(make_picture(4, 3));
  const auto frames = decode_video(folder_item({good, cut_to(good, good.size() - 20)}, 1000));
  ASSERT_FALSE(frames.has_value());
  EXPECT_EQ(frames.error().code, ErrorCode::kCorruption);
  EXPECT_EQ(frames.error().message.substr(0, 22), "folder, frame 2 of 2: ");
}

}  // namespace
}  // namespace afterimage
