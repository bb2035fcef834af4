// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/media/testing/lies.h"
#include "testing/seeds.h"
#include "testing/video_files.h"

namespace afterimage {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

MediaItem video(const VideoContent& content) {
  return media_item(Modality::kVideo, make_video(content), "clip.mp4");
}

/// The mean difference of two images of one size.
double difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) {
    sum += std::abs(int{a.rgb[i]} - int{b.rgb[i]});
  }
  return sum / static_cast<double>(a.rgb.size());
}

struct Coding {
  const char* encoder;
  const char* container;
  int frames_between_keys;
};
std::vector<Coding> codings() {
  std::vector<Coding> all{{"mjpeg", "mp4", 1}, {"mjpeg", "matroska", 1}, {"mjpeg", "mov", 1}};
  if (has_encoder("libx264")) {
    all.insert(all.end(),
               {{"libx264", "mp4", 1}, {"libx264", "mp4", 6}, {"libx264", "matroska", 6}});
  }
  if (has_encoder("libvpx-vp9")) all.push_back({"libvpx-vp9", "webm", 6});
  return all;
}

// As browsers record windows: colours that two pixels share were a pixel off at the right edge. The seed of the fuzzer
// is of tests/media/make_seeds.py.
TEST(Video, ColoursOfAnOddNumberOfPixelsAreInTheirPlaces) {
  std::ifstream file(AFTERIMAGE_MEDIA_SEEDS "/mp4_odd", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(text.size(), 1U);
  const auto frames = decode_video(
      media_item(Modality::kVideo, text_file(std::string_view(text).substr(1)), "clip.mp4"));
  ASSERT_TRUE(frames.has_value()) << to_string(frames.error());
  const Image& image = frames->at(0).image;
  ASSERT_EQ(image.width, 161U);
  int most = 0;
  for (std::uint32_t x = 0; x < 161; ++x) {
    if (x % 8 == 0 || x % 8 == 7) continue;  // colours are soft at the edges of a stripe
    const bool is_red = x / 8 % 2 == 0;
    const int expected[3] = {is_red ? 200 : 60, 60, is_red ? 60 : 200};
    for (std::size_t i = 0; i < 3; ++i) {
      most = std::max(most, std::abs(image.rgb[3 * (std::size_t{8} * 161 + x) + i] - expected[i]));
    }
  }
  EXPECT_LT(most, 24);
}

TEST(Video, EveryCodecInEveryContainerShowsTheFramesThatWentIn) {
  for (const Coding& coding : codings()) {
    const auto film = film_frames(3, 9, 64, 48);
    const MediaItem item = video({.frames = film,
                                  .encoder = coding.encoder,
                                  .container = coding.container,
                                  .frames_between_keys = coding.frames_between_keys});
    const std::string what = std::string(coding.encoder) + " in " + coding.container;
    const auto info = probe(item);
    ASSERT_TRUE(info.has_value()) << what << ": " << to_string(info.error());
    EXPECT_EQ(info->frames, 9U) << what;
    EXPECT_EQ(info->width, 64U);
    EXPECT_EQ(info->height, 48U);
    EXPECT_EQ(info->length, 900ms) << what;
    const auto frames = decode_video(item);
    ASSERT_TRUE(frames.has_value()) << what << ": " << to_string(frames.error());
    ASSERT_EQ(frames->size(), 9U);
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_LT(difference((*frames)[i].image, film[i]), 6) << what << ", frame " << i;
      EXPECT_EQ((*frames)[i].at, static_cast<std::int64_t>(i) * 100ms) << what;
    }
  }
}

