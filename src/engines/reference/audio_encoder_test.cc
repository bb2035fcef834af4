// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/audio_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engines/reference/angle.h"
#include "engines/reference/audio_parts.h"
#include "engines/reference/kernel.h"
#include "engines/reference/media_plan.h"
#include "engines/reference/testing/same_bits.h"

namespace afterimage {
namespace {

constexpr std::size_t kHidden = 32;

AudioEncoder audio() {
  return {ReferenceOptions::tiny().audio, kHidden, *supported_kernels().front(), Rng(1)};
}

std::vector<float> tone(double hertz, std::size_t count) {
  std::vector<float> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    samples[i] =
        0.5F * sine_cosine(6.283185307179586 * hertz * static_cast<double>(i) / 16'000).sine;
  }
  return samples;
}

TEST(Resample, KeepsStraightLinesAndLengths) {
  std::vector<float> ramp(4800);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i) / 4800.0F;
  for (const std::uint32_t rate : {8'000U, 16'000U, 44'100U, 48'000U}) {
    const auto heard = resample(ramp, rate);
    ASSERT_EQ(heard.size(), ramp.size() * 16'000 / rate) << rate;
    for (std::size_t i = 0; i + 4 < heard.size(); ++i) {
      ASSERT_NEAR(heard[i], static_cast<double>(i) * rate / 16'000 / 4800, 1e-5) << rate;
    }
  }
  EXPECT_EQ(resample(ramp, 16'000), ramp);
  EXPECT_TRUE(resample({}, 8'000).empty());
}

TEST(AudioEncoder, DetectsThePitchOfATone) {
  const AudioEncoder encoder = audio();
  std::size_t previous = 0;
  for (const double hertz : {200.0, 400.0, 1'000.0, 3'000.0, 7'000.0}) {
    const Matrix loudness = encoder.loudness(tone(hertz, 1600), 3);
    const float* row = loudness.row(1);
    const auto loudest = static_cast<std::size_t>(std::max_element(row, row + kAudioBands) - row);
    EXPECT_GT(loudest, previous) << hertz;
    EXPECT_GT(row[loudest], 4 * row[0]) << hertz;
    previous = loudest;
  }
}

TEST(AudioEncoder, PadsWithSilenceAndDropsTheExcess) {
  const AudioEncoder encoder = audio();
  Samples clip{.sample_rate_hz = 16'000, .mono = tone(440, 3000)};
  const Matrix short_clip = encoder.encode(clip, 5);
  EXPECT_EQ(short_clip.rows(), 5U);
  clip.mono.resize(9000);
  EXPECT_TRUE(same_bits(encoder.encode(clip, 5), short_clip));
  clip.mono[1000] += 0.25F;
  EXPECT_FALSE(same_bits(encoder.encode(clip, 5), short_clip));
  EXPECT_EQ(encoder.encode({.sample_rate_hz = 16'000, .mono = {0.5F}}, 1).rows(), 1U);
}

TEST(AudioParts, AWindowIsEncodedAsIfItWereAlone) {
  const AudioEncoder encoder = audio();
  const std::vector<float> heard = tone(440, 6 * kSamplesPerEmbedding + 100);
  const AudioParts windows(heard, 7, 3);
  ASSERT_EQ(windows.parts().size(), 3U);
  EXPECT_EQ(windows.parts()[1].rows, TokenCount(3));
  EXPECT_EQ(windows.parts()[2].rows, TokenCount(1));
  EXPECT_EQ(windows.samples(1).size(), 3 * kSamplesPerEmbedding);
  EXPECT_EQ(windows.samples(2).size(), 100U);
  const auto second = std::span(heard).subspan(3 * kSamplesPerEmbedding, 3 * kSamplesPerEmbedding);
  EXPECT_TRUE(same_bits(encoder.encode(windows.samples(1), 3), encoder.encode(second, 3)));
}

TEST(AudioParts, AreNamedByTheirSamplesAlone) {
  const std::vector<float> heard = tone(440, 4 * kSamplesPerEmbedding);
  const AudioParts windows(heard, 4, 2);
  std::vector<float> longer = heard;
  longer.resize(6 * kSamplesPerEmbedding, 0.25F);
  EXPECT_EQ(AudioParts(longer, 6, 2).parts()[1].input, windows.parts()[1].input);
  EXPECT_EQ(AudioParts(longer, 4, 2).parts()[1].input, windows.parts()[1].input)
      << "samples after the last embedding do not count";
  longer[3 * kSamplesPerEmbedding] += 0.25F;
  const AudioParts changed(longer, 4, 2);
  EXPECT_EQ(changed.parts()[0].input, windows.parts()[0].input);
  EXPECT_NE(changed.parts()[1].input, windows.parts()[1].input);
}

}  // namespace
}  // namespace afterimage
