// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Any bytes, as any modality, are media within the limits or an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"

namespace {

using namespace afterimage;

constexpr MediaLimits kLimits{.max_file = 64_KiB,
                              .max_side = 256,
                              .max_pixels = 16'384,
                              .max_frames = 8,
                              .max_total_pixels = 65'536,
                              .max_video_frames = 64,
                              .max_decoded_pixels = 262'144,
                              .max_samples = 20'000};

void check_image(const Image& image, const MediaInfo& promised) {
  AFI_CHECK(image.width == promised.width && image.height == promised.height);
  AFI_CHECK(image.rgb.size() == 3 * std::size_t{image.width} * image.height);
  AFI_CHECK(std::max(image.width, image.height) <= kLimits.max_side);
}

void check_samples(const Samples& samples, const MediaInfo& promised) {
  AFI_CHECK(samples.mono.size() == promised.samples);
  AFI_CHECK(samples.sample_rate_hz == promised.sample_rate_hz);
  AFI_CHECK(std::ranges::all_of(samples.mono, [](float s) { return s >= -1 && s <= 1; }));
}

void check_frames(const std::vector<Frame>& frames, const MediaInfo& promised) {
  AFI_CHECK(frames.size() == promised.frames && frames.size() <= kLimits.max_frames);
  AFI_CHECK(std::ranges::is_sorted(frames, {}, &Frame::at));
  for (const Frame& frame : frames) check_image(frame.image, promised);
}

/// The last frame alone, and every second one, are those of the whole.
void check_some(const MediaItem& item, const std::vector<Frame>& all) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < all.size(); i += 2) positions.push_back(i);
  for (const auto& wanted : {positions, {static_cast<std::uint32_t>(all.size() - 1)}}) {
    const auto some = decode_frames(item, wanted, kLimits);
    AFI_CHECK(some.has_value() && some->size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      AFI_CHECK((*some)[i].image.rgb == all[wanted[i]].image.rgb);
    }
  }
}

}  // namespace

/// The first byte selects the kind of the rest: image, audio, video, or a folder of one frame.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned given_as = data[0] % 4;
  const auto file = std::as_bytes(std::span(data, size)).subspan(1);
  MediaItem item{
      .modality = static_cast<Modality>(std::min(1 + given_as, 3U)),
      .files = {std::make_shared<const std::vector<std::byte>>(file.begin(), file.end())},
      .frame_rate_mhz = given_as == 3 ? 1000U : 0U,
      .name = "fuzz"};

  const auto info = probe(item, kLimits);
  const auto image = decode_image(item, kLimits);
  const auto samples = decode_audio(item, kLimits);
  const auto frames = decode_video(item, kLimits);
  AFI_CHECK(info || (!image && !samples && !frames));
  if (image) check_image(*image, *info);
  if (samples) check_samples(*samples, *info);
  if (frames) check_frames(*frames, *info);
  if (frames && !frames->empty()) check_some(item, *frames);
  return 0;
}
