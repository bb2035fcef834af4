// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Sounds that are rows of frames: AMR, and AAC with ADTS headers. The length of a frame of FLAC, and the edit
// list of MP4.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "foundation/media/boxes.h"
#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/media/sound_packets.h"

namespace afterimage {
namespace {

constexpr std::string_view kNarrow = "#!AMR\n";
constexpr std::string_view kWide = "#!AMR-WB\n";

/// Bytes of a frame with its first one; 0: no frame begins with it.
std::size_t amr_frame(std::byte first, bool wide) {
  static constexpr std::array<std::uint8_t, 16> kSizes = {13, 14, 16, 18, 20, 21, 27, 32,
                                                          6,  0,  0,  0,  0,  0,  0,  1};
  static constexpr std::array<std::uint8_t, 16> kWideSizes = {18, 24, 33, 37, 41, 47, 51, 59,
                                                              61, 6,  0,  0,  0,  0,  1,  1};
  const auto kind = (std::to_integer<std::uint32_t>(first) >> 3U) & 15U;
  const bool has_padding = (std::to_integer<std::uint32_t>(first) & 0x83U) != 0;  // must be zero
  return has_padding ? 0 : wide ? kWideSizes[kind] : kSizes[kind];
}

/// Bytes of a frame with its header; 0: none begins here, or it holds several blocks.
std::size_t adts_frame(std::span<const std::byte> bytes) {
  ByteCursor cursor(bytes);
  const std::uint32_t head = cursor.big(4);
  const std::uint32_t rest = cursor.big(3);
  if (cursor.ended_early() || head >> 20U != 0xFFF || ((head >> 17U) & 3U) != 0) return 0;
  if (((head >> 10U) & 15U) > 12) return 0;  // no such rate
  const std::size_t size = ((head & 3U) << 11U) | (rest >> 13U);
  const bool has_checksum = ((head >> 16U) & 1U) == 0;
  return (rest & 3U) == 0 && size > (has_checksum ? 9U : 7U) ? size : 0;
}

/// Frames one behind the other, each of which says its length.
class FrameRow final : public SoundPackets {
 public:
  using Size = std::size_t (*)(std::span<const std::byte>);
  FrameRow(const MediaFile& file, std::size_t begin, Size size)
      : file_(&file), rest_(file.bytes.subspan(begin)), size_(size) {}

  Result<bool> next(std::span<const std::byte>& packet) override {
    if (rest_.empty()) return false;
    const std::size_t size = size_(rest_);
    const std::size_t at = file_->bytes.size() - rest_.size();
    if (size == 0) return corrupt(*file_, fmt::format("no frame of its sound at byte {}", at));
    if (size > rest_.size()) {
      return corrupt(*file_, fmt::format("it ends within the frame at byte {}", at));
    }
    packet = rest_.first(size);
    rest_ = rest_.subspan(size);
    return true;
  }

