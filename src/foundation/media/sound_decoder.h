// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "foundation/media/formats.h"
#include "foundation/media/libav.h"
#include "foundation/media/sound_packets.h"

/// Private to this room: the samples in packets of a compressed sound.
namespace afterimage {

/// Samples that were decoded together.
struct SoundBlock {
  std::span<const float* const> channels;
  std::size_t samples;  // of each channel
};

/// Decodes with one of FFmpeg's decoders in plain C, so that the samples are the same on every machine:
/// those of the processor's vector instructions differ in the last bits.
///
/// Errors   kUnsupported, kCorruption, kNoSpace. They name the file.
/// Threads  One at a time. start() holds libav_opening(), since plain C is chosen for the whole process.
class SoundDecoder {
 public:
  /// Opens it and decodes the first samples, for decoders choose some of their code only then. `file` and
  /// `packets` outlive it.
  static Result<SoundDecoder> start(const MediaFile& file, const AVCodecParameters& parameters,
                                    SoundPackets& packets);

  [[nodiscard]] std::uint32_t rate_hz() const { return rate_hz_; }
  [[nodiscard]] std::size_t channels() const { return channels_.size(); }
  /// Of each channel in the first frame.
  [[nodiscard]] std::uint64_t first_samples() const { return first_samples_; }

  /// The next samples, valid until the next call; none: there are no more.
  Result<SoundBlock> next();

 private:
  SoundDecoder(const MediaFile& file, SoundPackets& packets) : file_(&file), packets_(&packets) {}
  Result<void> open(const AVCodecParameters& parameters);
  /// Decodes one frame into `channels_`; `samples_` is 0 at the end.
  Result<void> decode();
  /// Sends the decoder the next packet, or says that there are no more.
  Result<void> send();
  Result<void> take();
  template <typename T>
  void convert(bool planar);
  [[nodiscard]] std::unexpected<Error> damaged(int error) const;

  const MediaFile* file_;
  SoundPackets* packets_;
  OwnedAv<AVCodecContext> context_;
  OwnedAv<AVBufferPool> pool_;  // of packets of `most_bytes_`
  std::size_t most_bytes_ = 0;
  OwnedAv<AVPacket> packet_;
  OwnedAv<AVFrame> frame_;
  std::vector<const float*> channels_;  // in `frame_`, or in `converted_`
  std::vector<float> converted_;
  std::size_t samples_ = 0;
  std::uint32_t rate_hz_ = 0;
  std::uint64_t first_samples_ = 0;
  int sent_ = 0;
  bool sent_all_ = false;
  bool is_first_ = true;
};

}  // namespace afterimage
