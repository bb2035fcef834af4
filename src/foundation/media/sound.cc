// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>  // SEEK_SET and the like, for libsndfile
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/media/mono.h"
#include "foundation/media/sound_packets.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kPcm = 1;
constexpr std::uint32_t kMicrosoftAdpcm = 2;
constexpr std::uint32_t kFloat = 3;
constexpr std::uint32_t kALaw = 6;
constexpr std::uint32_t kMuLaw = 7;
constexpr std::uint32_t kImaAdpcm = 0x11;
constexpr std::uint32_t kExtensible = 0xFFFE;

constexpr std::size_t kBlockFrames = 4096;

struct WavFormat {
  std::uint32_t tag;
  std::uint32_t block_bytes;        // one sample of every channel; of ADPCM some more
  std::uint32_t block_samples = 1;  // of each channel
};

/// Samples of each channel in a block of ADPCM; 0: it is none.
std::uint32_t adpcm_samples(const WavFormat& format, std::uint32_t channels) {
  const std::uint32_t head = (format.tag == kImaAdpcm ? 4 : 7) * channels;
  if (channels == 0 || channels > 2 || format.block_bytes <= head) return 0;
  return (format.block_bytes - head) * 2 / channels + (format.tag == kImaAdpcm ? 1 : 2);
}

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
  if (format.tag == kMicrosoftAdpcm || format.tag == kImaAdpcm) {
    cursor.take(2);  // extension size
    format.block_samples = cursor.little(2);
    if (format.block_samples != adpcm_samples(format, header.channels)) return WavFormat{};
  }
  return cursor.ended_early() ? WavFormat{} : format;
}

bool is_read(std::uint32_t tag) {
  return tag == kPcm || tag == kFloat || tag == kALaw || tag == kMuLaw || tag == kMicrosoftAdpcm ||
         tag == kImaAdpcm;
}

/// What programs write that cannot go back to the header at the end: all ones, or a little less than
/// 2 GiB.
bool wave_is_of_a_pipe(std::uint32_t length) { return length >= 0x7FFF0000U; }

/// The bytes of the samples, of which `length` are declared and `rest` follow. nullopt: it ends early.
/// `riff` is the length of the file by its first header, `at` what of that is before the samples.
std::optional<std::uint64_t> data_length(std::uint32_t length, std::uint32_t riff, std::uint64_t at,
                                         std::uint64_t rest) {
  const bool open_end = riff == 0 || wave_is_of_a_pipe(riff);
  if (length == 0 && rest > 0 && (open_end || riff == at)) return rest;
  if (length <= rest) return length;
  if (wave_is_of_a_pipe(length) && open_end) return rest;
  return std::nullopt;
}

/// What a large WAV (RF64, BW64) says of its lengths in its first chunk, in place of four bytes of all ones.
struct WideLengths {
  std::uint64_t file = 0;
  std::uint64_t samples = 0;

  /// The bytes of the samples, of which `rest` follow. Of a pipe both are 0.
  [[nodiscard]] std::optional<std::uint64_t> data_length(std::uint64_t rest) const {
    if (file == 0 && samples == 0) return rest;
    return samples <= rest ? std::optional(samples) : std::nullopt;
  }
};

std::optional<WideLengths> wide_lengths(std::string_view type, std::span<const std::byte> body) {
  ByteCursor cursor(body);
  const auto number = [&cursor] {
    const std::uint64_t low = cursor.little(4);
    return std::uint64_t{cursor.little(4)} << 32U | low;
  };
  const std::uint64_t file = number();
  const std::uint64_t samples = number();
  if (type != "ds64" || cursor.ended_early()) return std::nullopt;
  return WideLengths{.file = file, .samples = samples};
}