 private:
  const MediaFile* file_;
  std::span<const std::byte> rest_;
  Size size_;
};

std::span<const std::byte> box_at(std::span<const std::byte> within, std::string_view path) {
  while (!path.empty()) {
    const std::string_view type = path.substr(0, 4);
    path.remove_prefix(std::min<std::size_t>(path.size(), 5));
    ByteCursor cursor(within);
    auto box = next_box(cursor);
    while (box.has_value() && box->type != type) box = next_box(cursor);
    if (!box.has_value()) return {};
    within = box->body;
  }
  return within;
}

/// Ticks a second, of an "mvhd" or "mdhd" box.
std::uint32_t unit_of(std::span<const std::byte> head) {
  ByteCursor cursor(head);
  const bool is_long = cursor.big(1) == 1;
  cursor.take(3);
  cursor.take(is_long ? 16 : 8);  // made and changed
  return cursor.big(4);
}

std::uint64_t number(ByteCursor& cursor, bool is_long) {
  if (!is_long) return cursor.big(4);
  const std::uint64_t high = cursor.big(4);
  return high << 32U | cursor.big(4);
}

/// Reads an "elst" box into `edit`.
void read_edits(std::span<const std::byte> list, Mp4Edit& edit) {
  ByteCursor cursor(list);
  const bool is_long = cursor.big(1) == 1;
  cursor.take(3);
  const std::uint32_t count = cursor.big(4);
  bool found = false;
  for (std::uint32_t i = 0; i < count && !cursor.ended_early(); ++i) {
    const std::uint64_t length = number(cursor, is_long);
    const std::uint64_t begin = number(cursor, is_long);
    const std::uint32_t speed = cursor.big(4);
    if (begin == (is_long ? UINT64_MAX : UINT32_MAX)) continue;  // a pause before it
    edit.is_simple = edit.is_simple && !found && speed == 0x10000U;
    edit.begin = begin;
    edit.length = length;
    found = true;
  }
  if (cursor.ended_early()) edit.is_simple = false;
}

/// The remainders of bytes by a polynomial, as FLAC's checksums use them.
template <typename T>
constexpr std::array<T, 256> checksum_table(T polynomial) {
  std::array<T, 256> table{};
  constexpr unsigned kTop = 8 * sizeof(T) - 1;
  for (unsigned i = 0; i < 256; ++i) {
    unsigned rest = i << (kTop - 7);
    for (int bit = 0; bit < 8; ++bit) {
      rest = rest << 1U ^ ((rest >> kTop & 1U) != 0 ? polynomial : 0U);
    }
    table[i] = static_cast<T>(rest);
  }
  return table;
}

constexpr auto kHeaderSums = checksum_table<std::uint8_t>(0x07);
constexpr auto kFrameSums = checksum_table<std::uint16_t>(0x8005);

/// What the header of a frame of FLAC says.
struct FlacFrame {
  std::uint64_t number = 0;  // of the frame, or of its first sample
  std::uint32_t samples = 0;
  bool counts_samples = false;

