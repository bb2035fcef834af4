// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/sound_files.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/cpu.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "afterimage/result.h"
#include "testing/seeds.h"

namespace afterimage::testing {
namespace {

/// Encodes and writes one sound; every failure is a bug in the test.
class SoundWriter {
 public:
  explicit SoundWriter(const SoundContent& content) : content_(content) {
    av_log_set_level(AV_LOG_QUIET);
    AFI_CHECK(
        avformat_alloc_output_context2(&format_, nullptr, content.container.c_str(), nullptr) >= 0);
    format_->flags |= AVFMT_FLAG_BITEXACT;
    open_encoder();
    stream_ = avformat_new_stream(format_, nullptr);
    AFI_CHECK(avcodec_parameters_from_context(stream_->codecpar, encoder_) >= 0);
    stream_->time_base = encoder_->time_base;
    AFI_CHECK(avio_open_dyn_buf(&format_->pb) >= 0);
    AVDictionary* options = nullptr;
    av_dict_parse_string(&options, content.options.c_str(), "=", ":", 0);
    AFI_CHECK(avformat_write_header(format_, &options) >= 0);
    av_dict_free(&options);
  }
  SoundWriter(const SoundWriter&) = delete;
  SoundWriter& operator=(const SoundWriter&) = delete;
  ~SoundWriter() {
    avcodec_free_context(&encoder_);
    avformat_free_context(format_);
  }

  FileContent write() {
    const std::size_t count = content_.samples.size() / content_.channels;
    const std::size_t each =
        encoder_->frame_size > 0 ? static_cast<std::size_t>(encoder_->frame_size) : 1024;
    for (std::size_t at = 0; at < count; at += each) send(at, std::min(each, count - at));
    AFI_CHECK(avcodec_send_frame(encoder_, nullptr) >= 0);
    drain();
    AFI_CHECK(av_write_trailer(format_) >= 0);
    std::uint8_t* bytes = nullptr;
    const int size = avio_close_dyn_buf(format_->pb, &bytes);
    format_->pb = nullptr;
    const auto all = std::as_bytes(std::span(bytes, static_cast<std::size_t>(size)));
    FileContent file(all.begin(), all.end());
    av_free(bytes);
    return file;
  }

 private:
  static AVSampleFormat first_format(const AVCodec& codec) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    const void* formats = nullptr;
    avcodec_get_supported_config(nullptr, &codec, AV_CODEC_CONFIG_SAMPLE_FORMAT, 0, &formats,
                                 nullptr);
    const auto* const first = static_cast<const AVSampleFormat*>(formats);
#else
    const AVSampleFormat* const first = codec.sample_fmts;
#endif
    return first != nullptr ? *first : AV_SAMPLE_FMT_FLT;
  }
  void open_encoder() {
    const AVCodec* const codec = avcodec_find_encoder_by_name(content_.encoder.c_str());
    AFI_CHECK(codec != nullptr);
    encoder_ = avcodec_alloc_context3(codec);
    encoder_->sample_rate = static_cast<int>(content_.rate_hz);
    encoder_->time_base = {1, static_cast<int>(content_.rate_hz)};
    av_channel_layout_default(&encoder_->ch_layout, static_cast<int>(content_.channels));
    encoder_->sample_fmt = first_format(*codec);
    encoder_->bit_rate = 96'000;
    encoder_->flags |= AV_CODEC_FLAG_BITEXACT;
    encoder_->thread_count = 1;
    encoder_->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
    if ((format_->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
      encoder_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    AFI_CHECK(avcodec_open2(encoder_, codec, nullptr) >= 0);
  }
  void send(std::size_t at, std::size_t count) {
    AVFrame* frame = av_frame_alloc();
    frame->format = encoder_->sample_fmt;
    frame->sample_rate = encoder_->sample_rate;
    frame->nb_samples = static_cast<int>(count);
    frame->pts = static_cast<std::int64_t>(at);
    AFI_CHECK(av_channel_layout_copy(&frame->ch_layout, &encoder_->ch_layout) >= 0);
    AFI_CHECK(av_frame_get_buffer(frame, 0) >= 0);
    const auto format = static_cast<AVSampleFormat>(frame->format);
    const bool planar = av_sample_fmt_is_planar(format) != 0;
    for (std::size_t i = 0; i < count * content_.channels; ++i) {
      const float sample = content_.samples[at * content_.channels + i];
      std::uint8_t* const plane = frame->extended_data[planar ? i % content_.channels : 0];
      const std::size_t place = planar ? i / content_.channels : i;
      if (av_get_packed_sample_fmt(format) == AV_SAMPLE_FMT_S32) {
        const auto whole = static_cast<std::int32_t>(std::lround(sample * 2'147'483'647.0));
        std::memcpy(plane + place * sizeof(whole), &whole, sizeof(whole));
      } else if (av_get_packed_sample_fmt(format) == AV_SAMPLE_FMT_S16) {
        const auto whole = static_cast<std::int16_t>(std::lround(sample * 32'767));
        std::memcpy(plane + place * sizeof(whole), &whole, sizeof(whole));
      } else {
        std::memcpy(plane + place * sizeof(sample), &sample, sizeof(sample));
      }
    }
    AFI_CHECK(avcodec_send_frame(encoder_, frame) >= 0);
    av_frame_free(&frame);
    drain();
  }
  void drain() {
    AVPacket* packet = av_packet_alloc();
    while (avcodec_receive_packet(encoder_, packet) >= 0) {
      packet->stream_index = stream_->index;
      av_packet_rescale_ts(packet, encoder_->time_base, stream_->time_base);
      AFI_CHECK(av_interleaved_write_frame(format_, packet) >= 0);
    }
    av_packet_free(&packet);
  }

  const SoundContent& content_;
  AVFormatContext* format_ = nullptr;
  AVCodecContext* encoder_ = nullptr;
  AVStream* stream_ = nullptr;
};

}  // namespace

FileContent make_coded_sound(const SoundContent& content) { return SoundWriter(content).write(); }

void use_plain_c(bool plain) { av_force_cpu_flags(plain ? 0 : -1); }

std::vector<float> make_sweep(std::size_t samples, std::uint32_t rate_hz, std::uint32_t channels) {
  std::vector<float> sweep;
  Rng rng(7);
  for (std::size_t i = 0; i < samples; ++i) {
    const double at = static_cast<double>(i) / rate_hz;
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      const double tone = std::sin(2 * std::numbers::pi * (200 + 150 * channel + 300 * at) * at);
      sweep.push_back(static_cast<float>(0.4 * tone) +
                      static_cast<float>(rng.below(1000)) / 1000 * 0.02F);
    }
  }
  return sweep;
}

FileContent make_amr(std::size_t frames, bool wide) {
  FileContent file;
  for (const char c : std::string(wide ? "#!AMR-WB\n" : "#!AMR\n")) file.push_back(std::byte(c));
  Rng rng(3);
  const std::size_t size = wide ? 60 : 31;  // of the highest rate, without its first byte
  for (std::size_t i = 0; i < frames; ++i) {
    file.push_back(wide ? std::byte{0x44} : std::byte{0x3C});
    for (std::size_t at = 0; at < size; ++at)
      file.push_back(static_cast<std::byte>(rng.below(256)));
  }
  return file;
}

}  // namespace afterimage::testing
