// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>  // SEEK_SET and the like, for libsndfile
#include <cstring>
#include <memory>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kPcm = 1;
constexpr std::uint32_t kFloat = 3;
constexpr std::uint32_t kALaw = 6;
constexpr std::uint32_t kMuLaw = 7;
constexpr std::uint32_t kExtensible = 0xFFFE;

constexpr std::size_t kBlockFrames = 4096;

struct WavFormat {
  std::uint32_t tag;
  std::uint32_t block_bytes;  // one sample of every channel
};

/// Reads the "fmt " chunk into `header`.
WavFormat read_wav_format(std::span<const std::byte> chunk, SoundHeader& header) {
  ByteCursor cursor(chunk);
  WavFormat format{};
  format.tag = cursor.little(2);
  header.channels = cursor.little(2);
  header.sample_rate_hz = cursor.little(4);
  cursor.take(4);  // bytes a second
  format.block_bytes = cursor.little(2);
  cursor.take(2);  // bits a sample
  if (format.tag == kExtensible) {
    cursor.take(8);  // extension size, valid bits, speakers
    format.tag = cursor.little(2);
  }
  return cursor.ended_early() ? WavFormat{} : format;
}

bool is_linear(std::uint32_t tag) {
  return tag == kPcm || tag == kFloat || tag == kALaw || tag == kMuLaw;
}

struct MemoryFile {
  std::span<const std::byte> bytes;
  std::size_t position = 0;
};

sf_count_t size_of(void* user) {
  return static_cast<sf_count_t>(static_cast<MemoryFile*>(user)->bytes.size());
}

sf_count_t seek_to(sf_count_t offset, int whence, void* user) {
  auto* file = static_cast<MemoryFile*>(user);
  sf_count_t base = 0;
  if (whence == SEEK_CUR) base = static_cast<sf_count_t>(file->position);
  if (whence == SEEK_END) base = size_of(user);
  // libsndfile computes offsets from untrusted file content, so the sum may overflow.
  sf_count_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0 || target > size_of(user)) {
    return -1;
  }
  file->position = static_cast<std::size_t>(target);
  return target;
}

sf_count_t read_some(void* out, sf_count_t count, void* user) {
  auto* file = static_cast<MemoryFile*>(user);
  if (count <= 0) return 0;
  const auto rest = file->bytes.subspan(file->position);
  const auto taken = rest.first(std::min(rest.size(), static_cast<std::size_t>(count)));
  std::memcpy(out, taken.data(), taken.size());
  file->position += taken.size();
  return static_cast<sf_count_t>(taken.size());
}

sf_count_t position_of(void* user) {
  return static_cast<sf_count_t>(static_cast<MemoryFile*>(user)->position);
}

struct CloseSound {
  void operator()(SNDFILE* sound) const { sf_close(sound); }
};

bool promises(const SF_INFO& info, const SoundHeader& header) {
  return std::cmp_equal(info.samplerate, header.sample_rate_hz) &&
         std::cmp_equal(info.channels, header.channels) &&
         std::cmp_equal(info.frames, header.samples);
}

}  // namespace

bool append_mono(std::span<const float> interleaved, std::size_t channels,
                 std::vector<float>& mono) {
  for (std::size_t i = 0; i < interleaved.size(); i += channels) {
    double sum = 0;
    for (const float sample : interleaved.subspan(i, channels)) {
      if (!std::isfinite(sample)) return false;
      sum += static_cast<double>(std::clamp(sample, -1.0F, 1.0F));
    }
    mono.push_back(static_cast<float>(sum / static_cast<double>(channels)));
  }
  return true;
}

Result<SoundHeader> read_wav_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(12));  // "RIFF", its length, "WAVE"
  SoundHeader header{.format = FileFormat::kWav};
  WavFormat format{};
  while (true) {
    const auto type = cursor.take(4);
    const std::uint32_t length = cursor.little(4);
    if (cursor.ended_early()) return corrupt(file, "its WAV header ends before any samples");
    if (as_text(type) == "data") {
      if (format.block_bytes == 0 || header.channels == 0) {
        return corrupt(file, "a WAV whose samples come before a usable \"fmt \" chunk");
      }
      if (!is_linear(format.tag)) {
        return unsupported(file, fmt::format("WAV encoding {:#06x}; PCM, float, A-law and mu-law "
                                             "are read",
                                             format.tag));
      }
      if (length > cursor.rest().size()) {
        return corrupt(file, fmt::format("a WAV that declares {} bytes of samples but has {}",
                                         length, cursor.rest().size()));
      }
      if (length % format.block_bytes != 0) {
        return corrupt(file, fmt::format("a WAV with {} bytes of samples of {} bytes each", length,
                                         format.block_bytes));
      }
      header.samples = length / format.block_bytes;
      return header;
    }
    const auto body = cursor.take(length + std::uint64_t{length % 2});
    if (as_text(type) == "fmt ") format = read_wav_format(body, header);
  }
}

Result<SoundHeader> read_flac_header(const MediaFile& file) {
  constexpr std::uint32_t kStreamInfoBytes = 34;
  ByteCursor cursor(file.bytes.subspan(4));  // "fLaC"
  const std::uint32_t type = cursor.big(1) & 0x7FU;
  const std::uint32_t length = cursor.big(3);
  ByteCursor info(cursor.take(length));
  info.take(10);  // smallest and largest block and frame
  const std::uint32_t high = info.big(4);
  const std::uint32_t low = info.big(4);
  if (cursor.ended_early() || info.ended_early() || type != 0 || length != kStreamInfoBytes) {
    return corrupt(file, "its FLAC header (STREAMINFO) is missing or ends early");
  }
  // 20 bits rate, 3 bits channels - 1, 5 bits depth - 1, 36 bits samples.
  SoundHeader header{.format = FileFormat::kFlac};
  header.sample_rate_hz = high >> 12U;
  header.channels = ((high >> 9U) & 7U) + 1;
  header.samples = (std::uint64_t{high & 0xFU} << 32U) | low;
  if (header.samples == 0) {
    return unsupported(file, "a FLAC whose header does not state its length");
  }
  return header;
}

Result<Samples> decode_sound(const MediaFile& file, const SoundHeader& header) {
  SF_VIRTUAL_IO memory{.get_filelen = size_of,
                       .seek = seek_to,
                       .read = read_some,
                       .write = nullptr,
                       .tell = position_of};
  MemoryFile source{.bytes = file.bytes};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, CloseSound> sound(
      sf_open_virtual(&memory, SFM_READ, &info, &source));
  if (sound == nullptr) return corrupt(file, sf_strerror(nullptr));
  if (!promises(info, header)) return corrupt(file, "its headers contradict each other");

  Samples samples{.sample_rate_hz = header.sample_rate_hz, .mono = {}};
  // Grows with the decoded samples: a FLAC header can promise hours in a hundred bytes.
  std::vector<float> block(kBlockFrames * header.channels);
  while (samples.mono.size() < header.samples) {
    const sf_count_t frames = sf_readf_float(sound.get(), block.data(), kBlockFrames);
    if (frames <= 0 || sf_error(sound.get()) != SF_ERR_NO_ERROR) break;
    const std::size_t filled = static_cast<std::size_t>(frames) * header.channels;
    if (!append_mono(std::span(block).first(filled), header.channels, samples.mono)) {
      return corrupt(file, "a sample that is not a number");
    }
  }
  if (samples.mono.size() != header.samples) {
    return corrupt(
        file, fmt::format("{} declares {} samples; only {} could be read", to_string(header.format),
                          header.samples, samples.mono.size()));
  }
  return samples;
}

}  // namespace afterimage
