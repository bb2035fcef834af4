// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "foundation/media/decode.h"
#include "foundation/media/probe.h"
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
      {"four gigabytes of a file of a stated length", with_little(wav, data, 0xFFFF'FFFF, 4),
       ErrorCode::kCorruption, "declares 4294967295 bytes"},
      {"half a sample", with_little(make_wav(tone(100), 8000, 2), data, 198, 4),
       ErrorCode::kCorruption, "198 bytes of samples of 4 bytes"},
      {"no channels", with_little(wav, format + 2, 0, 2), ErrorCode::kCorruption, "fmt"},
      {"65,535 channels", with_little(wav, format + 2, 65'535, 2), ErrorCode::kLimitExceeded,
       "65535 channels"},
      {"channels that disagree with the bytes a sample", with_little(wav, format + 2, 2, 2),
       ErrorCode::kCorruption, "purr: "},
      {"no rate", with_little(wav, format + 4, 0, 4), ErrorCode::kCorruption, "0 Hz"},
      {"G.726", with_little(wav, format, 0x64, 2), ErrorCode::kUnsupported, "encoding 0x0064"},
      {"ADPCM without its blocks", with_little(wav, format, 2, 2), ErrorCode::kCorruption, "fmt"},
      {"no format", with_little(wav, format - 8, 0, 4), ErrorCode::kCorruption, "fmt"},
      {"FLAC with more samples", with_big(flac, kFlacSamples, 101, 4), ErrorCode::kCorruption,
       "purr: "},
      {"FLAC of ten hours", with_big(flac, kFlacSamples, 288'000'000, 4), ErrorCode::kLimitExceeded,
       "288000000 samples"},
      {"FLAC of an hour in a few bytes", with_big(flac, kFlacSamples, 100'000'000, 4),
       ErrorCode::kCorruption, "purr: "},
      {"FLAC of unknown length, without frames", with_big(cut_to(flac, 50), kFlacSamples, 0, 4),
       ErrorCode::kCorruption, "without frames"},
      {"FLAC without STREAMINFO", with_big(flac, 4, 1, 1), ErrorCode::kCorruption, "STREAMINFO"},
  };
  for (const auto& c : kCases) {
    const auto samples = decode(c.file);
    ASSERT_FALSE(samples.has_value()) << c.name;
    EXPECT_EQ(samples.error().code, c.code) << c.name << ": " << samples.error().message;
    EXPECT_THAT(samples.error().message, HasSubstr(c.message)) << c.name;
  }
}

/// `wav` with these lengths in its headers, and these bytes behind its samples.
FileContent piped(FileContent wav, std::uint32_t riff, std::uint32_t data, std::size_t more) {
  wav = with_little(std::move(wav), 4, riff, 4);
  const std::size_t length = find_text(wav, "data") + 4;
  wav = with_little(std::move(wav), length, data, 4);
  wav.insert(wav.end(), more, std::byte{1});
  return wav;
}

