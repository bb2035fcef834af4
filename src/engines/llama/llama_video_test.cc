// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engines/llama/llama_engine.h"
#include "engines/llama_library/frame_size.h"
#include "engines/llama_library/video_frames.h"
#include "foundation/media/decode.h"
#include "testing/demo_models.h"
#include "testing/media_files.h"
#include "testing/sound_files.h"
#include "testing/video_files.h"

namespace afterimage {
namespace {

using testing::FileContent;
using testing::make_png;
using testing::media_item;

const LlamaEngine& dense() {
  static const auto engine = LlamaEngine::create(testing::demo_options("dense")).value();
  return *engine;
}

/// Without the rows of the times between the pairs, which are zero.
std::vector<std::byte> pixel_rows(const EncoderOutput& output) {
  const Tensor& tensor = output.front();
  const std::size_t row = tensor.shape[1] * sizeof(float);
  std::vector<std::byte> kept;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += row) {
    const auto one = std::span(tensor.bytes).subspan(at, row);
    if (std::ranges::all_of(one, [](std::byte b) { return b == std::byte{0}; })) continue;
    kept.insert(kept.end(), one.begin(), one.end());
  }
  return kept;
}

// 20 seconds, 300 frames, of which 40 are seen.
TEST(LlamaVideo, OfALongClipTheSampledFramesAreDecodedOnly) {
  const LlamaEngine& engine = dense();
  const auto film = testing::film_frames(1, 300, 64, 48);
  const MediaItem clip = media_item(
      Modality::kVideo, testing::make_video({.frames = film, .frames_per_second = 15}), "film");
  ASSERT_GT(film.size(), MediaLimits{}.max_frames);
  const auto encoded = engine.encode(clip);
  ASSERT_TRUE(encoded.has_value()) << to_string(encoded.error());
  // The same pictures as files of a folder: what was sampled.
  std::vector<std::uint32_t> positions;
  for (const FramePair& pair : frame_pairs(300, std::chrono::seconds(20))) {
    positions.insert(positions.end(), {pair.first, pair.second});
  }
  const auto seen = decode_frames(clip, positions).value();
  std::vector<testing::FileContent> files;
  for (const Frame& frame : seen) files.push_back(make_png(frame.image));
  const auto of_folder = engine.encode(testing::folder_item(files, 2'000)).value();
  EXPECT_EQ(pixel_rows(of_folder), pixel_rows(*encoded));
  EXPECT_GT(pixel_rows(*encoded).size(), 0U);
}

// A minute in 1080p was a prompt of 122,000 tokens; the model's own processor makes 12,000 of it.
TEST(LlamaVideo, LargeFramesTakeTheTokensOfReducedOnes) {
  constexpr std::size_t kFrames = 120;
  const auto tokens_of = [](std::uint32_t side) {
    const FileContent frame = make_png(testing::make_picture(side, side));
    Request request;
    request.messages.push_back(
        {.role = Role::kUser,
         .parts = {testing::folder_item(std::vector<FileContent>(kFrames, frame), 2'000),
                   std::string("What happens?")}});
    return dense().prepare(request, std::vector<ContentDigest>(1)).value().spans.front().length;
  };
  ASSERT_EQ(seen_size({.width = 512, .height = 512}, kFrames, true),
            (FrameSize{.width = 448, .height = 448}));
  EXPECT_EQ(tokens_of(512), tokens_of(448));
  EXPECT_LT(tokens_of(320), tokens_of(448));
}

TEST(LlamaVideo, ADamagedClipIsNamedOnce) {
  testing::FileContent damaged = testing::make_video(testing::film_frames(1, 8, 64, 48));
  const std::string_view start = "mdat";
  const auto at =
      std::ranges::search(damaged, std::as_bytes(std::span(start))).begin() - damaged.begin();
  for (std::size_t i = 8; i < 300; ++i) damaged.at(static_cast<std::size_t>(at) + i) = std::byte{0};
  const auto encoded = dense().encode(media_item(Modality::kVideo, damaged, "film.mp4"));
  ASSERT_FALSE(encoded.has_value());
  EXPECT_EQ(encoded.error().code, ErrorCode::kCorruption);
  EXPECT_TRUE(encoded.error().message.starts_with("film.mp4: a frame")) << encoded.error().message;
}

TEST(LlamaVideo, ARecordingInWebmIsHeardAsItsSamples) {
  if (!testing::has_encoder("libopus")) GTEST_SKIP() << "libavcodec has no encoder for Opus";
  const auto engine = LlamaEngine::create(testing::demo_options("hearing")).value();
  for (const char* const container : {"webm", "mp4", "ogg"}) {
    const MediaItem recording = media_item(
        Modality::kAudio, testing::make_coded_sound({.samples = testing::make_sweep(48'000, 48'000),
                                                     .encoder = "libopus",
                                                     .container = container}));
    const Samples samples = decode_audio(recording).value();
    const MediaItem wav =
        media_item(Modality::kAudio, testing::make_wav_float(samples.mono, samples.sample_rate_hz));
    const auto heard = engine->encode(recording);
    ASSERT_TRUE(heard.has_value()) << container << ": " << to_string(heard.error());
    EXPECT_EQ(heard->front().bytes, engine->encode(wav).value().front().bytes) << container;
  }
  EXPECT_TRUE(engine->recipe(Modality::kAudio).options.at("sound").ends_with(sound_decoder()));
}

TEST(LlamaVideo, TheVideoDecoderIsPartOfTheRecipe) {
  EXPECT_EQ(dense().recipe(Modality::kVideo).options.at("decoder"), video_decoder());
}

}  // namespace
}  // namespace afterimage