/// Headers that files would have if their length had been known when they were written.
class SoundHead {
 public:
  void text(std::string_view word) {
    for (const char c : word) bytes_.push_back(static_cast<std::byte>(c));
  }
  void bytes(std::span<const std::byte> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  void little(std::size_t value) {
    for (unsigned i = 0; i < 4; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void big(std::uint64_t value, unsigned width = 4) {
    while (width-- > 0) bytes_.push_back(static_cast<std::byte>(value >> (8 * width)));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> wav_head(const WavSamples& wav) {
  SoundHead head;
  head.text("RIFF");
  head.little(20 + wav.format.size() + wav.data.size());
  head.text("WAVEfmt ");
  head.little(wav.format.size());
  head.bytes(wav.format);
  head.text("data");
  head.little(wav.data.size());
  return head.take();
}

/// `file` is what is before the samples.
std::vector<std::byte> caf_head(std::span<const std::byte> file, const WavSamples& caf) {
  SoundHead head;
  head.bytes(file.first(file.size() - 8));
  head.big(caf.data.size(), 8);
  return head.take();
}

std::vector<std::byte> aiff_head(std::span<const std::byte> file, const SoundHeader& header) {
  const WavSamples& aiff = header.wav;
  SoundHead head;
  head.text("FORM");
  head.big(28 + aiff.format.size() + aiff.data.size());
  head.bytes(file.subspan(8, 4));  // AIFF or AIFC
  head.text("COMM");
  head.big(aiff.format.size());
  head.bytes(aiff.format.first(2));  // channels
  head.big(header.samples);
  head.bytes(aiff.format.subspan(6));
  head.text("SSND");
  head.big(8 + aiff.data.size());
  head.big(0, 8);
  return head.take();
}

/// The number of samples is the last 36 bits before the checksum of the decoded sound, 16 bytes.
std::vector<std::byte> flac_head(std::span<const std::byte> file, std::uint64_t samples) {
  const auto [before, checksum] = std::pair(file.first(file.size() - 21), file.last(16));
  SoundHead head;
  head.bytes(before);
  const auto shared = std::to_integer<std::uint64_t>(file[before.size()]) & 0xF0U;
  head.big(shared << 32U | samples, 5);
  head.bytes(checksum);
  return head.take();
}

std::vector<std::byte> head_of(const MediaFile& file, const SoundHeader& header) {
  if (header.format == FileFormat::kWav) return wav_head(header.wav);
  const std::size_t tags = leading_tags(file.bytes);
  const auto begin = static_cast<std::size_t>(header.wav.data.data() - file.bytes.data());
  const auto before = file.bytes.subspan(tags, begin - tags);
  if (header.format == FileFormat::kCaf) return caf_head(before, header.wav);
  if (header.format == FileFormat::kAiff) return aiff_head(before, header);
  return flac_head(before, header.samples);
}

struct MemoryFile {
  std::vector<std::byte> head;  // before `bytes`
  std::span<const std::byte> bytes;
  std::size_t position = 0;
};

sf_count_t size_of(void* user) {
  const auto* file = static_cast<MemoryFile*>(user);
  return static_cast<sf_count_t>(file->head.size() + file->bytes.size());
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
  const bool in_head = file->position < file->head.size();
  const auto rest = in_head ? std::span<const std::byte>(file->head).subspan(file->position)
                            : file->bytes.subspan(file->position - file->head.size());
  const auto taken = rest.first(std::min(rest.size(), static_cast<std::size_t>(count)));
  if (!taken.empty()) std::memcpy(out, taken.data(), taken.size());
  file->position += taken.size();
  if (in_head && std::cmp_less(taken.size(), count)) {
    const auto more = count - static_cast<sf_count_t>(taken.size());
    return static_cast<sf_count_t>(taken.size()) +
           read_some(static_cast<std::byte*>(out) + taken.size(), more, user);
  }
  return static_cast<sf_count_t>(taken.size());
}

sf_count_t position_of(void* user) {
  return static_cast<sf_count_t>(static_cast<MemoryFile*>(user)->position);
}

struct CloseSound {
  void operator()(SNDFILE* sound) const { sf_close(sound); }
};

bool promises(const SF_INFO& info, const SoundHeader& header) {
  const std::uint64_t samples =
      header.format == FileFormat::kWav ? header.wav.coded_samples : header.samples;
  return std::cmp_equal(info.samplerate, header.sample_rate_hz) &&
         std::cmp_equal(info.channels, header.channels) && std::cmp_equal(info.frames, samples);
}

}  // namespace

Result<SoundHeader> read_wav_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(4));  // "RIFF", "RF64" or "BW64"
  const bool is_large = !as_text(file.bytes).starts_with("RIFF");
  const std::uint32_t riff = cursor.little(4);
  cursor.take(4);  // "WAVE"
  SoundHeader header{.format = FileFormat::kWav};
  WavFormat format{};
  std::uint32_t declared_samples = 0;
  std::optional<WideLengths> wide;
  while (true) {
    const auto type = cursor.take(4);
    const std::uint32_t length = cursor.little(4);
    if (cursor.ended_early()) return corrupt(file, "its WAV header ends before any samples");
    if (as_text(type) != "data") {
      const auto body = cursor.take(length + std::uint64_t{length % 2});
      if (as_text(type) == "fmt ") {
        format = read_wav_format(body, header);
        header.wav.format = body;
      }
      if (is_large && !wide.has_value()) wide = wide_lengths(as_text(type), body);
      if (as_text(type) == "fact") declared_samples = ByteCursor(body).little(4);
      continue;
    }
    if (format.block_bytes == 0 || header.channels == 0) {
      return corrupt(file, "a WAV whose samples come before a usable \"fmt \" chunk");
    }
    if (!is_read(format.tag)) {
      return unsupported(file, fmt::format("WAV encoding {:#06x}; PCM, float, A-law, mu-law and "
                                           "ADPCM are read",
                                           format.tag));
    }
    const std::size_t rest = cursor.rest().size();
    const bool is_wide = wide.has_value() && length == UINT32_MAX;
    auto bytes = data_length(length, riff, file.bytes.size() - rest - 8, rest);
    if (is_wide) bytes = wide->data_length(rest);
    if (!bytes.has_value()) {
      return corrupt(file, fmt::format("a WAV that declares {} bytes of samples but has {}",
                                       is_wide ? wide->samples : length, rest));
    }
    const std::uint64_t over = *bytes % format.block_bytes;
    if (over > 1) {
      return corrupt(file, fmt::format("a WAV with {} bytes of samples of {} bytes each", *bytes,
                                       format.block_bytes));
    }
    WavSamples& wav = header.wav;
    wav.data = cursor.take(*bytes - over);
    wav.as_declared = !is_large && *bytes == length && over == 0;
    wav.coded_samples = wav.data.size() / format.block_bytes * format.block_samples;
    header.samples = wav.coded_samples;
    // Of ADPCM the last block may hold more than the sound.
    if (declared_samples < header.samples &&
        header.samples - declared_samples < format.block_samples) {
      header.samples = declared_samples;
    }
    return header;
  }
}

Result<SoundHeader> read_flac_header(const MediaFile& file) {
  constexpr std::uint32_t kStreamInfoBytes = 34;
  ByteCursor cursor(file.bytes.subspan(leading_tags(file.bytes)));
  cursor.take(4);  // "fLaC"
  const std::uint32_t type = cursor.big(1);
  const bool is_last_block = type >= 0x80U;
  const std::uint32_t length = cursor.big(3);
  ByteCursor info(cursor.take(length));
  info.take(10);  // smallest and largest block and frame
  const std::uint32_t high = info.big(4);
  const std::uint32_t low = info.big(4);
  if (cursor.ended_early() || info.ended_early() || (type & 0x7FU) != 0 ||
      length != kStreamInfoBytes) {
    return corrupt(file, "its FLAC header (STREAMINFO) is missing or ends early");
  }
  // 20 bits rate, 3 bits channels - 1, 5 bits depth - 1, 36 bits samples.
  SoundHeader header{.format = FileFormat::kFlac};
  header.sample_rate_hz = high >> 12U;
  header.channels = ((high >> 9U) & 7U) + 1;
  header.samples = (std::uint64_t{high & 0xFU} << 32U) | low;
  if (header.samples != 0) return header;
  // It was written into a pipe: as long as its frames are together.
  header.wav = {.data = without_trailing_tags(cursor.rest()), .as_declared = false};
  ByteCursor blocks(header.wav.data);
  for (bool is_last = is_last_block; !is_last && !blocks.ended_early();) {
    is_last = blocks.big(1) >= 0x80U;
    blocks.take(blocks.big(3));
  }
  AFI_TRY(header.samples, flac_length(file, blocks.rest()));
  return header;
}

Result<Samples> decode_sound(const MediaFile& file, const SoundHeader& header) {
  SF_VIRTUAL_IO memory{.get_filelen = size_of,
                       .seek = seek_to,
                       .read = read_some,
                       .write = nullptr,
                       .tell = position_of};
  MemoryFile source{.head = {}, .bytes = file.bytes.subspan(leading_tags(file.bytes))};
  if (header.format == FileFormat::kFlac) source.bytes = without_trailing_tags(source.bytes);
  if (!header.wav.as_declared) {
    source.head = head_of(file, header);
    source.bytes = header.wav.data;
  }
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
  if (header.format == FileFormat::kWav && samples.mono.size() > header.samples) {
    samples.mono.resize(header.samples);
  }
  if (samples.mono.size() != header.samples) {
    return corrupt(
        file, fmt::format("{} declares {} samples; only {} could be read", to_string(header.format),
                          header.samples, samples.mono.size()));
  }
  return samples;
}

}  // namespace afterimage
