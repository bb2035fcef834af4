// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
extern "C" {
#include <libavformat/avformat.h>
}

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/media/testing/lies.h"
#include "testing/seeds.h"
#include "testing/sound_files.h"
#include "testing/video_files.h"

namespace afterimage {
namespace {

using namespace testing;

MediaItem sound(FileContent file, std::string name = "sound") {
  return media_item(Modality::kAudio, std::move(file), std::move(name));
}

/// The mean difference of two sounds of one length, channels averaged.
double difference(const std::vector<float>& decoded, const std::vector<float>& original,
                  std::uint32_t channels) {
  double sum = 0;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    double mean = 0;
    for (std::uint32_t c = 0; c < channels; ++c) mean += original[i * channels + c];
    sum += std::abs(decoded[i] - mean / channels);
  }
  return sum / static_cast<double>(decoded.size());
}

struct Coding {
  const char* encoder;
  const char* container;
  std::uint32_t rate_hz;
  const char* options;
  double most;  // difference; a shift by one sample is 0.02
};
std::vector<Coding> codings() {
  std::vector<Coding> all{{"aac", "mp4", 48'000, "", 0.012},
                          {"aac", "mp4", 44'100, "", 0.012},
                          {"aac", "mp4", 16'000, "", 0.012},
                          {"aac", "mp4", 48'000, "movie_timescale=48000", 0.012},
                          {"alac", "mp4", 44'100, "", 1e-4},
                          {"flac", "mp4", 48'000, "strict=-2", 1e-4},
                          {"flac", "ogg", 44'100, "", 1e-4},
                          {"flac", "matroska", 48'000, "", 1e-4},
                          {"pcm_f32le", "matroska", 48'000, "", 1e-6},
                          {"pcm_s16le", "matroska", 16'000, "", 1e-4}};
  if (has_encoder("libopus")) {
    all.insert(all.end(), {{"libopus", "ogg", 48'000, "", 0.012},
                           {"libopus", "ogg", 48'000, "page_duration=20000", 0.012},
                           {"libopus", "webm", 48'000, "", 0.012},
                           {"libopus", "matroska", 48'000, "live=1", 0.012},
                           {"libopus", "mp4", 48'000, "", 0.012}});
  }
  if (has_encoder("libmp3lame")) {
    all.insert(all.end(), {{"libmp3lame", "mp4", 44'100, "movie_timescale=44100", 0.016},
                           {"libmp3lame", "mp4", 48'000, "movie_timescale=48000", 0.016},
                           {"libmp3lame", "mp4", 16'000, "movie_timescale=16000", 0.016}});
  }
  if (has_encoder("libvorbis")) all.push_back({"libvorbis", "ogg", 44'100, "", 0.012});
  return all;
}
std::string name_of(const Coding& coding) {
  return std::string(coding.encoder) + " in " + coding.container + " " + coding.options;
}
FileContent make(const Coding& coding, const std::vector<float>& samples, std::uint32_t channels) {
  return make_coded_sound({.samples = samples,
                           .rate_hz = coding.rate_hz,
                           .channels = channels,
                           .encoder = coding.encoder,
                           .container = coding.container,
                           .options = coding.options});
}

TEST(CodedSound, HasExactlyTheSamplesThatWentIn) {
  for (const Coding& coding : codings()) {
    for (const std::uint32_t channels : {1U, 2U}) {
      for (const std::size_t count : {9'001UL, 30'720UL, 51'234UL}) {
        const auto samples = make_sweep(count, coding.rate_hz, channels);
        const MediaItem item = sound(make(coding, samples, channels));
        const auto info = probe(item);
        ASSERT_TRUE(info.has_value()) << name_of(coding) << ": " << to_string(info.error());
        EXPECT_EQ(info->sample_rate_hz, coding.rate_hz) << name_of(coding);
        EXPECT_EQ(info->channels, channels) << name_of(coding);
        EXPECT_EQ(info->samples, count) << name_of(coding);
        const auto decoded = decode_audio(item);
        ASSERT_TRUE(decoded.has_value()) << name_of(coding) << ": " << to_string(decoded.error());
        ASSERT_EQ(decoded->mono.size(), info->samples) << name_of(coding);
        if (info->samples != count) continue;
        EXPECT_LT(difference(decoded->mono, samples, channels), coding.most) << name_of(coding);
        EXPECT_EQ(decode_audio(item)->mono, decoded->mono) << name_of(coding);
      }
    }
  }
}

// With vector instructions three of four samples of Opus have other last bits.
TEST(CodedSound, HasTheSamplesOfAMachineWithoutVectorInstructions) {
  for (const Coding& coding : codings()) {
    const MediaItem item = sound(make(coding, make_sweep(20'000, coding.rate_hz, 2), 2));
    const auto usual = decode_audio(item).value();
    use_plain_c(true);
    const auto plain = decode_audio(item).value();
    use_plain_c(false);
    EXPECT_EQ(usual.mono, plain.mono) << name_of(coding);
  }
}

// FFmpeg does not write into Matroska which samples are the encoder's, where it is MP3.
TEST(CodedSound, Mp3InMatroskaHasTheSamplesOfTheEncoderInFront) {
  if (!has_encoder("libmp3lame")) GTEST_SKIP() << "libavcodec has no encoder for MP3";
  const auto samples = make_sweep(20'000, 44'100);
  const auto decoded = decode_audio(sound(make_coded_sound(
      {.samples = samples, .rate_hz = 44'100, .encoder = "libmp3lame", .container = "matroska"})));
  ASSERT_TRUE(decoded.has_value()) << to_string(decoded.error());
  // Until FFmpeg 8, which writes how many they are.
  const std::size_t before = LIBAVFORMAT_VERSION_MAJOR >= 62 ? 0 : 1'105;
  ASSERT_EQ(decoded->mono.size(), samples.size() + before);
  EXPECT_LT(
      difference({decoded->mono.begin() + static_cast<std::ptrdiff_t>(before), decoded->mono.end()},
                 samples, 1),
      0.016);
}

// mkvmerge writes the rate of what was encoded, where FFmpeg's encoder of Opus writes 48 kHz.
TEST(CodedSound, PaddingOfOpusInMatroskaIsNotCountedAtTheRateOfItsSource) {
  if (!has_encoder("libopus")) GTEST_SKIP() << "libavcodec has no encoder for Opus";
  FileContent file = make_coded_sound(
      {.samples = make_sweep(30'000, 48'000), .encoder = "libopus", .container = "matroska"});
  const auto expected = decode_audio(sound(file)).value();
  ASSERT_EQ(expected.mono.size(), 30'000U);
  // SamplingFrequency, a double: 48,000 becomes 8,000.
  const std::size_t rate = find_text(file, std::string("\xB5\x88\x40\xE7\x70", 5)) + 2;
  file = with_big(std::move(file), rate, 0x40BF'4000, 4);
  const auto decoded = decode_audio(sound(file));
  ASSERT_TRUE(decoded.has_value()) << to_string(decoded.error());
  EXPECT_EQ(decoded->sample_rate_hz, 48'000U);
  EXPECT_EQ(decoded->mono, expected.mono);
}

// FFmpeg writes 2.2 ms of padding into the container and 6.5 ms into the header of the sound, which is right: it counts
// samples of the encoder's input as if there were 48,000 a second.
TEST(CodedSound, OpusOfSpeechInMatroskaBeginsWhereItsOwnHeaderSays) {
  if (!has_encoder("libopus")) GTEST_SKIP() << "libavcodec has no encoder for Opus";
  const auto decoded = decode_audio(sound(make_coded_sound({.samples = make_sweep(16'000, 16'000),
                                                            .rate_hz = 16'000,
                                                            .encoder = "libopus",
                                                            .container = "matroska"})));
  ASSERT_TRUE(decoded.has_value()) << to_string(decoded.error());
  EXPECT_EQ(decoded->sample_rate_hz, 48'000U);
  EXPECT_EQ(decoded->mono.size(), 48'000U);
}

// What recorders of browsers write: the length is in the fragments. Without an edit list nothing says
// which samples are the encoder's.
TEST(CodedSound, OfFragmentsIsReadToTheEnd) {
  const std::size_t count = 51'234;
  const auto samples = make_sweep(count, 48'000);
  const auto read = [&](const std::string& flags) {
    const auto decoded = decode_audio(
        sound(make_coded_sound({.samples = samples,
                                .encoder = "aac",
                                .options = "movflags=frag_keyframe+default_base_moof+" + flags +
                                           ":frag_duration=200000"})));
    EXPECT_TRUE(decoded.has_value()) << flags << ": " << to_string(decoded.error());
    return decoded.value_or(Samples{}).mono;
  };
  const auto exact = read("delay_moov");
  ASSERT_EQ(exact.size(), LIBAVFORMAT_VERSION_MAJOR >= 62 ? count : 51U * 1024)
      << "fragments hold whole frames until FFmpeg 8";
  EXPECT_LT(difference({exact.begin(), exact.begin() + count}, samples, 1), 0.012);
  const auto all = read("empty_moov");
  ASSERT_EQ(all.size(), exact.size() + 1024);
  EXPECT_TRUE(std::equal(exact.begin(), exact.end(), all.begin() + 1024));
}

TEST(CodedSound, WebmWithoutPicturesIsSoundAndWithThemAVideo) {
  if (!has_encoder("libopus")) GTEST_SKIP() << "libavcodec has no encoder for Opus";
  const auto samples = make_sweep(9'600, 48'000);
  for (const char* const container : {"webm", "mp4"}) {
    const auto file =
        make_coded_sound({.samples = samples, .encoder = "libopus", .container = container});
    EXPECT_EQ(modality_of(file), Modality::kAudio) << container;
    const auto as_video = probe(media_item(Modality::kVideo, file, "clip"));
    ASSERT_FALSE(as_video.has_value());
    EXPECT_TRUE(as_video.error().message.contains("a sound is sent as audio"));
  }
  const FileContent film = make_video(film_frames(1, 3, 32, 32));
  EXPECT_EQ(modality_of(film), Modality::kVideo);
  const auto silent = probe(sound(film));
  ASSERT_FALSE(silent.has_value());
  EXPECT_EQ(silent.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(silent.error().message.contains("no sound among its 1 tracks"));
}

TEST(CodedSound, AmrIsAFrameOfTwentyMillisecondsAfterTheOther) {
  for (const bool wide : {false, true}) {
    const MediaItem item = sound(make_amr(7, wide));
    const auto info = probe(item);
    ASSERT_TRUE(info.has_value()) << to_string(info.error());
    EXPECT_EQ(info->format, FileFormat::kAmr);
    EXPECT_EQ(info->sample_rate_hz, wide ? 16'000U : 8'000U);
    EXPECT_EQ(info->samples, wide ? 7U * 320 : 7U * 160);
    const auto decoded = decode_audio(item);
    ASSERT_TRUE(decoded.has_value()) << to_string(decoded.error());
    EXPECT_EQ(decoded->mono.size(), info->samples);
  }
}

// Its frames do not say which samples are the encoder's, so that none are cut off.
TEST(CodedSound, AdtsHasAllSamplesOfItsFrames) {
  const auto samples = make_sweep(20'000, 44'100);
  const FileContent file =
      make_coded_sound({.samples = samples, .rate_hz = 44'100, .container = "adts"});
  EXPECT_EQ(sniff(file), FileFormat::kAac);
  const auto info = probe(sound(file));
  ASSERT_TRUE(info.has_value()) << to_string(info.error());
  EXPECT_EQ(info->samples, 21U * 1024);
  const auto decoded = decode_audio(sound(file));
  ASSERT_TRUE(decoded.has_value()) << to_string(decoded.error());
  ASSERT_EQ(decoded->mono.size(), info->samples);
  const std::vector<float> behind(decoded->mono.begin() + 1024, decoded->mono.begin() + 21'024);
  EXPECT_LT(difference(behind, samples, 1), 0.012);
}

TEST(CodedSound, ACutFileIsAnErrorOrWholeFrames) {
  for (const Coding& coding : codings()) {
    const std::size_t count = 12'000;
    const FileContent whole = make(coding, make_sweep(count, coding.rate_hz), 1);
    const std::size_t step = std::max<std::size_t>(1, whole.size() / 60);
    for (std::size_t size = 12; size < whole.size(); size += step) {
      const auto decoded = decode_audio(sound(cut_to(whole, size)));
      const bool may_stop_anywhere = std::string_view(coding.options) == "live=1";
      ASSERT_TRUE(!decoded.has_value() || (may_stop_anywhere && decoded->mono.size() < count))
          << name_of(coding) << " cut to " << size << " of " << whole.size();
    }
  }
  for (const FileContent& whole : {make_amr(4, false), make_amr(4, true)}) {
    for (std::size_t size = 1; size < whole.size(); ++size) {
      const auto decoded = decode_audio(sound(cut_to(whole, size)));
      if (decoded.has_value()) EXPECT_EQ(decoded->mono.size() % 160, 0U) << size;
    }
  }
}

TEST(CodedSound, ADamagedOggPageIsAnError) {
  const FileContent whole = make_coded_sound(
      {.samples = make_sweep(20'000, 48'000), .encoder = "flac", .container = "ogg"});
  ASSERT_TRUE(decode_audio(sound(whole)).has_value());
  for_each_seed(200, [&](Rng& rng) {
    FileContent file = whole;
    file[rng.below(file.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    EXPECT_FALSE(decode_audio(sound(file)).has_value());
  });
}

TEST(CodedSoundProperty, FlippedBitsAreAnErrorOrSamplesWithinTheLimits) {
  const MediaLimits limits{.max_samples = 20'000};
  for (const Coding& coding : codings()) {
    const FileContent whole = make(coding, make_sweep(6'000, coding.rate_hz, 2), 2);
    for_each_seed(60, [&](Rng& rng) {
      FileContent file = whole;
      for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
        file[rng.below(file.size())] ^= static_cast<std::byte>(1U << rng.below(8));
      }
      const auto info = probe(sound(file), limits);
      const auto decoded = decode_audio(sound(file), limits);
      if (!decoded.has_value()) return;
      ASSERT_TRUE(info.has_value());
      ASSERT_EQ(decoded->mono.size(), info->samples);
      ASSERT_LE(decoded->mono.size(), limits.max_samples);
    });
  }
}

TEST(CodedSound, LimitsAreCheckedBeforeAllIsDecoded) {
  using std::chrono::steady_clock;
  for (const Coding& coding : codings()) {
    const MediaItem item = sound(make(coding, make_sweep(30'000, coding.rate_hz), 1), "long");
    const auto refused = probe(item, {.max_samples = 29'999});
    ASSERT_FALSE(refused.has_value()) << name_of(coding);
    EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded) << to_string(refused.error());
    EXPECT_TRUE(probe(item, {.max_samples = 30'000}).has_value()) << name_of(coding);
  }
  // 8 MiB of frames without content: an hour and a half, of which nothing is decoded.
  FileContent file = make_amr(0, false);
  while (file.size() < 8UL << 20U) file.insert(file.end(), 13, std::byte{0x04 & 0x78});
  for (std::size_t at = 6; at < file.size(); at += 13) file[at] = std::byte{0};
  const auto began = steady_clock::now();
  const auto refused = probe(sound(file), {.max_samples = 60ULL * 60 * 8'000});
  const auto took = steady_clock::now() - began;
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded) << to_string(refused.error());
  EXPECT_LT(took, std::chrono::milliseconds(300)) << "100 ms without a sanitizer";
}

TEST(CodedSound, FilesThatPromiseMoreThanTheyHoldAreRefusedSoonOrAsGoodAsWithoutThat) {
  using std::chrono::steady_clock;
  const auto samples = make_sweep(9'600, 48'000);
  const FileContent ogg =
      make_coded_sound({.samples = samples, .encoder = "flac", .container = "ogg"});
  const FileContent mp4 = make_coded_sound({.samples = samples});
  const std::string_view page = "OggS";
  const auto last =
      std::ranges::find_end(ogg, std::as_bytes(std::span(page))).begin() - ogg.begin();
  const std::size_t times = find_text(mp4, "stts");
  const std::size_t sizes = find_text(mp4, "stsz");
  const std::size_t edits = find_text(mp4, "elst");
  const struct {
    const char* name;
    FileContent file;
  } kCases[] = {
      {"a thousand years of Ogg",
       with_little(ogg, static_cast<std::size_t>(last) + 10, 0x7FFF'FFFF, 4)},
      {"a time of all ones on the last page",
       with_little(ogg, static_cast<std::size_t>(last) + 6, 0xFFFF'FFFF, 4)},
      {"four billion entries of times", with_big(mp4, times + 8, 0xFFFF'FFFF, 4)},
      {"four billion packets of a length", with_big(mp4, times + 12, 0xFFFF'FFFF, 4)},
      {"packets of a day", with_big(mp4, times + 16, 0x7FFF'FFFF, 4)},
      {"four billion sizes", with_big(mp4, sizes + 12, 0xFFFF'FFFF, 4)},
      {"packets of four gigabytes", with_big(mp4, sizes + 8, 0xFFFF'FFFF, 4)},
      {"four billion edits", with_big(mp4, edits + 8, 0xFFFF'FFFF, 4)},
      {"an edit behind the end", with_big(mp4, edits + 16, 0x7FFF'FFFF, 4)},
      {"a unit of time of zero", with_big(mp4, find_text(mp4, "mvhd") + 16, 0, 4)},
  };
  for (const auto& c : kCases) {
    const auto began = steady_clock::now();
    const auto decoded = decode_audio(sound(c.file));
    const auto took = steady_clock::now() - began;
    // Of a table that is too long its end is not needed.
    if (decoded.has_value()) EXPECT_EQ(decoded->mono.size(), samples.size()) << c.name;
    EXPECT_LT(took, std::chrono::milliseconds(300)) << c.name << "; 100 ms without a sanitizer";
  }
}

TEST(CodedSound, OfAnOggOfTwoStreamsOneAfterTheOtherIsRefused) {
  const FileContent one = make_coded_sound(
      {.samples = make_sweep(9'600, 48'000), .encoder = "flac", .container = "ogg"});
  FileContent both = one;
  both.insert(both.end(), one.begin(), one.end());
  EXPECT_FALSE(decode_audio(sound(both)).has_value());
}

}  // namespace
}  // namespace afterimage
