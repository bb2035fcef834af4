// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The outermost structure of MP4 and Matroska files: whether the file holds what it declares. A
// demuxer reads a cut file up to the cut, and then it is a shorter video.
#include <fmt/format.h>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxBoxes = 100'000;  // a fragmented file has two a fragment

Result<void> check_boxes(const MediaFile& file) {
  ByteCursor cursor(file.bytes);
  for (std::size_t boxes = 0; !cursor.rest().empty(); ++boxes) {
    if (boxes == kMaxBoxes) return corrupt(file, "an MP4 of too many boxes");
    std::uint64_t size = cursor.big(4);
    cursor.take(4);  // its type
    std::uint64_t header = 8;
    if (size == 1) {
      size = std::uint64_t{cursor.big(4)} << 32U;
      size |= cursor.big(4);
      header = 16;
    }
    if (size == 0) return {};  // to the end of the file
    if (cursor.ended_early() || size < header || size - header > cursor.rest().size()) {
      return corrupt(file, fmt::format("the MP4 ends inside its box number {}", boxes + 1));
    }
    cursor.take(size - header);
  }
  return {};
}

/// A number of one to eight bytes whose first bits tell how many. `with_marker` keeps those bits.
std::uint64_t ebml_number(ByteCursor& cursor, bool with_marker, bool& is_unknown) {
  const std::uint32_t first = cursor.big(1);
  std::size_t more = 0;
  std::uint32_t marker = 0x80;
  while (more < 7 && (first & marker) == 0) {
    marker >>= 1U;
    ++more;
  }
  if (first == 0) return UINT64_MAX;  // no such number, and more than any file has
  std::uint64_t value = with_marker ? first : first & ~marker;
  std::uint64_t all_ones = with_marker ? 0 : marker - 1;
  for (std::size_t i = 0; i < more; ++i) {
    value = value << 8U | cursor.big(1);
    all_ones = all_ones << 8U | 0xFFU;
  }
  is_unknown = !with_marker && value == all_ones;
  return value;
}

Result<void> check_segment(const MediaFile& file) {
  ByteCursor cursor(file.bytes);
  constexpr std::uint64_t kSegment = 0x18538067;
  for (int elements = 0; elements < 16; ++elements) {
    bool is_unknown = false;
    const std::uint64_t id = ebml_number(cursor, true, is_unknown);
    const std::uint64_t size = ebml_number(cursor, false, is_unknown);
    if (is_unknown && !cursor.ended_early()) return {};  // a live recording
    if (cursor.ended_early() || size > cursor.rest().size()) {
      return corrupt(file, "the Matroska file ends early");
    }
    if (id == kSegment) return {};
    cursor.take(size);
  }
  return corrupt(file, "a Matroska file without a segment");
}

}  // namespace

Result<void> check_container(const MediaFile& file) {
  return sniff(file.bytes) == FileFormat::kMp4 ? check_boxes(file) : check_segment(file);
}

}  // namespace afterimage
