// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/media/formats.h"

/// Private to this room: where the packets of a compressed sound lie in its file, and which of their
/// samples are the sound. No library has a part in this.
namespace afterimage {

enum class SoundCodec : std::uint8_t { kOpus, kVorbis, kFlac, kAac, kAmrNarrow, kAmrWide };

/// The packets of one sound, in order.
class SoundPackets {
 public:
  SoundPackets() = default;
  SoundPackets(const SoundPackets&) = delete;
  SoundPackets& operator=(const SoundPackets&) = delete;
  virtual ~SoundPackets() = default;
  /// False: there are no more. `packet` is valid until the next call.
  virtual Result<bool> next(std::span<const std::byte>& packet) = 0;
};

struct SoundStream {
  SoundCodec codec = SoundCodec::kOpus;
  std::vector<std::byte> setup;          // what the decoder needs before the first packet
  std::uint64_t before = 0;              // samples of the encoder, not of the sound
  std::optional<std::uint64_t> samples;  // of the sound; nullopt: all that the packets hold
  std::unique_ptr<SoundPackets> packets;
};

/// Of an Ogg file with one sound: Opus, Vorbis or FLAC. Every page's place is checked, and its checksum
/// too if `whole`. Its last page must be marked as the last: a file that was cut has none.
Result<SoundStream> open_ogg(const MediaFile& file, bool whole);
/// Of an AMR file, narrow or wide.
Result<SoundStream> open_amr(const MediaFile& file);
/// Of frames of AAC with ADTS headers, which say nothing of the samples that the encoder added: all are
/// the sound.
Result<SoundStream> open_adts(const MediaFile& file);

/// Whether a file begins with two frames of AAC with ADTS headers, or one that is the whole file.
bool is_adts(std::span<const std::byte> file);

/// Samples of an Opus packet at 48 kHz; 0: it is none.
std::uint32_t opus_samples(std::span<const std::byte> packet);

/// Samples of each channel in a frame of FLAC; 0: it is none.
std::uint32_t flac_samples(std::span<const std::byte> frame);
/// Samples of each channel in frames of FLAC, one behind the other, whose checksums and numbers are right.
/// Reads every byte, and decodes none.
Result<std::uint64_t> flac_length(const MediaFile& file, std::span<const std::byte> frames);

/// Which part of the first sound track of an MP4 file is shown, as its edit list says.
struct Mp4Edit {
  std::uint32_t movie_unit = 0;  // ticks a second
  std::uint32_t track_unit = 0;
  std::uint64_t begin = 0;   // in ticks of the track
  std::uint64_t length = 0;  // in ticks of the movie; 0: to the end
  bool is_simple = true;     // false: several pieces, or at another speed
};
/// nullopt: there is no sound track, or no edit list.
std::optional<Mp4Edit> edit_of_sound(std::span<const std::byte> file);

}  // namespace afterimage
