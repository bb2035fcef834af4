// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/sound_decoder.h"

extern "C" {
#include <libavutil/cpu.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "foundation/media/cursor.h"

namespace afterimage {
namespace {

constexpr int kPacketsUntilSound = 16;  // a decoder may need some before its first samples

template <typename T>
float as_float(T sample) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<float>(sample);
  } else {
    constexpr double kFull = -static_cast<double>(std::numeric_limits<T>::min());
    return static_cast<float>(static_cast<double>(sample) / kFull);
  }
}

/// FFmpeg 8 returns what it decoded of Vorbis's first packet, too, which only overlaps with the second one's
/// samples. (Of other formats we know from the container what is not of the sound.)
bool is_overlap(const AVCodecContext& context, const AVFrame& frame) {
  if (context.codec_id != AV_CODEC_ID_VORBIS) return false;
  const AVFrameSideData* const skip = av_frame_get_side_data(&frame, AV_FRAME_DATA_SKIP_SAMPLES);
  if (skip == nullptr || skip->size < 10) return false;
  ByteCursor cursor(std::as_bytes(std::span(skip->data, skip->size)));
  return cursor.little(4) >= static_cast<std::uint32_t>(frame.nb_samples);
}

}  // namespace

Result<SoundDecoder> SoundDecoder::start(const MediaFile& file, const AVCodecParameters& parameters,
                                         SoundPackets& packets) {
  set_up_libav();
  SoundDecoder decoder(file, packets);
  const std::scoped_lock lock(libav_opening());
  av_force_cpu_flags(0);
  auto done = decoder.open(parameters);
  if (done.has_value()) done = decoder.decode();
  av_force_cpu_flags(-1);
  if (!done.has_value()) return std::unexpected(done.error());
  if (decoder.samples_ == 0) return corrupt(file, "none of its sound can be decoded");
  decoder.first_samples_ = decoder.samples_;
  return decoder;
}

Result<void> SoundDecoder::open(const AVCodecParameters& parameters) {
  const AVCodec* const codec = avcodec_find_decoder(parameters.codec_id);
  if (codec == nullptr) {
    return unsupported(*file_,
                       fmt::format("a sound coded as \"{}\", for which this build of FFmpeg "
                                   "has no decoder",
                                   avcodec_get_name(parameters.codec_id)));
  }
  context_.reset(avcodec_alloc_context3(codec));
  packet_.reset(av_packet_alloc());
  frame_.reset(av_frame_alloc());
  if (context_ == nullptr || packet_ == nullptr || frame_ == nullptr) {
    return std::unexpected(no_libav_memory());
  }
  int done = avcodec_parameters_to_context(context_.get(), &parameters);
  context_->thread_count = 1;
  context_->flags |= AV_CODEC_FLAG_BITEXACT;
  context_->flags2 |= AV_CODEC_FLAG2_SKIP_MANUAL;  // we cut off what is not of the sound
  context_->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK;
  if (done >= 0) done = avcodec_open2(context_.get(), codec, nullptr);
  if (done < 0) {
    return corrupt(*file_, fmt::format("its decoder refuses it: {}", libav_text(done)));
  }
  return {};
}

std::unexpected<Error> SoundDecoder::damaged(int error) const {
  return corrupt(*file_,
                 fmt::format("a part of its sound cannot be decoded: {}", libav_text(error)));
}

template <typename T>
void SoundDecoder::convert(bool planar) {
  const std::size_t step = (planar ? 1 : channels_.size()) * sizeof(T);
  converted_.resize(samples_ * channels_.size());
  float* to = converted_.data();
  for (std::size_t channel = 0; channel < channels_.size(); ++channel) {
    channels_[channel] = to;
    const std::uint8_t* from =
        planar ? frame_->extended_data[channel] : frame_->extended_data[0] + channel * sizeof(T);
    for (std::size_t i = 0; i < samples_; ++i, from += step) {
      T sample{};
      std::memcpy(&sample, from, sizeof(T));
      *to++ = as_float(sample);
    }
  }
}

