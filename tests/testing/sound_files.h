// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "testing/media_files.h"

/// Compressed sounds made in memory with FFmpeg's libraries. Only in builds with AFTERIMAGE_VIDEO.
namespace afterimage::testing {

struct SoundContent {
  std::vector<float> samples;  // interleaved
  std::uint32_t rate_hz = 48'000;
  std::uint32_t channels = 1;
  std::string encoder = "aac";    // the name of one of libavcodec's
  std::string container = "mp4";  // or "ogg", "webm", "matroska", "adts"
  /// "movflags=…" and the like.
  std::string options = "";
};
FileContent make_coded_sound(const SoundContent& content);

/// Whether FFmpeg's decoders that are opened from now on compute in plain C, if they do not choose.
void use_plain_c(bool plain);

/// A sweep with a little noise, which no two shifts of it resemble.
std::vector<float> make_sweep(std::size_t samples, std::uint32_t rate_hz,
                              std::uint32_t channels = 1);

/// Frames of AMR with any content.
FileContent make_amr(std::size_t frames, bool wide);

}  // namespace afterimage::testing
