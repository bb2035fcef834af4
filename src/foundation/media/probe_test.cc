// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foundation/media/media_limits.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

const std::vector<float> kHalfSecond(4000, 0.25F);

MediaItem image_of(FileContent file) {
  return media_item(Modality::kImage, std::move(file), "cat.jpg");
}
MediaItem audio_of(FileContent file) {
  return media_item(Modality::kAudio, std::move(file), "purr.wav");
}
MediaItem video_of(FileContent file) {
  return media_item(Modality::kVideo, std::move(file), "play.gif");
}

TEST(Sniff, UsesOnlyTheFirstBytes) {
  const struct {
    const char* name;
    FileContent file;
    FileFormat expected;
  } kCases[] = {
      {"nothing", {}, FileFormat::kUnknown},
      {"one byte", text_file("\xFF"), FileFormat::kUnknown},
      {"two bytes of JPEG", text_file("\xFF\xD8"), FileFormat::kUnknown},
      {"JPEG", text_file("\xFF\xD8\xFF"), FileFormat::kJpeg},
      {"PNG", text_file("\x89PNG\r\n\x1A\n"), FileFormat::kPng},
      {"PNG after a text-mode transfer", text_file("\x89PNG\n\x1A\n...."), FileFormat::kUnknown},
      {"GIF87a", text_file("GIF87a"), FileFormat::kGif},
      {"GIF89a", text_file("GIF89a"), FileFormat::kGif},
      {"GIF of another year", text_file("GIF90a"), FileFormat::kUnknown},
      {"RIFF alone", text_file("RIFF...."), FileFormat::kUnknown},
      {"WebP", text_file("RIFF....WEBP"), FileFormat::kWebp},
      {"WAV", text_file("RIFF....WAVE"), FileFormat::kWav},
      {"AVI", text_file("RIFF....AVI "), FileFormat::kUnknown},
      {"FLAC", text_file("fLaC"), FileFormat::kFlac},
      {"a large WAV", text_file("RF64....WAVE"), FileFormat::kWav},
      {"RF64 alone", text_file("RF64...."), FileFormat::kUnknown},
      {"CAF of another version", text_file({"caff\0\2\0\0", 8}), FileFormat::kUnknown},
  };
  for (const auto& c : kCases) EXPECT_EQ(sniff(c.file), c.expected) << c.name;
}