Result<void> SoundDecoder::take() {
  const auto rate = static_cast<std::uint32_t>(std::max(frame_->sample_rate, 0));
  const auto channels = static_cast<std::size_t>(std::max(frame_->ch_layout.nb_channels, 0));
  if (rate == 0 || channels == 0) return corrupt(*file_, "a sound without a rate or channels");
  if (rate_hz_ == 0) {
    rate_hz_ = rate;
    channels_.resize(channels);
  }
  if (rate != rate_hz_ || channels != channels_.size()) {
    return unsupported(*file_, "a sound whose rate or channels change");
  }
  if ((frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame_->decode_error_flags != 0) {
    return corrupt(*file_, "a part of its sound is damaged");
  }
  samples_ = static_cast<std::size_t>(std::max(frame_->nb_samples, 0));
  switch (const auto format = static_cast<AVSampleFormat>(frame_->format)) {
    case AV_SAMPLE_FMT_S16:
    case AV_SAMPLE_FMT_S16P:
      convert<std::int16_t>(av_sample_fmt_is_planar(format) != 0);
      return {};
    case AV_SAMPLE_FMT_S32:
    case AV_SAMPLE_FMT_S32P:
      convert<std::int32_t>(av_sample_fmt_is_planar(format) != 0);
      return {};
    case AV_SAMPLE_FMT_FLT:
      convert<float>(false);
      return {};
    case AV_SAMPLE_FMT_FLTP:  // of most decoders: stays where it is
      for (std::size_t channel = 0; channel < channels; ++channel) {
        channels_[channel] = reinterpret_cast<const float*>(frame_->extended_data[channel]);
      }
      return {};
    default:
      return unsupported(*file_, "samples of another kind than 16, 32 bits and float");
  }
}

Result<void> SoundDecoder::send() {
  std::span<const std::byte> bytes;
  AFI_TRY(const bool more, packets_->next(bytes));
  sent_all_ = !more;
  av_packet_unref(packet_.get());
  if (more) {
    if (bytes.empty() || bytes.size() > std::size_t{1} << 24U) {
      return corrupt(*file_, "a part of its sound is empty or too long");
    }
    // From a pool: a quick decoder, as AAC's, would wait for memory.
    if (bytes.size() > most_bytes_) {
      most_bytes_ = std::max(2 * bytes.size(), std::size_t{4096});
      pool_.reset(av_buffer_pool_init(most_bytes_ + AV_INPUT_BUFFER_PADDING_SIZE, nullptr));
    }
    packet_->buf = pool_ == nullptr ? nullptr : av_buffer_pool_get(pool_.get());
    if (packet_->buf == nullptr) return std::unexpected(no_libav_memory());
    packet_->data = packet_->buf->data;
    packet_->size = static_cast<int>(bytes.size());
    std::memcpy(packet_->data, bytes.data(), bytes.size());
    std::memset(packet_->data + bytes.size(), 0, AV_INPUT_BUFFER_PADDING_SIZE);
    ++sent_;
  }
  const int sent = avcodec_send_packet(context_.get(), more ? packet_.get() : nullptr);
  if (sent < 0) return damaged(sent);
  return {};
}

Result<void> SoundDecoder::decode() {
  samples_ = 0;
  while (samples_ == 0) {
    const int received = avcodec_receive_frame(context_.get(), frame_.get());
    if (received >= 0) {
      if (!is_overlap(*context_, *frame_)) AFI_TRY_VOID(take());
      continue;
    }
    if (received == AVERROR_EOF || (received == AVERROR(EAGAIN) && sent_all_)) return {};
    if (received != AVERROR(EAGAIN)) return damaged(received);
    if (rate_hz_ == 0 && sent_ == kPacketsUntilSound) return {};
    AFI_TRY_VOID(send());
  }
  return {};
}

Result<SoundBlock> SoundDecoder::next() {
  if (!std::exchange(is_first_, false)) AFI_TRY_VOID(decode());
  return SoundBlock{.channels = channels_, .samples = samples_};
}

}  // namespace afterimage
