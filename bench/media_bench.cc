// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// How long does decoding take? media_bench TIMES FILE…: one line of JSON a file, with the least processor time
// of TIMES. Of a video the two frames a second that models see, of a PDF its pages. bench/media_decode.py runs
// it beside peers.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/documents/document_reader.h"
#include "foundation/media/decode.h"
#include "foundation/media/probe.h"

namespace {

using namespace afterimage;

FileBytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

/// Samples, pixels, pages, or frames that were seen.
Result<std::size_t> decode(const MediaItem& item) {
  if (is_document(item)) {
    AFI_TRY(const std::vector<MediaItem> pages, DocumentReader().pages(item));
    return pages.size();
  }
  if (item.modality == Modality::kImage) {
    AFI_TRY(const Image image, decode_image(item));
    return std::size_t{image.width} * image.height;
  }
  if (item.modality == Modality::kAudio) {
    AFI_TRY(const Samples samples, decode_audio(item));
    return samples.mono.size();
  }
  AFI_TRY(const MediaInfo info, probe(item));
  const double seconds = std::chrono::duration<double>(info.length).count();
  const auto wanted = static_cast<std::uint32_t>(std::max(2 * seconds, 1.0));
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < wanted; ++i) positions.push_back(i * info.frames / wanted);
  AFI_TRY(FrameReader reader, FrameReader::open(item, positions));
  std::size_t frames = 0;
  for (;;) {
    AFI_TRY(const auto frame, reader.next());
    if (!frame.has_value()) return frames;
    ++frames;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int times = std::atoi(argv[1]);
  for (const std::string path : std::span(argv, static_cast<std::size_t>(argc)).subspan(2)) {
    MediaItem item{.modality = Modality::kImage, .files = {read_file(path)}, .name = path};
    item.modality = modality_of(*item.files[0]);
    if (path.ends_with(".gif") || path.ends_with(".webp")) item.modality = Modality::kImage;
    double least = 1e9;
    std::size_t found = 0;
    for (int i = 0; i < times; ++i) {
      const std::clock_t began = std::clock();
      const auto decoded = decode(item);
      const double took = 1000.0 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
      if (!decoded.has_value()) {
        fmt::print(stderr, "media_bench: {}\n", decoded.error().message);
        return 1;
      }
      found = *decoded;
      least = std::min(least, took);
    }
    fmt::print("{{\"file\": \"{}\", \"ms\": {:.3f}, \"found\": {}}}\n", path, least, found);
  }
  return 0;
}
