// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "foundation/media/decode.h"
#include "foundation/media/probe.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

MediaItem item(FileContent file) { return media_item(Modality::kAudio, std::move(file), "purr"); }

Result<Samples> decode(FileContent file) { return decode_audio(item(std::move(file))); }

/// A tone that gets louder: a shift of a few samples shows.
std::vector<float> swell(std::size_t samples, std::uint32_t rate_hz) {
  std::vector<float> wave;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto at = static_cast<float>(i) / static_cast<float>(rate_hz);
    const float loudness = 0.7F * static_cast<float>(i) / static_cast<float>(samples);
    wave.push_back(loudness * std::sin(2 * 3.14159265F * 440 * at));
  }
  return wave;
}

double mean_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    sum += std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
  }
  return sum / static_cast<double>(expected.size());
}

/// Of a file without tags: the bytes up to the next frame of the same version.
std::size_t first_frame_bytes(const FileContent& file) {
  for (std::size_t at = 24; at + 2 < file.size(); ++at) {
    if (file[at] == file[0] && file[at + 1] == file[1]) return at;
  }
  return 0;
}

FileContent joined(std::initializer_list<FileContent> parts) {
  FileContent all;
  for (const FileContent& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Mp3, GivesBackAsManySamplesAsWereEncodedWhereTheyWere) {
  for (const std::uint32_t rate :
       {8'000U, 11'025U, 12'000U, 16'000U, 22'050U, 24'000U, 32'000U, 44'100U, 48'000U}) {
    const std::vector<float> wave = swell(rate + 17, rate);
    const FileContent file = make_mp3(wave, rate);
    const auto info = probe(item(file));
    ASSERT_TRUE(info.has_value()) << rate << ": " << to_string(info.error());
    EXPECT_EQ(info->format, FileFormat::kMp3);
    EXPECT_EQ(info->samples, wave.size()) << rate;
    const auto samples = decode(file);
    ASSERT_TRUE(samples.has_value()) << rate << ": " << to_string(samples.error());
    EXPECT_EQ(samples->sample_rate_hz, rate);
    ASSERT_EQ(samples->mono.size(), wave.size());
    EXPECT_LT(mean_error(samples->mono, wave), 0.02) << rate;
  }
}

TEST(Mp3, ChannelsAreAveraged) {
  std::vector<float> stereo;
  for (const float sample : swell(20'000, 44'100)) stereo.insert(stereo.end(), {sample, 0.0F});
  const auto samples = decode(make_mp3(stereo, 44'100, 2));
  ASSERT_TRUE(samples.has_value());
  ASSERT_EQ(samples->mono.size(), 20'000U);
  std::vector<float> expected;
  for (std::size_t i = 0; i < stereo.size(); i += 2) expected.push_back(stereo[i] / 2);
  EXPECT_LT(mean_error(samples->mono, expected), 0.01);
}

// An estimate from the first frames' bit rate would be wrong.
TEST(Mp3, WithoutNotesEveryFrameIsSound) {
  std::vector<float> wave(30'000, 0.0F);
  const std::vector<float> loud = swell(60'000, 44'100);
  wave.insert(wave.end(), loud.begin(), loud.end());
  for (const bool variable : {false, true}) {
    FileContent file = make_mp3(wave, 44'100, 1, variable);
    const auto notes = static_cast<std::ptrdiff_t>(first_frame_bytes(file));
    file.erase(file.begin(), file.begin() + notes);
    const auto samples = decode(file);
    ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
    EXPECT_EQ(samples->mono.size() % 1152, 0U);
    EXPECT_GT(samples->mono.size(), wave.size());
    EXPECT_LT(samples->mono.size(), wave.size() + 4 * std::size_t{1152});
  }
}

TEST(Mp3, TagsAreNoSound) {
  const FileContent file = make_mp3(swell(8'000, 16'000), 16'000);
  const auto expected = decode(file).value().mono;
  const FileContent front =
      joined({text_file("ID3\x03"), FileContent(5), FileContent{std::byte{40}},
              text_file("cover \xFF\xFB\x90\x44, which is no frame"), FileContent(11)});
  const FileContent back = joined({text_file("TAG"), FileContent(125, std::byte{' '})});
  FileContent ape = joined({text_file("APETAGEX"), FileContent(24)});
  ape[12] = std::byte{32 + 10};  // ten bytes of items, and itself
  const FileContent items(10, std::byte{0xFF});
  for (const FileContent& tagged :
       {joined({front, file}), joined({front, front, file}), joined({file, back}),
        joined({file, items, ape}), joined({file, items, ape, back}),
        joined({file, FileContent(500)}), joined({front, FileContent(64), file, back})}) {
    const auto samples = decode(tagged);
    ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
    EXPECT_EQ(samples->mono, expected);
  }
}

TEST(Mp3, OneFrameIsEnough) {
  FileContent one = make_mp3(swell(2'000, 16'000), 16'000, 1, false);
  one.resize(first_frame_bytes(one));
  const auto samples = decode(one);
  ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
  EXPECT_EQ(samples->mono.size(), 576U);
}

TEST(Mp3, AnyPartOfAFileIsRefused) {
  const FileContent file = make_mp3(swell(6'000, 16'000), 16'000);
  ASSERT_TRUE(decode(file).has_value());
  for (std::size_t size = 1; size < file.size(); ++size) {
    FileContent part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decode(std::move(part)).has_value()) << size;
  }
}

TEST(Mp3, RefusesForgedHeaders) {
  const FileContent file = make_mp3(swell(16'000, 16'000), 16'000);
  const FileContent other = make_mp3(swell(4'000, 24'000), 24'000);
  const std::size_t second = first_frame_bytes(file);
  const std::size_t frames = find_text(file, "Xing") + 8;
  FileContent junk = file;
  junk.insert(junk.begin() + static_cast<std::ptrdiff_t>(second), 3, std::byte{7});
  const struct {
    const char* name;
    FileContent file;
    ErrorCode code;
    const char* message;
  } kCases[] = {
      {"a frame more than there are", with_big(file, frames, 1000, 4), ErrorCode::kCorruption,
       "purr: an MP3 that declares 1000 frames but has"},
      {"bytes between frames", junk, ErrorCode::kCorruption, "no MP3 frame at byte"},
      {"another rate after some frames", joined({file, other}), ErrorCode::kUnsupported,
       "rate or channels change"},
      {"free format", with_big(file, 2, 0x04, 1), ErrorCode::kInvalidArgument, "given as audio"},
      {"a tag and nothing else", joined({text_file("ID3\x03"), FileContent(6)}),
       ErrorCode::kUnsupported, "no MP3 frame of a stated length"},
      {"a tag that never ends", joined({text_file("ID3\x03"), FileContent(6, std::byte{0x7F})}),
       ErrorCode::kUnsupported, "no MP3 frame of a stated length"},
      {"layer II", with_big(file, 1, 0xFD, 1), ErrorCode::kInvalidArgument, "WAV, FLAC, MP3"},
  };
  for (const auto& c : kCases) {
    const auto samples = decode(c.file);
    ASSERT_FALSE(samples.has_value()) << c.name;
    EXPECT_EQ(samples.error().code, c.code) << c.name << ": " << samples.error().message;
    EXPECT_THAT(samples.error().message, HasSubstr(c.message)) << c.name;
  }
}

TEST(Mp3, DamageIsRefusedOrChangesOnlySound) {
  const FileContent file = make_mp3(swell(4'000, 16'000), 16'000);
  for (std::size_t bit = 0; bit < file.size() * 8; bit += 7) {
    FileContent damaged = file;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto samples = decode(damaged);
    if (!samples.has_value()) continue;
    const auto info = probe(item(damaged));
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(samples->mono.size(), info->samples) << bit;
  }
}

TEST(Mp3, GivenAsAnotherModality) {
  const MediaItem image = media_item(Modality::kImage, make_mp3(swell(600, 8'000), 8'000), "purr");
  const auto info = probe(image);
  ASSERT_FALSE(info.has_value());
  EXPECT_EQ(
      info.error().message,
      "purr: an MP3 file, given as an image; JPEG, PNG, WebP, GIF, HEIC, AVIF, BMP, TIFF, ICO "
      "and JPEG 2000 are read here: "
      "send it as audio");
}

}  // namespace
}  // namespace afterimage