// As cameras and hardware encode. FFmpeg's decoder calls each of them damaged where its concealment of errors is off.
TEST(Video, FramesOfSeveralSlicesAreWhole) {
  if (!has_encoder("libx264")) GTEST_SKIP() << "libavcodec has no encoder for H.264";
  const auto film = film_frames(3, 6, 64, 96);
  for (const int between_keys : {1, 6}) {
    const FileContent file = make_video(
        {.frames = film, .encoder = "libx264", .frames_between_keys = between_keys, .slices = 3});
    const auto frames = decode_video(media_item(Modality::kVideo, file, "clip.mp4"));
    ASSERT_TRUE(frames.has_value()) << to_string(frames.error());
    ASSERT_EQ(frames->size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_LT(difference((*frames)[i].image, film[i]), 6) << i;
  }
}

TEST(Video, DecodesTheSameBitsEachTime) {
  for (const Coding& coding : codings()) {
    const MediaItem item = video({.frames = film_frames(1, 7, 34, 46),
                                  .encoder = coding.encoder,
                                  .container = coding.container,
                                  .frames_between_keys = coding.frames_between_keys});
    const auto once = decode_video(item).value();
    const auto again = decode_video(item).value();
    for (std::size_t i = 0; i < once.size(); ++i) {
      ASSERT_EQ(once[i].image.rgb, again[i].image.rgb) << coding.encoder << ", frame " << i;
    }
  }
}

TEST(Video, TheSameFramesInAnotherContainerHaveTheSamePixels) {
  VideoContent content{.frames = film_frames(1, 5, 64, 48), .frames_between_keys = 1};
  const auto mp4 = decode_video(video(content)).value();
  content.container = "matroska";
  const auto matroska = decode_video(video(content)).value();
  for (std::size_t i = 0; i < mp4.size(); ++i) {
    EXPECT_EQ(mp4[i].image.rgb, matroska[i].image.rgb) << i;
  }
}

TEST(Video, SomeFramesAreThoseOfTheWhole) {
  for (const Coding& coding : codings()) {
    const MediaItem item = video({.frames = film_frames(1, 12, 32, 32),
                                  .encoder = coding.encoder,
                                  .container = coding.container,
                                  .frames_between_keys = coding.frames_between_keys});
    const auto all = decode_video(item).value();
    for_each_seed(12, [&](Rng& rng) {
      std::vector<std::uint32_t> positions;
      for (std::uint32_t i = 0; i < 12; ++i) {
        if (rng.chance(0.3)) positions.push_back(i);
      }
      const auto some = decode_frames(item, positions).value();
      ASSERT_EQ(some.size(), positions.size());
      for (std::size_t i = 0; i < some.size(); ++i) {
        ASSERT_EQ(some[i].image.rgb, all[positions[i]].image.rgb) << coding.encoder;
        ASSERT_EQ(some[i].at, all[positions[i]].at);
      }
    });
  }
}

/// Of packets of which those of `shown` are wanted: whether it lies behind the last wanted one before the next key.
std::vector<bool> behind_the_last_wanted(const std::vector<PacketPlace>& packets,
                                         const std::set<std::int64_t>& shown) {
  std::vector<bool> behind(packets.size());
  bool is_behind = true;
  for (std::size_t i = packets.size(); i-- > 0;) {
    is_behind = is_behind && i > 0 && !shown.contains(packets[i].time);
    behind[i] = is_behind;
    if (packets[i].is_key) is_behind = true;
  }
  return behind;
}

// Many phones begin anew each second: of what lies behind the last wanted frame of a second nothing is decoded, nor of
// whole seconds between two wanted ones. Damage is not noticed there, which shows that it was skipped.
TEST(Video, WhatNoWantedFrameIsDecodedFromIsSkipped) {
  std::vector<Image> film;  // of four scenes
  for (std::uint32_t scene = 0; scene < 4; ++scene)
    film.insert(film.end(), 6, film_frames(scene, 1, 64, 48)[0]);
  const std::uint32_t wanted[] = {0, 1, 13, 14};
  for (const Coding& coding : codings()) {
    if (coding.encoder == "mjpeg"sv) continue;  // its frames may share tables
    const FileContent whole = make_video({.frames = film,
                                          .encoder = coding.encoder,
                                          .container = coding.container,
                                          .frames_between_keys = coding.frames_between_keys});
    const auto expected =
        decode_frames(media_item(Modality::kVideo, whole, "clip.mp4"), wanted).value();
    const auto packets = packets_in(whole);
    std::vector<std::int64_t> times;
    for (const PacketPlace& packet : packets) times.push_back(packet.time);
    std::ranges::sort(times);
    const auto behind =
        behind_the_last_wanted(packets, {times[0], times[1], times[12], times[13], times[14]});
    EXPECT_GE(std::ranges::count(behind, true), 12) << coding.encoder;
    FileContent damaged = whole;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (!behind[i]) continue;
      for (std::size_t at = 5; at < packets[i].size; ++at)
        damaged.at(packets[i].at + at) ^= std::byte{0x5a};
    }
    const auto some = decode_frames(media_item(Modality::kVideo, damaged, "clip.mp4"), wanted);
    ASSERT_TRUE(some.has_value()) << to_string(some.error()) << ", " << coding.encoder;
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ((*some)[i].image.rgb, expected[i].image.rgb) << i;
  }
}

