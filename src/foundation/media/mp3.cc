// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <mpg123.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/media/mono.h"

namespace afterimage {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kId3v1Bytes = 128;
constexpr std::size_t kApeFooterBytes = 32;
constexpr std::uint64_t kDecoderDelay = 529;  // samples before the first one that was encoded

/// The first four bytes of a frame of MPEG layer III.
struct FrameHeader {
  std::uint32_t rate_hz = 0;
  std::uint32_t channels = 0;
  std::uint32_t samples = 0;  // per channel
  std::size_t bytes = 0;      // with the header
  std::size_t side_info = 0;  // bytes between the header and the frame's content

  [[nodiscard]] bool sounds_like(const FrameHeader& other) const {
    return rate_hz == other.rate_hz && channels == other.channels;
  }
};

/// nullopt: these are not a frame's first bytes, or the frame's length is not in them ("free format").
std::optional<FrameHeader> frame_at(std::span<const std::byte> bytes) {
  static constexpr std::array kRates = {44'100U, 48'000U, 32'000U};
  static constexpr std::array kKilobits = {0U,   32U,  40U,  48U,  56U,  64U,  80U, 96U,
                                           112U, 128U, 160U, 192U, 224U, 256U, 320U};
  static constexpr std::array kKilobitsOfLowRates = {0U,  8U,  16U, 24U,  32U,  40U,  48U, 56U,
                                                     64U, 80U, 96U, 112U, 128U, 144U, 160U};
  ByteCursor cursor(bytes);
  const std::uint32_t head = cursor.big(kHeaderBytes);
  const std::uint32_t version = (head >> 19U) & 3U;  // 0: 2.5, 2: 2, 3: 1
  const std::uint32_t layer = (head >> 17U) & 3U;    // 1: III
  const std::uint32_t bitrate = (head >> 12U) & 15U;
  const std::uint32_t rate = (head >> 10U) & 3U;
  const std::uint32_t padding = (head >> 9U) & 1U;
  const bool mono = ((head >> 6U) & 3U) == 3;
  if (cursor.ended_early() || head >> 21U != 0x7FF || version == 1 || layer != 1 || bitrate == 0 ||
      bitrate >= kKilobits.size() || rate >= kRates.size()) {
    return std::nullopt;
  }
  const bool low = version != 3;
  FrameHeader frame{.rate_hz = kRates[rate] >> (version == 0 ? 2U
                                                : low        ? 1U
                                                             : 0U),
                    .channels = mono ? 1U : 2U,
                    .samples = low ? 576U : 1152U};
  const std::uint32_t bits = 1000 * (low ? kKilobitsOfLowRates[bitrate] : kKilobits[bitrate]);
  frame.bytes = frame.samples / 8 * bits / frame.rate_hz + padding;
  frame.side_info = low ? (mono ? 9U : 17U) : (mono ? 17U : 32U);
  return frame;
}

/// What an encoder notes in a first frame without sound ("Xing", "Info").
struct EncoderNotes {
  std::optional<std::uint32_t> frames;
  bool counts_itself = false;  // or may: encoders that say nothing of themselves differ
  std::uint64_t before = 0;    // samples that were not in the original
  std::uint64_t after = 0;
};

/// nullopt: it is a frame with sound.
std::optional<EncoderNotes> notes_in(std::span<const std::byte> frame, std::size_t side_info) {
  ByteCursor cursor(frame.subspan(kHeaderBytes));
  cursor.take(side_info);
  const std::string_view name = as_text(cursor.take(4));
  if (name != "Xing" && name != "Info") return std::nullopt;
  EncoderNotes notes;
  const std::uint32_t parts = cursor.big(4);
  if ((parts & 1U) != 0) notes.frames = cursor.big(4);
  if ((parts & 2U) != 0) cursor.take(4);    // bytes
  if ((parts & 4U) != 0) cursor.take(100);  // places to seek to
  if ((parts & 8U) != 0) cursor.take(4);    // quality
  if (cursor.ended_early()) return EncoderNotes{};
  const bool has_encoder = !cursor.rest().empty() && cursor.rest()[0] != std::byte{0};
  notes.counts_itself = !has_encoder;
  cursor.take(21);  // encoder, method, lowpass, gains, flags, bit rate
  const std::uint32_t gaps = cursor.big(3);
  if (!has_encoder || cursor.ended_early() || gaps == 0) return notes;
  notes.before = (gaps >> 12U) + kDecoderDelay;
  const std::uint64_t padding = gaps & 0xFFFU;
  notes.after = padding > kDecoderDelay ? padding - kDecoderDelay : 0;
  return notes;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::uint64_t samples_in(const Mp3Frames& frames) {
  return frames.count * frames.samples_each - frames.before - frames.after;
}

struct CloseDecoder {
  void operator()(mpg123_handle* decoder) const { mpg123_delete(decoder); }
};

ssize_t read_some(void* source, void* out, std::size_t count) {
  auto& rest = *static_cast<std::span<const std::byte>*>(source);
  const auto taken = rest.first(std::min(rest.size(), count));
  std::memcpy(out, taken.data(), taken.size());
  rest = rest.subspan(taken.size());
  return static_cast<ssize_t>(taken.size());
}

off_t cannot_seek(void* /*source*/, off_t /*offset*/, int /*whence*/) { return -1; }

/// nullptr: it cannot be opened.
std::unique_ptr<mpg123_handle, CloseDecoder> open_decoder(const SoundHeader& header,
                                                          std::span<const std::byte>& source) {
  // Its plain C, so that the samples are the same on every machine.
  std::unique_ptr<mpg123_handle, CloseDecoder> decoder(mpg123_new("generic", nullptr));
  if (decoder == nullptr) return nullptr;
  mpg123_handle* const handle = decoder.get();
  const long flags = MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_NO_RESYNC | MPG123_IGNORE_INFOFRAME;
  const auto rate = static_cast<long>(header.sample_rate_hz);
  const bool opened =
      mpg123_param(handle, MPG123_FLAGS, flags, 0) == MPG123_OK &&
      mpg123_format_none(handle) == MPG123_OK &&
      mpg123_format(handle, rate, static_cast<int>(header.channels), MPG123_ENC_FLOAT_32) ==
          MPG123_OK &&
      mpg123_replace_reader_handle(handle, read_some, cannot_seek, nullptr) == MPG123_OK &&
      mpg123_open_handle(handle, &source) == MPG123_OK;
  return opened ? std::move(decoder) : nullptr;
}

}  // namespace

std::size_t leading_tags(std::span<const std::byte> file) {
  std::size_t size = 0;
  while (as_text(file.subspan(size)).starts_with("ID3")) {
    ByteCursor cursor(file.subspan(size));
    cursor.take(5);
    const std::uint32_t flags = cursor.big(1);
    std::uint64_t length = 0;
    for (int i = 0; i < 4; ++i) length = (length << 7U) | (cursor.big(1) & 0x7FU);
    cursor.take(length + ((flags & 0x10U) != 0 ? 10 : 0));
    if (cursor.ended_early()) return file.size();
    size = file.size() - cursor.rest().size();
  }
  return size;
}

std::span<const std::byte> without_trailing_tags(std::span<const std::byte> file) {
  if (file.size() >= kId3v1Bytes && as_text(file.last(kId3v1Bytes)).starts_with("TAG")) {
    file = file.first(file.size() - kId3v1Bytes);
  }
  if (file.size() >= kApeFooterBytes &&
      as_text(file.last(kApeFooterBytes)).starts_with("APETAGEX")) {
    ByteCursor cursor(file.last(kApeFooterBytes));
    cursor.take(12);
    const std::uint64_t items = cursor.little(4);  // and the footer
    cursor.take(4);
    const std::uint64_t header = (cursor.little(4) >> 31U) * kApeFooterBytes;
    if (items + header <= file.size()) file = file.first(file.size() - items - header);
  }
  return file;
}

bool is_mp3(std::span<const std::byte> file) {
  return as_text(file).starts_with("ID3") || frame_at(file).has_value();
}

Result<SoundHeader> read_mp3_header(const MediaFile& file) {
  const auto bytes = without_trailing_tags(file.bytes);
  std::size_t at = std::min(leading_tags(file.bytes), bytes.size());
  while (at < bytes.size() && bytes[at] == std::byte{0}) ++at;
  const auto first = frame_at(bytes.subspan(at));
  if (!first.has_value()) {
    return unsupported(file,
                       "no MP3 frame of a stated length where its sound begins; send WAV or FLAC");
  }
  SoundHeader header{.format = FileFormat::kMp3,
                     .sample_rate_hz = first->rate_hz,
                     .channels = first->channels,
                     .mp3 = {.samples_each = first->samples}};
  std::optional<EncoderNotes> notes;
  if (first->bytes <= bytes.size() - at) {
    notes = notes_in(bytes.subspan(at, first->bytes), first->side_info);
    if (notes.has_value()) at += first->bytes;
  }
  Mp3Frames& frames = header.mp3;
  frames.begin = at;
  while (at < bytes.size()) {
    const auto frame = frame_at(bytes.subspan(at));
    if (!frame.has_value()) {
      if (is_zero(bytes.subspan(at))) break;
      return corrupt(file,
                     fmt::format("no MP3 frame at byte {}, after {} frames", at, frames.count));
    }
    if (!frame->sounds_like(*first)) {
      return unsupported(
          file, fmt::format("an MP3 whose rate or channels change after {} frames", frames.count));
    }
    if (frame->bytes > bytes.size() - at) {
      return corrupt(file, fmt::format("an MP3 that ends within its frame {}", frames.count + 1));
    }
    at += frame->bytes;
    ++frames.count;
  }
  frames.end = at;
  if (!notes.has_value()) notes.emplace();
  if (notes->frames.has_value() && *notes->frames != frames.count &&
      !(notes->counts_itself && *notes->frames == frames.count + 1)) {
    return corrupt(file, fmt::format("an MP3 that declares {} frames but has {}", *notes->frames,
                                     frames.count));
  }
  if (notes->before + notes->after < frames.count * frames.samples_each) {
    frames.before = notes->before;
    frames.after = notes->after;
  }
  header.samples = samples_in(frames);
  return header;
}

std::string mp3_decoder() { return "mpg123 " AFTERIMAGE_MPG123_VERSION ", generic"; }

Result<Samples> decode_mp3(const MediaFile& file, const SoundHeader& header) {
  const Mp3Frames& frames = header.mp3;
  auto source = file.bytes.subspan(frames.begin, frames.end - frames.begin);
  const auto decoder = open_decoder(header, source);
  if (decoder == nullptr) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("{}: mpg123 does not start its generic decoder; send WAV or FLAC", file.name));
  }
  const std::uint64_t all = frames.count * frames.samples_each;
  Samples samples{.sample_rate_hz = header.sample_rate_hz, .mono = {}};
  samples.mono.reserve(all);
  std::vector<float> block(std::size_t{frames.samples_each} * header.channels * 4);
  while (samples.mono.size() <= all) {
    std::size_t filled = 0;
    const int code = mpg123_read(decoder.get(), reinterpret_cast<unsigned char*>(block.data()),
                                 block.size() * sizeof(float), &filled);
    const auto read = std::span(block).first(filled / sizeof(float));
    if (!append_mono(read, header.channels, samples.mono)) {
      return corrupt(file, "a sample that is not a number");
    }
    if (code == MPG123_DONE) break;
    if (code != MPG123_OK && code != MPG123_NEW_FORMAT) {
      return corrupt(file, fmt::format("after {} samples: {}", samples.mono.size(),
                                       mpg123_strerror(decoder.get())));
    }
  }
  if (samples.mono.size() != all) {
    return corrupt(file, fmt::format("its frames hold {} samples; {} could be read", all,
                                     samples.mono.size()));
  }
  samples.mono.resize(all - frames.after);
  samples.mono.erase(samples.mono.begin(),
                     samples.mono.begin() + static_cast<std::ptrdiff_t>(frames.before));
  return samples;
}

}  // namespace afterimage
