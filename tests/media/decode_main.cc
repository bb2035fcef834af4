// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// afterimage_decode FILE [image|audio|video [EVERY]]: on the standard output the image in the file, or each EVERY-th
// frame of the video one behind the other, as PPM files; of a sound "F32", its rate and its number of samples in a line, and the samples.
// Or exit code 1 and the error on the standard error.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "foundation/media/decode.h"
#include "foundation/media/probe.h"

namespace {

using namespace afterimage;

void print(const Image& image) {
  fmt::print("P6\n{} {}\n255\n", image.width, image.height);
  std::fwrite(image.rgb.data(), 1, image.rgb.size(), stdout);
}

Result<void> decode(MediaItem item, const std::string& kind, std::uint32_t every) {
  if (kind == "audio") {
    item.modality = Modality::kAudio;
    AFI_TRY(const Samples samples, decode_audio(item));
    fmt::print("F32 {} {}\n", samples.sample_rate_hz, samples.mono.size());
    std::fwrite(samples.mono.data(), sizeof(float), samples.mono.size(), stdout);
  } else if (kind == "video") {
    item.modality = Modality::kVideo;
    AFI_TRY(const MediaInfo info, probe(item));
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < info.frames; i += every) wanted.push_back(i);
    AFI_TRY(FrameReader reader, FrameReader::open(item, wanted));
    for (;;) {
      AFI_TRY(const auto frame, reader.next());
      if (!frame.has_value()) break;
      print(frame->image);
    }
  } else {
    AFI_TRY(const Image image, decode_image(item));
    print(image);
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint32_t every = count == 4 ? static_cast<std::uint32_t>(std::atoi(arguments[3])) : 1;
  if (count < 2 || count > 4 || every == 0) {
    fmt::print(stderr, "usage: afterimage_decode FILE [image|audio|video [EVERY]]\n");
    return 2;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  const auto done =
      decode({.modality = Modality::kImage,
              .files = {std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())},
              .name = "file"},
             count >= 3 ? arguments[2] : "image", every);
  if (done.has_value()) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