TEST(Video, DecodeFramesPicksFromEveryKindOfVideo) {
  const auto pictures = film_frames(1, 4, 8, 8);
  std::vector<FileContent> files;
  for (const Image& picture : pictures) files.push_back(make_png(picture));
  const MediaItem items[] = {folder_item(files, 1'000),
                             media_item(Modality::kVideo, make_gif(pictures, 10)),
                             media_item(Modality::kVideo, make_webp_animation(pictures, 100))};
  const std::uint32_t wanted[] = {1, 3};
  const std::uint32_t beyond[] = {4};
  for (const MediaItem& item : items) {
    const auto some = decode_frames(item, wanted).value();
    ASSERT_EQ(some.size(), 2U);
    EXPECT_EQ(some[0].image.rgb, pictures[1].rgb);
    EXPECT_EQ(some[1].image.rgb, pictures[3].rgb);
    EXPECT_EQ(decode_frames(item, beyond).error().code, ErrorCode::kCorruption);
  }
}

// A nanosecond less would be a sampled frame less: int(seconds * 2).
TEST(Video, TwentySecondsAreTwentySeconds) {
  for (const std::uint32_t rate : {7U, 15U, 30U}) {
    VideoContent content{.frames = film_frames(1, 2, 16, 16), .frames_per_second = rate};
    while (content.frames.size() < std::size_t{20} * rate)
      content.frames.push_back(content.frames[0]);
    EXPECT_EQ(probe(video(content)).value().length, 20s) << rate;
  }
}

TEST(FrameReader, ReadsOneFrameAfterTheOtherAndAWantedOneAgain) {
  const auto pictures = film_frames(1, 12, 32, 32);
  std::vector<FileContent> files;
  for (const Image& picture : pictures) files.push_back(make_png(picture));
  std::vector<MediaItem> items{folder_item(files, 1'000),
                               media_item(Modality::kVideo, make_gif(pictures, 10)),
                               media_item(Modality::kVideo, make_webp_animation(pictures, 100))};
  for (const Coding& coding : codings()) {
    items.push_back(video({.frames = pictures,
                           .encoder = coding.encoder,
                           .container = coding.container,
                           .frames_between_keys = coding.frames_between_keys}));
  }
  for (const MediaItem& item : items) {
    const auto all = decode_video(item).value();
    for_each_seed(8, [&](Rng& rng) {
      std::vector<std::uint32_t> positions;
      for (std::uint32_t i = 0; i < 12; ++i) {
        for (std::uint64_t times = rng.below(3); times > 0; --times) positions.push_back(i);
      }
      FrameReader reader = FrameReader::open(item, positions).value();
      for (const std::uint32_t position : positions) {
        const auto frame = reader.next().value();
        ASSERT_TRUE(frame.has_value());
        ASSERT_EQ(frame->image.rgb, all[position].image.rgb) << item.name << " " << position;
        ASSERT_EQ(frame->at, all[position].at);
      }
      EXPECT_EQ(reader.next().value(), std::nullopt);
    });
  }
}

TEST(FrameReader, MoreFramesThanAreKeptAtATimeAreReadInTurn) {
  const MediaItem item = video({.frames = film_frames(1, 12, 32, 32)});
  const MediaLimits limits{.max_frames = 2, .max_total_pixels = 2 * 32 * 32};
  std::vector<std::uint32_t> all(12);
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(decode_frames(item, all, limits).error().code, ErrorCode::kLimitExceeded);
  FrameReader reader = FrameReader::open(item, all, limits).value();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(reader.next().value().has_value()) << i;
}

TEST(FrameReader, AfterAnErrorThereAreOnlyErrors) {
  const FileContent whole = make_video(film_frames(1, 4, 32, 32));
  const std::size_t data = find_text(whole, "mdat");
  FileContent damaged = whole;
  for (std::size_t i = 8; i < 300; ++i) damaged.at(data + i) = std::byte{0};
  const std::uint32_t wanted[] = {0, 1, 3};
  const MediaItem item = media_item(Modality::kVideo, damaged, "clip.mp4");
  FrameReader reader = FrameReader::open(item, wanted).value();
  for (int call = 0; call < 5; ++call) {
    const auto frame = reader.next();
    ASSERT_FALSE(frame.has_value()) << call;
    EXPECT_EQ(frame.error().code, ErrorCode::kCorruption);
  }
  const std::uint32_t beyond[] = {4};
  EXPECT_EQ(FrameReader::open(item, beyond).error().code, ErrorCode::kCorruption);
}

// Chrome's recorder: 321x181 in the container, where H.264 of 320x180 is.
TEST(Video, TheSizeOfH264IsTheStreamsOwn) {
  if (!has_encoder("libx264")) GTEST_SKIP() << "libavcodec has no encoder for H.264";
  const auto film = film_frames(1, 4, 64, 36);  // coded as 64x48, of which 12 lines are cut off
  FileContent file = make_video({.frames = film, .encoder = "libx264", .frames_between_keys = 4});
  const auto expected = decode_video(media_item(Modality::kVideo, file)).value();
  const std::size_t entry = find_text(file, "avc1\0\0\0\0\0\0"sv);
  file = with_big(std::move(file), entry + 28, 65, 2);
  file = with_big(std::move(file), entry + 30, 37, 2);
  const MediaItem item = media_item(Modality::kVideo, file);
  const auto info = probe(item);
  ASSERT_TRUE(info.has_value()) << to_string(info.error());
  EXPECT_EQ(info->width, 64U);
  EXPECT_EQ(info->height, 36U);
  const auto frames = decode_video(item);
  ASSERT_TRUE(frames.has_value()) << to_string(frames.error());
  ASSERT_EQ(frames->size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ((*frames)[i].image.rgb, expected[i].image.rgb);
  EXPECT_EQ(probe(item, {.max_side = 63}).error().code, ErrorCode::kLimitExceeded);
}

TEST(Video, ASoundTrackIsSkipped) {
  const auto info = probe(video({.frames = film_frames(1, 3, 32, 32), .with_sound_track = true}));
  ASSERT_TRUE(info.has_value()) << to_string(info.error());
  EXPECT_EQ(info->frames, 3U);
}

TEST(Video, IsTurnedUpright) {
  const MediaItem flat = video({.frames = film_frames(1, 2, 64, 32)});
  const Image upright = decode_video(flat).value()[0].image;
  for (const int turns : {1, 2, 3}) {
    const MediaItem item = video({.frames = film_frames(1, 2, 64, 32), .quarter_turns = turns});
    const Image turned = decode_video(item).value()[0].image;
    EXPECT_EQ(probe(item)->width, turns == 2 ? 64U : 32U) << turns;
    EXPECT_EQ(turned.width, turns == 2 ? 64U : 32U) << turns;
    // The pixel at the top left of what is stored, seen after the turn.
    const std::size_t x = turns == 3 ? 0 : turned.width - 1;
    const std::size_t y = turns == 1 ? 0 : turned.height - 1;
    EXPECT_TRUE(
        std::equal(upright.rgb.begin(), upright.rgb.begin() + 3,
                   turned.rgb.begin() + static_cast<std::ptrdiff_t>(3 * (y * turned.width + x))))
        << turns;
  }
}

TEST(Video, ACutFileIsNeverAShorterVideo) {
  for (const Coding& coding : codings()) {
    const FileContent whole = make_video({.frames = film_frames(1, 6, 32, 32),
                                          .encoder = coding.encoder,
                                          .container = coding.container,
                                          .frames_between_keys = coding.frames_between_keys});
    const std::size_t step = std::max<std::size_t>(1, whole.size() / 400);
    for (std::size_t size = 12; size < whole.size(); size += step) {
      const MediaItem item = media_item(Modality::kVideo, cut_to(whole, size));
      ASSERT_FALSE(decode_video(item).has_value()) << coding.encoder << " in " << coding.container
                                                   << " cut to " << size << " of " << whole.size();
    }
  }
}

TEST(VideoProperty, FlippedBitsAreAnErrorOrAVideoWithinTheLimits) {
  const FileContent whole = make_video({.frames = film_frames(1, 4, 32, 32),
                                        .encoder = has_encoder("libx264") ? "libx264" : "mjpeg",
                                        .frames_between_keys = 4});
  const MediaLimits limits{.max_side = 256, .max_pixels = 16'384, .max_frames = 16};
  for_each_seed(400, [&](Rng& rng) {
    FileContent file = whole;
    for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      file[rng.below(file.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    }
    const auto frames = decode_video(media_item(Modality::kVideo, file), limits);
    if (!frames.has_value()) return;
    ASSERT_LE(frames->size(), limits.max_frames);
    for (const Frame& frame : *frames) {
      ASSERT_LE(std::max(frame.image.width, frame.image.height), limits.max_side);
    }
  });
}

TEST(Video, LimitsAreCheckedBeforeAnythingIsDecoded) {
  const MediaItem item = video({.frames = film_frames(1, 6, 64, 48)});
  const struct {
    const char* name;
    MediaLimits limits;
    const char* said;
  } kCases[] = {
      {"side", {.max_side = 63}, "64x48 pixels"},
      {"pixels", {.max_pixels = 3'071}, "64x48 pixels"},
      {"frames of a file", {.max_video_frames = 5}, "more than 5 frames"},
      {"decoded pixels", {.max_decoded_pixels = 5 * 3'072}, "more than 5 frames"},
      {"file", {.max_file = 100_B}, "100"},
  };
  for (const auto& c : kCases) {
    const auto refused = probe(item, c.limits);
    ASSERT_FALSE(refused.has_value()) << c.name;
    EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded) << c.name;
    EXPECT_NE(refused.error().message.find(c.said), std::string::npos) << refused.error().message;
  }
  EXPECT_TRUE(probe(item, {.max_frames = 2}).has_value()) << "two of them may be kept";
  EXPECT_EQ(decode_video(item, {.max_frames = 2}).error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(decode_video(item, {.max_total_pixels = 5 * 3'072}).error().code,
            ErrorCode::kLimitExceeded);
  const std::uint32_t two[] = {0, 5};
  EXPECT_TRUE(decode_frames(item, two, {.max_frames = 2}).has_value());
}

/// With another number of samples in the table of sizes: what a bomb claims.
TEST(Video, ATableOfFramesThatTheFileDoesNotHoldIsRefused) {
  const FileContent whole = make_video(film_frames(1, 4, 32, 32));
  const auto expected = decode_video(media_item(Modality::kVideo, whole)).value();
  const std::size_t table = find_text(whole, "stsz");
  for (const std::uint32_t claimed : {5U, 1'000'000U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    for (const std::uint32_t size_of_all : {0U, 1U, 900U}) {
      FileContent file = with_big(whole, table + 12, claimed, 4);
      file = with_big(std::move(file), table + 8, size_of_all, 4);
      const auto frames = decode_video(media_item(Modality::kVideo, file));
      if (!frames.has_value()) continue;
      ASSERT_EQ(frames->size(), 4U) << claimed << " of " << size_of_all;
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ((*frames)[i].image.rgb, expected[i].image.rgb) << "the table's end was found";
      }
    }
  }
}

TEST(Video, OtherFilesAreRefusedByName) {
  const auto refused = [](const FileContent& file) {
    return to_string(probe(media_item(Modality::kVideo, file, "clip")).error());
  };
  FileContent heic = make_video(film_frames(1, 1, 32, 32));
  const std::string_view brand = "heic";
  std::transform(brand.begin(), brand.end(), heic.begin() + 8, [](char c) { return std::byte(c); });
  EXPECT_NE(refused(heic).find("HEIC"), std::string::npos) << refused(heic);
  EXPECT_NE(refused(text_file("hello, this is text")).find("text that starts"), std::string::npos);
  const MediaItem as_image = media_item(Modality::kImage, make_video(film_frames(1, 1, 32, 32)));
  EXPECT_EQ(probe(as_image).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace afterimage
