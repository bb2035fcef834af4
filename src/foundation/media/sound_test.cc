// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "foundation/media/decode.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Result<Samples> decode(FileContent file) {
  return decode_audio(media_item(Modality::kAudio, std::move(file), "purr"));
}

std::vector<float> tone(std::size_t samples) {
  std::vector<float> wave;
  for (std::size_t i = 0; i < samples; ++i) {
    wave.push_back(0.8F * std::sin(static_cast<float>(i) * 0.05F));
  }
  return wave;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1.0F / 16'384) << i;
  }
}

TEST(Sound, WavAndFlacGiveBackTheSamples) {
  for (const std::size_t count : {1U, 2U, 4095U, 4096U, 4097U, 10'000U}) {
    const std::vector<float> wave = tone(count);
    for (const FileContent& file :
         {make_wav(wave, 16'000), make_wav_float(wave, 16'000), make_flac(wave, 16'000)}) {
      const auto samples = decode(file);
      ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
      EXPECT_EQ(samples->sample_rate_hz, 16'000U);
      expect_near(samples->mono, wave);
    }
  }
}

TEST(Sound, ChannelsAreAveraged) {
  const std::vector<float> stereo = {0.5F, 0.25F, -0.5F, 0.5F, 0.0F, 1.0F};
  for (const FileContent& file :
       {make_wav(stereo, 8000, 2), make_wav_float(stereo, 8000, 2), make_flac(stereo, 8000, 2)}) {
    expect_near(decode(file)->mono, {0.375F, 0.0F, 0.5F});
  }
}

TEST(Sound, ClampsFloatsBeyondOneAndRefusesNaN) {
  EXPECT_EQ(decode(make_wav_float({2.0F, -3.0F}, 8000))->mono, (std::vector<float>{1.0F, -1.0F}));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto samples = decode(make_wav_float({0.0F, bad}, 8000));
    ASSERT_FALSE(samples.has_value());
    EXPECT_EQ(samples.error().code, ErrorCode::kCorruption);
  }
}

TEST(Sound, RefusesForgedHeaders) {
  const FileContent wav = make_wav(tone(100), 8000);
  const FileContent flac = make_flac(tone(100), 8000);
  const std::size_t format = find_text(wav, "fmt ") + 8;
  const std::size_t data = find_text(wav, "data") + 4;
  constexpr std::size_t kFlacSamples = 22;  // the low 32 bits
  const struct {
    const char* name;
    FileContent file;
    ErrorCode code;
    const char* message;
  } kCases[] = {
      {"two bytes more than there are", with_little(wav, data, 202, 4), ErrorCode::kCorruption,
       "purr: a WAV that declares 202 bytes of samples but has 200"},
      {"four gigabytes", with_little(wav, data, 0xFFFF'FFFF, 4), ErrorCode::kCorruption,
       "declares 4294967295 bytes"},
      {"half a sample", with_little(wav, data, 199, 4), ErrorCode::kCorruption,
       "199 bytes of samples of 2 bytes"},
      {"no channels", with_little(wav, format + 2, 0, 2), ErrorCode::kCorruption, "fmt"},
      {"65,535 channels", with_little(wav, format + 2, 65'535, 2), ErrorCode::kLimitExceeded,
       "65535 channels"},
      {"channels that disagree with the bytes a sample", with_little(wav, format + 2, 2, 2),
       ErrorCode::kCorruption, "purr: "},
      {"no rate", with_little(wav, format + 4, 0, 4), ErrorCode::kCorruption, "0 Hz"},
      {"ADPCM", with_little(wav, format, 2, 2), ErrorCode::kUnsupported, "encoding 0x0002"},
      {"no format", with_little(wav, format - 8, 0, 4), ErrorCode::kCorruption, "fmt"},
      {"FLAC with more samples", with_big(flac, kFlacSamples, 101, 4), ErrorCode::kCorruption,
       "purr: "},
      {"FLAC of ten hours", with_big(flac, kFlacSamples, 288'000'000, 4), ErrorCode::kLimitExceeded,
       "288000000 samples"},
      {"FLAC of an hour in a few bytes", with_big(flac, kFlacSamples, 100'000'000, 4),
       ErrorCode::kCorruption, "purr: "},
      {"FLAC of unknown length", with_big(flac, kFlacSamples, 0, 4), ErrorCode::kUnsupported,
       "state its length"},
      {"FLAC without STREAMINFO", with_big(flac, 4, 1, 1), ErrorCode::kCorruption, "STREAMINFO"},
  };
  for (const auto& c : kCases) {
    const auto samples = decode(c.file);
    ASSERT_FALSE(samples.has_value()) << c.name;
    EXPECT_EQ(samples.error().code, c.code) << c.name << ": " << samples.error().message;
    EXPECT_THAT(samples.error().message, HasSubstr(c.message)) << c.name;
  }
}

TEST(Sound, ADamagedFlacFrameIsCorruption) {
  FileContent file = make_flac(tone(20'000), 8000);
  file[file.size() - 1000] ^= std::byte{0x10};
  const auto samples = decode(file);
  ASSERT_FALSE(samples.has_value());
  EXPECT_EQ(samples.error().code, ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