// The headers' length is the time until the last frame that is decoded ends.
TEST(Probe, SaysHowLongAVideoIs) {
  using std::chrono::milliseconds;
  const auto length = [](const MediaItem& item) { return probe(item)->length; };
  EXPECT_EQ(
      length(folder_item({make_png(make_picture(8, 8)), make_png(make_picture(8, 8, 2))}, 4'000)),
      milliseconds(500));
  const std::vector<Image> frames(3, make_picture(8, 8));
  for (const MediaItem& item :
       {video_of(make_gif(frames, 7)), video_of(make_webp_animation(frames, 70))}) {
    EXPECT_EQ(length(item), milliseconds(210)) << to_string(probe(item)->format);
  }
  EXPECT_EQ(length(image_of(make_png(make_picture(8, 8)))), milliseconds(0));
}

TEST(Probe, ReadsImageHeaders) {
  const Image picture = make_picture(7, 5);
  const struct {
    const char* name;
    MediaItem item;
    FileFormat format;
    std::uint32_t frames;
  } kCases[] = {
      {"JPEG", image_of(make_jpeg(picture)), FileFormat::kJpeg, 1},
      {"PNG", image_of(make_png(picture)), FileFormat::kPng, 1},
      {"lossless WebP", image_of(make_webp(picture)), FileFormat::kWebp, 1},
      {"lossy WebP", image_of(make_webp_lossy(picture, 80)), FileFormat::kWebp, 1},
      {"still GIF", image_of(make_gif({picture}, 10)), FileFormat::kGif, 1},
      {"animated GIF", video_of(make_gif({picture, picture, picture}, 10)), FileFormat::kGif, 3},
      {"GIF of one frame", video_of(make_gif({picture}, 10)), FileFormat::kGif, 1},
      {"animated WebP", video_of(make_webp_animation({picture, picture}, 40)), FileFormat::kWebp,
       2},
      {"still WebP as a video", video_of(make_webp(picture)), FileFormat::kWebp, 1},
      {"folder", folder_item({make_png(picture), make_jpeg(picture)}, 24'000), FileFormat::kPng, 2},
      {"folder of one", folder_item({make_png(picture)}, 24'000), FileFormat::kPng, 1},
  };
  for (const auto& c : kCases) {
    const auto info = probe(c.item);
    ASSERT_TRUE(info.has_value()) << c.name << ": " << to_string(info.error());
    EXPECT_EQ(info->format, c.format) << c.name;
    EXPECT_EQ(info->width, 7U) << c.name;
    EXPECT_EQ(info->height, 5U) << c.name;
    EXPECT_EQ(info->frames, c.frames) << c.name;
    EXPECT_EQ(info->samples, 0U) << c.name;
  }
}

TEST(Probe, ReadsAudioHeaders) {
  for (const auto& file : {make_wav(kHalfSecond, 4000, 2), make_wav_float(kHalfSecond, 4000, 2),
                           make_flac(kHalfSecond, 4000, 2)}) {
    const auto info = probe(audio_of(file));
    ASSERT_TRUE(info.has_value()) << to_string(info.error());
    EXPECT_EQ(info->sample_rate_hz, 4000U);
    EXPECT_EQ(info->channels, 2U);
    EXPECT_EQ(info->samples, 2000U);
    EXPECT_EQ(info->frames, 0U);
  }
}

TEST(Probe, ReportsTheUprightSize) {
  for (std::uint32_t orientation = 1; orientation <= 8; ++orientation) {
    const auto info = probe(image_of(make_jpeg(make_picture(7, 5), 90, orientation)));
    ASSERT_TRUE(info.has_value());
    const bool lies_on_its_side = orientation >= 5;
    EXPECT_EQ(info->width, lies_on_its_side ? 5U : 7U) << orientation;
    EXPECT_EQ(info->height, lies_on_its_side ? 7U : 5U) << orientation;
  }
}

TEST(Probe, RefusesAnotherModalityAndNamesTheFormat) {
  const FileContent png = make_png(make_picture(2, 2));
  const FileContent wav = make_wav(kHalfSecond, 8000);
  const FileContent moving = make_gif({make_picture(2, 2), make_picture(2, 2)}, 10);
  const struct {
    const char* name;
    MediaItem item;
    const char* message;
  } kCases[] = {
      {"no file", {.name = "cat.jpg"}, "cat.jpg: no file"},
      {"empty file", image_of({}), "cat.jpg: the file is empty"},
      {"nameless", {.modality = Modality::kAudio}, "unnamed audio: no file"},
      {"sound as image", image_of(wav),
       "cat.jpg: a WAV file, given as an image; JPEG, PNG, WebP, GIF, HEIC, AVIF, BMP, TIFF, ICO "
       "and JPEG 2000 are read here: send it as audio"},
      {"image as sound", audio_of(png),
       "purr.wav: a PNG file, given as audio; WAV, FLAC, MP3, AIFF, CAF, Ogg, AMR, AAC, and the "
       "sound "
       "of MP4, WebM and Matroska files are read here: send it as an image"},
      {"still as video", video_of(png), "play.gif: a PNG file, given as a video"},
      {"sound as video", video_of(wav), "play.gif: a WAV file, given as a video"},
      {"HTML", image_of(text_file("<!DOCTYPE html>\n<p>404 not found</p>")),
       "cat.jpg: an HTML file, given as an image; JPEG, PNG, WebP, GIF, HEIC, AVIF, BMP, TIFF, "
       "ICO and JPEG 2000 are read here: its "
       "address is that of a page, not of a file"},
      {"a sentence", image_of(text_file("BMW makes cars, and bikes")),
       "cat.jpg: text that starts with \"BMW makes cars, and bike\", given as an image"},
      {"MP4 as image",
       image_of(text_file(std::string_view("\0\0\0\x18"
                                           "ftypmp42",
                                           12))),
       "an MP4 file, given as an image"},
      {"HEIC",
       video_of(text_file(std::string_view("\0\0\0\x18"
                                           "ftypheic",
                                           12))),
       "play.gif: a HEIC file, given as a video"},
      {"AVI", video_of(text_file(std::string_view("RIFF\0\0\0\0AVI LIST", 16))),
       "play.gif: an AVI file, given as a video; MP4, WebM, Matroska, animated GIF and WebP, and "
       "folders of still frames are read here: convert it to MP4"},
      {"bytes", image_of(text_file("\x01\x02\xFE")), "bytes that start with 01 02 fe"},
      {"sound in a folder", folder_item({png, wav}, 1000),
       "folder, frame 2 of 2: a WAV file, given as a frame of a video"},
      {"animation in a folder", folder_item({png, moving}, 1000),
       "folder, frame 2 of 2: a GIF animation of 2 frames"},
      {"frames of two sizes", folder_item({png, make_png(make_picture(2, 3))}, 1000),
       "folder, frame 2 of 2: 2x3 pixels, but the first frame has 2x2"},
      {"folder without a rate", folder_item({png, png}, 0), "needs a frame rate"},
      {"silence", audio_of(make_wav({}, 8000)), "purr.wav: the file contains no samples"},
  };
  for (const auto& c : kCases) {
    const auto info = probe(c.item);
    ASSERT_FALSE(info.has_value()) << c.name;
    EXPECT_EQ(info.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_THAT(info.error().message, HasSubstr(c.message)) << c.name;
  }
}

TEST(Probe, TwoFilesAreNotOneImage) {
  MediaItem item = image_of(make_png(make_picture(2, 2)));
  item.files.push_back(item.files[0]);
  EXPECT_THAT(probe(item).error().message, HasSubstr("2 files, given as one image"));
}

TEST(Probe, RefusesForgedAndBrokenHeaders) {
  const FileContent png = make_png(make_picture(4, 4));
  const FileContent jpeg = make_jpeg(make_picture(16, 16));
  const FileContent gif = make_gif({make_picture(4, 4)}, 10);
  const std::size_t sof = find_text(jpeg, "\xFF\xC0");
  const std::size_t gif_image = find_text(gif, std::string_view(",\0\0\0\0", 5));
  const struct {
    const char* name;
    FileContent file;
    ErrorCode expected;
  } kCases[] = {
      {"PNG of 60,000 x 60,000", png_claiming(60'000, 60'000), ErrorCode::kLimitExceeded},
      {"PNG of 2^31 - 1 squared", png_claiming(0x7FFF'FFFF, 0x7FFF'FFFF),
       ErrorCode::kLimitExceeded},
      {"PNG of no width", png_claiming(0, 4), ErrorCode::kCorruption},
      {"PNG of no height", png_claiming(4, 0), ErrorCode::kCorruption},
      {"PNG with a wrong checksum", with_big(png, 16, 5, 4), ErrorCode::kCorruption},
      {"PNG without pixels", cut_to(png, 33), ErrorCode::kCorruption},
      {"JPEG of 65,535 x 65,535", jpeg_claiming(65'535, 65'535), ErrorCode::kLimitExceeded},
      {"JPEG of no width", jpeg_claiming(0, 4), ErrorCode::kCorruption},
      {"JPEG of a height told later", jpeg_claiming(4, 0), ErrorCode::kUnsupported},
      {"JPEG of 12 bits", with_big(jpeg, sof + 4, 12, 1), ErrorCode::kUnsupported},
      {"lossless JPEG", with_big(jpeg, sof + 1, 0xC3, 1), ErrorCode::kUnsupported},
      {"JPEG segment of no length", with_big(jpeg, 4, 0, 2), ErrorCode::kCorruption},
      {"JPEG that is only its magic", cut_to(jpeg, 3), ErrorCode::kCorruption},
      {"GIF frame of no height", with_little(gif, gif_image + 7, 0, 2), ErrorCode::kCorruption},
      {"GIF that is only its magic", cut_to(gif, 6), ErrorCode::kCorruption},
      {"GIF that ends within its frame", cut_to(gif, gif.size() - 2), ErrorCode::kCorruption},
      {"GIF that ends within a name of a record", with_big(gif, gif.size() - 1, 0x21, 1),
       ErrorCode::kCorruption},
      {"WebP that is only its magic", cut_to(make_webp(make_picture(4, 4)), 12),
       ErrorCode::kCorruption},
  };
  for (const auto& c : kCases) {
    const auto info = probe(image_of(c.file));
    ASSERT_FALSE(info.has_value()) << c.name;
    EXPECT_EQ(info.error().code, c.expected) << c.name << ": " << info.error().message;
    EXPECT_THAT(info.error().message, HasSubstr("cat.jpg: ")) << c.name;
  }
}

TEST(Probe, AMessageAboutALimitSaysWhatWasFoundAndWhatIsAllowed) {
  const auto info = probe(image_of(png_claiming(60'000, 50'000)));
  EXPECT_EQ(
      info.error().message,
      "cat.jpg: a PNG of 60000x50000 pixels; at most 16384 per side and 64000000 in total are "
      "allowed");
}

TEST(ProbeLimits, HoldExactlyAtTheBorder) {
  const Image picture = make_picture(7, 5);
  const MediaItem image = image_of(make_png(picture));
  const MediaItem lying = image_of(make_jpeg(picture, 90, 6));
  const MediaItem video = video_of(make_gif({picture, picture, picture}, 10));
  const MediaItem folder = folder_item({make_png(picture), make_png(picture)}, 1000);
  const MediaItem audio = audio_of(make_wav(kHalfSecond, 8000, 2));
  const struct {
    const char* name;
    const MediaItem& item;
    MediaLimits allowed;
    MediaLimits forbidden;
  } kCases[] = {
      {"side", image, {.max_side = 7}, {.max_side = 6}},
      {"longer side upright", lying, {.max_side = 7}, {.max_side = 6}},
      {"pixels", image, {.max_pixels = 35}, {.max_pixels = 34}},
      {"frames", video, {.max_frames = 3}, {.max_frames = 2}},
      {"pixels of all frames", video, {.max_total_pixels = 105}, {.max_total_pixels = 104}},
      {"pixels of one frame", video, {.max_pixels = 35}, {.max_pixels = 34}},
      {"frames of a folder", folder, {.max_frames = 2}, {.max_frames = 1}},
      {"pixels of a folder", folder, {.max_total_pixels = 70}, {.max_total_pixels = 69}},
      {"side in a folder", folder, {.max_side = 7}, {.max_side = 6}},
      {"samples a channel", audio, {.max_samples = 2000}, {.max_samples = 1999}},
      {"file size",
       image,
       {.max_file = Bytes(image.files[0]->size())},
       {.max_file = Bytes(image.files[0]->size() - 1)}},
      {"file size in a folder",
       folder,
       {.max_file = Bytes(folder.files[0]->size())},
       {.max_file = Bytes(folder.files[0]->size() - 1)}},
  };
  for (const auto& c : kCases) {
    EXPECT_TRUE(probe(c.item, c.allowed).has_value()) << c.name;
    const auto refused = probe(c.item, c.forbidden);
    ASSERT_FALSE(refused.has_value()) << c.name;
    EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded) << c.name;
    EXPECT_THAT(refused.error().message, HasSubstr("at most")) << c.name;
  }
}

}  // namespace
}  // namespace afterimage