  [[nodiscard]] bool is_followed_by(const FlacFrame& next) const {
    return next.counts_samples == counts_samples &&
           next.number == number + (counts_samples ? samples : 1);
  }
};

/// nullopt: no frame begins here.
std::optional<FlacFrame> flac_frame_at(std::span<const std::byte> bytes) {
  FlacFrame frame{.samples = flac_samples(bytes)};
  if (frame.samples == 0) return std::nullopt;
  ByteCursor cursor(bytes);
  const std::uint32_t head = cursor.big(4);
  frame.counts_samples = (head >> 16U & 1U) != 0;
  const auto first = static_cast<std::uint8_t>(cursor.big(1));  // of the number, as in UTF-8
  const int ones = std::countl_one(first);
  if (ones == 1 || ones == 8) return std::nullopt;
  frame.number = first & (0x7FU >> static_cast<unsigned>(ones));
  for (int i = 1; i < ones; ++i) frame.number = frame.number << 6U | (cursor.big(1) & 0x3FU);
  const std::uint32_t samples_code = head >> 12U & 15U;
  const std::uint32_t rate_code = head >> 8U & 15U;
  cursor.take(samples_code == 6 ? 1 : samples_code == 7 ? 2 : 0);
  cursor.take(rate_code == 12 ? 1 : rate_code == 13 || rate_code == 14 ? 2 : 0);
  const std::size_t size = bytes.size() - cursor.rest().size();
  std::uint8_t sum = 0;
  for (const std::byte b : bytes.first(size)) sum = kHeaderSums[sum ^ std::to_integer<unsigned>(b)];
  if (sum != cursor.big(1) || cursor.ended_early()) return std::nullopt;
  return frame;
}

}  // namespace

Result<std::uint64_t> flac_length(const MediaFile& file, std::span<const std::byte> frames) {
  std::optional<FlacFrame> frame = flac_frame_at(frames);
  if (!frame.has_value()) return corrupt(file, "a FLAC without frames");
  std::uint64_t samples = frame->samples;
  std::uint16_t sum = 0;  // 0 behind a frame's own checksum
  for (std::size_t at = 0; at < frames.size(); ++at) {
    if (sum == 0 && at > 0) {
      const auto next = flac_frame_at(frames.subspan(at));
      if (next.has_value() && frame->is_followed_by(*next)) {
        frame = next;
        samples += frame->samples;
      }
    }
    sum = static_cast<std::uint16_t>(
        (sum << 8U) ^ kFrameSums[(sum >> 8U) ^ std::to_integer<unsigned>(frames[at])]);
  }
  if (sum != 0) {
    return corrupt(file, fmt::format("it ends within a frame, or is damaged, after {} samples",
                                     samples - frame->samples));
  }
  return samples;
}

Result<SoundStream> open_amr(const MediaFile& file) {
  const bool wide = as_text(file.bytes).starts_with(kWide);
  SoundStream stream{.codec = wide ? SoundCodec::kAmrWide : SoundCodec::kAmrNarrow};
  const FrameRow::Size narrow_size = [](auto bytes) { return amr_frame(bytes[0], false); };
  const FrameRow::Size wide_size = [](auto bytes) { return amr_frame(bytes[0], true); };
  stream.packets = std::make_unique<FrameRow>(file, wide ? kWide.size() : kNarrow.size(),
                                              wide ? wide_size : narrow_size);
  return stream;
}

Result<SoundStream> open_adts(const MediaFile& file) {
  SoundStream stream{.codec = SoundCodec::kAac};
  stream.packets = std::make_unique<FrameRow>(file, leading_tags(file.bytes), adts_frame);
  return stream;
}

bool is_adts(std::span<const std::byte> file) {
  const std::size_t first = adts_frame(file);
  if (first == 0 || first > file.size()) return false;
  return first == file.size() || adts_frame(file.subspan(first)) != 0;
}

std::uint32_t flac_samples(std::span<const std::byte> frame) {
  ByteCursor cursor(frame);
  const std::uint32_t head = cursor.big(4);
  if (cursor.ended_early() || head >> 18U != 0x3FFE) return 0;
  const std::uint32_t code = (head >> 12U) & 15U;
  if (code == 0) return 0;
  if (code == 1) return 192;
  if (code <= 5) return 576U << (code - 2);
  if (code >= 8) return 256U << (code - 8);
  // Behind the frame's number, whose first bits tell how many bytes it has, as in UTF-8.
  const auto ones = std::countl_one(static_cast<std::uint8_t>(cursor.big(1)));
  if (ones == 1 || ones == 8) return 0;
  cursor.take(static_cast<std::uint64_t>(std::max(ones, 1) - 1));
  const std::uint32_t less_one = cursor.big(code - 5);
  return cursor.ended_early() ? 0 : less_one + 1;
}

std::optional<Mp4Edit> edit_of_sound(std::span<const std::byte> file) {
  const auto movie = box_at(file, "moov");
  ByteCursor cursor(movie);
  for (auto track = next_box(cursor); track.has_value(); track = next_box(cursor)) {
    const Box& box = *track;
    if (box.type != "trak") continue;
    const auto handler = box_at(box.body, "mdia/hdlr");
    if (handler.size() < 12 || as_text(handler.subspan(8, 4)) != "soun") continue;
    const auto list = box_at(box.body, "edts/elst");
    if (list.empty()) return std::nullopt;
    Mp4Edit edit{.movie_unit = unit_of(box_at(movie, "mvhd")),
                 .track_unit = unit_of(box_at(box.body, "mdia/mdhd"))};
    read_edits(list, edit);
    if (edit.movie_unit == 0 || edit.track_unit == 0) edit.is_simple = false;
    return edit;
  }
  return std::nullopt;
}

}  // namespace afterimage