TEST(Sound, AWavWrittenIntoAPipeReachesToItsEnd) {
  const FileContent whole = make_wav(tone(1000), 16'000);
  const auto at = static_cast<std::uint32_t>(find_text(whole, "data"));
  const auto expected = decode(whole)->mono;
  const struct {
    const char* name;
    std::uint32_t riff;
    std::uint32_t data;
    std::size_t more;
  } kCases[] = {
      {"ffmpeg -f wav -", 0xFFFF'FFFF, 0xFFFF'FFFF, 0},
      {"espeak-ng --stdout", 0x7FFF'F024, 0x7FFF'F000, 0},
      {"sox -t wav -", 0x7FFF'F024, 0x7FFF'F000, 0},
      {"lame --decode", 0xFFFF'FFFF, 0xFFFF'FFDB, 0},
      {"gst-launch-1.0 wavenc", 0, 0, 0},
      {"a header only", at, 0, 0},
      {"one byte more", 0xFFFF'FFFF, 0xFFFF'FFFF, 1},
  };
  for (const auto& c : kCases) {
    const auto samples = decode(piped(whole, c.riff, c.data, c.more));
    ASSERT_TRUE(samples.has_value()) << c.name << ": " << to_string(samples.error());
    EXPECT_EQ(samples->mono, expected) << c.name;
  }
  // Behind other chunks, and of floats.
  const FileContent floats = make_wav_float(tone(1000), 16'000);
  EXPECT_EQ(decode(piped(floats, 0xFFFF'FFFF, 0xFFFF'FFFF, 0)).value().mono, decode(floats)->mono);
}

TEST(Sound, AWavThatEndsEarlyIsAnErrorAlsoIfItsLengthIsLarge) {
  const FileContent whole = make_wav(tone(1000), 16'000);
  const auto length = static_cast<std::uint32_t>(whole.size());
  const FileContent kCases[] = {piped(whole, length - 8, 0xFFFF'FFFF, 0),  // the file's is stated
                                piped(whole, 0xFFFF'FFFF, 2002, 0),        // the samples' is stated
                                piped(whole, 0x7FFE'0024, 0x7FFE'0000, 0),
                                cut_to(whole, whole.size() - 2)};
  for (const FileContent& file : kCases) {
    const auto samples = decode(file);
    ASSERT_FALSE(samples.has_value());
    EXPECT_EQ(samples.error().code, ErrorCode::kCorruption);
  }
  const auto empty = decode(piped(cut_to(whole, 44), 0xFFFF'FFFF, 0xFFFF'FFFF, 0));
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalidArgument) << "no samples at all";
}

// FFmpeg leaves zeros in the chunk of wide lengths.
TEST(Sound, ALargeWavWrittenIntoAPipeReachesToItsEnd) {
  const std::vector<float> wave = tone(1000);
  FileContent file = make_rf64(wave, 16'000, 1);
  const auto expected = decode(file)->mono;
  const std::size_t lengths = find_text(file, "ds64") + 8;
  for (std::size_t i = 0; i < 24; ++i) file[lengths + i] = std::byte{0};
  const auto samples = decode(file);
  ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
  EXPECT_EQ(samples->mono, expected);
  EXPECT_FALSE(decode(with_little(file, lengths, 5000, 4)).has_value()) << "the file's is stated";
}

// sox leaves a little less than 2 GiB, FFmpeg 0.
TEST(Sound, AnAiffWrittenIntoAPipeReachesToItsEnd) {
  for (const std::uint32_t channels : {1U, 2U}) {
    for (const AiffKind kind : {AiffKind::kPcm, AiffKind::kFloat}) {
      const FileContent whole =
          make_aiff(tone(std::size_t{1000} * channels), 16'000, channels, kind);
      const auto expected = decode(whole)->mono;
      const std::size_t data = find_text(whole, "SSND") + 4;
      const std::size_t end =
          data + 12 + std::size_t{1000} * channels * (kind == AiffKind::kPcm ? 2 : 4);
      const auto with_lengths = [&](std::uint32_t file, std::uint32_t samples,
                                    std::uint32_t bytes) {
        return with_big(with_big(with_big(cut_to(whole, end), 4, file, 4),
                                 find_text(whole, "COMM") + 10, samples, 4),
                        data, bytes, 4);
      };
      for (const FileContent& file :
           {with_lengths(0x7F00'0050, 0x3F80'0000, 0x7F00'0008), with_lengths(0, 0, 0)}) {
        const auto samples = decode(file);
        ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
        EXPECT_EQ(samples->mono, expected);
      }
      EXPECT_FALSE(decode(with_lengths(5000, 0, 0x7F00'0008)).has_value())
          << "the file's is stated";
      EXPECT_FALSE(decode(with_lengths(0, 0, 9000)).has_value()) << "the samples' is stated";
    }
  }
}

FileContent without_length(FileContent flac) {
  const std::size_t info = find_text(flac, "fLaC") + 8;
  flac[info + 13] &= std::byte{0xF0};
  return with_big(std::move(flac), info + 14, 0, 4);
}

// What flac, FFmpeg and others write into a pipe: the header has no length.
TEST(Sound, AFlacWrittenIntoAPipeIsAsLongAsItsFrames) {
  for (const std::size_t count :
       {1UL, 4095UL, 4096UL, 4097UL, 600'000UL}) {  // the last: numbers of two bytes
    for (const std::uint32_t channels : {1U, 2U}) {
      const FileContent whole = make_flac(tone(count * channels), 16'000, channels);
      const auto samples = decode(without_length(whole));
      ASSERT_TRUE(samples.has_value()) << count << ": " << to_string(samples.error());
      EXPECT_EQ(samples->mono, decode(whole)->mono) << count;
    }
  }
}

TEST(Sound, AFlacWithoutALengthThatIsCutOrDamagedIsCorruption) {
  const FileContent whole = without_length(make_flac(tone(9000), 16'000));
  for (std::size_t size = 60; size < whole.size(); size += 101) {
    EXPECT_FALSE(decode(cut_to(whole, size)).has_value()) << size;
  }
  FileContent damaged = whole;
  damaged[whole.size() / 2] ^= std::byte{4};
  EXPECT_FALSE(decode(damaged).has_value());
  FileContent longer = whole;
  longer.push_back(std::byte{9});
  EXPECT_FALSE(decode(longer).has_value());
}

TEST(Sound, TagsBehindAFlacAreNoSound) {
  const FileContent flac = make_flac(tone(9000), 16'000);
  for (const FileContent& file : {flac, without_length(flac)}) {
    FileContent tagged = file;
    const FileContent tag = text_file("TAGtitle");
    tagged.insert(tagged.end(), tag.begin(), tag.end());
    tagged.resize(file.size() + 128);
    const auto samples = decode(tagged);
    ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
    EXPECT_EQ(samples->mono, decode(flac)->mono);
  }
}

TEST(Sound, OneByteBehindTheLastSampleIsIgnored) {
  FileContent wav = make_wav(tone(1000), 16'000);
  const auto expected = decode(wav)->mono;
  wav.push_back(std::byte{7});
  EXPECT_EQ(decode(wav).value().mono, expected) << "not declared";
  const std::size_t length = find_text(wav, "data") + 4;
  wav = with_little(std::move(wav), length, 2001, 4);
  EXPECT_EQ(decode(wav).value().mono, expected) << "declared";
}

TEST(Sound, AFlacBehindTagsIsAFlac) {
  const FileContent flac = make_flac(tone(1000), 16'000);
  FileContent tagged = text_file("ID3\x04");
  tagged.insert(tagged.end(), {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{1},
                               std::byte{0x10}});  // 144 bytes
  tagged.insert(tagged.end(), 144, std::byte{0});
  tagged.insert(tagged.end(), flac.begin(), flac.end());
  EXPECT_EQ(sniff(tagged), FileFormat::kFlac);
  const auto samples = decode(tagged);
  ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
  EXPECT_EQ(samples->mono, decode(flac)->mono);
  for (std::size_t size = 4; size + 1 < tagged.size(); size += 7) {
    EXPECT_FALSE(decode(cut_to(tagged, size)).has_value()) << size;
  }
}

TEST(Sound, AiffGivesBackTheSamples) {
  for (const std::uint32_t channels : {1U, 2U}) {
    const std::vector<float> wave = tone(std::size_t{1000} * channels);
    for (const AiffKind kind : {AiffKind::kPcm, AiffKind::kLittle, AiffKind::kFloat}) {
      const FileContent file = make_aiff(wave, 22'050, channels, kind);
      const auto samples = decode(file);
      ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
      EXPECT_EQ(samples->sample_rate_hz, 22'050U);
      expect_near(samples->mono, decode(make_wav(wave, 22'050, channels))->mono);
      for (std::size_t size = 12; size < file.size(); size += 37) {
        EXPECT_FALSE(decode(cut_to(file, size)).has_value()) << size;
      }
    }
  }
}

TEST(Sound, CafGivesBackTheSamples) {
  for (const std::uint32_t channels : {1U, 2U}) {
    const std::vector<float> wave = tone(std::size_t{1000} * channels);
    for (const AiffKind kind : {AiffKind::kPcm, AiffKind::kLittle, AiffKind::kFloat}) {
      const FileContent file = make_caf(wave, 22'050, channels, kind);
      EXPECT_EQ(sniff(file), FileFormat::kCaf);
      const auto samples = decode(file);
      ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
      EXPECT_EQ(samples->sample_rate_hz, 22'050U);
      expect_near(samples->mono, decode(make_wav(wave, 22'050, channels))->mono);
      for (std::size_t size = 12; size < file.size(); size += 37) {
        EXPECT_FALSE(decode(cut_to(file, size)).has_value()) << size;
      }
    }
  }
}

TEST(Sound, ACafThatWasNotEndedReachesToItsEnd) {
  const FileContent whole = make_caf(tone(1000), 16'000, 1, AiffKind::kPcm);
  const std::size_t length = find_text(whole, "data") + 4;
  const FileContent open =
      with_big(with_big(whole, length, UINT32_MAX, 4), length + 4, UINT32_MAX, 4);
  const auto samples = decode(open);
  ASSERT_TRUE(samples.has_value()) << to_string(samples.error());
  EXPECT_EQ(samples->mono, decode(whole)->mono);
}

TEST(Sound, ForgedCafHeadersAreRefused) {
  const FileContent caf = make_caf(tone(100), 8000, 1, AiffKind::kPcm);
  const std::size_t description = find_text(caf, "desc") + 12;
  const std::size_t data = find_text(caf, "data") + 4;
  const struct {
    const char* name;
    FileContent file;
    ErrorCode code;
    const char* message;
  } kCases[] = {
      {"no rate", with_big(caf, description, 0, 4), ErrorCode::kCorruption, "0 Hz"},
      {"half a hertz", with_big(caf, description, 0x3FE00000, 4), ErrorCode::kCorruption, "0 Hz"},
      {"AAC", with_big(caf, description + 8, 0x61616320, 4), ErrorCode::kUnsupported,
       "CAF encoding \"aac \""},
      {"no channels", with_big(caf, description + 24, 0, 4), ErrorCode::kCorruption, "desc"},
      {"four billion channels", with_big(caf, description + 24, UINT32_MAX, 4),
       ErrorCode::kCorruption, "desc"},
      {"packets of no bytes", with_big(caf, description + 16, 0, 4), ErrorCode::kCorruption,
       "desc"},
      {"a year of samples", with_big(caf, data, 0x0000'FFFF, 4), ErrorCode::kCorruption,
       "ends within one of its chunks"},
      {"no samples", with_big(caf, data + 4, 3, 4), ErrorCode::kCorruption, "purr: "},
  };
  for (const auto& c : kCases) {
    const auto samples = decode(c.file);
    ASSERT_FALSE(samples.has_value()) << c.name;
    EXPECT_EQ(samples.error().code, c.code) << c.name << ": " << samples.error().message;
    EXPECT_THAT(samples.error().message, HasSubstr(c.message)) << c.name;
  }
}

TEST(Sound, ALargeWavHasTheSamplesOfASmallOne) {
  for (const std::uint32_t channels : {1U, 2U}) {
    const std::vector<float> wave = tone(std::size_t{1000} * channels);
    FileContent file = make_rf64(wave, 16'000, channels);
    ASSERT_EQ(find_text(file, "RF64"), 0U);
    const auto expected = decode(make_wav(wave, 16'000, channels))->mono;
    for (const char* const name : {"RF64", "BW64"}) {
      std::ranges::copy(text_file(name), file.begin());
      const auto samples = decode(file);
      ASSERT_TRUE(samples.has_value()) << name << ": " << to_string(samples.error());
      EXPECT_EQ(samples->mono, expected) << name;
    }
    for (std::size_t size = 12; size < file.size(); size += 37) {
      EXPECT_FALSE(decode(cut_to(file, size)).has_value()) << size;
    }
    const std::size_t length = find_text(file, "ds64") + 16;  // of the samples
    const auto more = decode(with_little(file, length + 4, 7, 4));
    ASSERT_FALSE(more.has_value());
    EXPECT_THAT(more.error().message, HasSubstr("a WAV that declares 3006477"));
  }
}

// Its last block is filled up; how many samples were meant is in the "fact" chunk.
TEST(Sound, AdpcmEndsWhereItsFactChunkSays) {
  const std::vector<float> wave = tone(5000);
  for (const bool ima : {false, true}) {
    const FileContent file = make_adpcm(wave, 16'000, ima);
    const std::size_t fact = find_text(file, "fact") + 8;
    const auto exact = decode(with_little(file, fact, 5000, 4));
    ASSERT_TRUE(exact.has_value()) << to_string(exact.error());
    ASSERT_EQ(exact->mono.size(), 5000U);
    double sum = 0;
    for (std::size_t i = 0; i < 5000; ++i) sum += std::abs(exact->mono[i] - wave[i]);
    EXPECT_LT(sum / 5000, 0.01);
    const auto all = decode(with_little(file, fact, 7, 4));
    ASSERT_TRUE(all.has_value()) << to_string(all.error());
    EXPECT_GT(all->mono.size(), 5000U) << "its end is not in the last block: wrong";
    EXPECT_TRUE(std::equal(exact->mono.begin(), exact->mono.end(), all->mono.begin()));
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
