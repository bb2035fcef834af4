// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/video_files.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <span>

#include "afterimage/result.h"
#include "foundation/media/libav.h"

namespace afterimage::testing {
namespace {

/// Encodes and writes one video; every failure is a bug in the test.
class Writer {
 public:
  explicit Writer(const VideoContent& content) : content_(content) {
    av_log_set_level(AV_LOG_QUIET);
    AFI_CHECK(!content.frames.empty());
    AFI_CHECK(
        avformat_alloc_output_context2(&format_, nullptr, content.container.c_str(), nullptr) >= 0);
    format_->flags |= AVFMT_FLAG_BITEXACT;
    open_encoder();
    add_streams();
    AFI_CHECK(avio_open_dyn_buf(&format_->pb) >= 0);
    AFI_CHECK(avformat_write_header(format_, nullptr) >= 0);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    sws_freeContext(scaler_);
    avcodec_free_context(&encoder_);
    avformat_free_context(format_);
  }

  FileContent write() {
    std::int64_t at = 0;
    for (const Image& image : content_.frames) {
      AVFrame* frame = converted(image);
      frame->pts = at++;
      if (content_.frames_between_keys == 1) frame->pict_type = AV_PICTURE_TYPE_I;
      AFI_CHECK(avcodec_send_frame(encoder_, frame) >= 0);
      av_frame_free(&frame);
      drain();
    }
    AFI_CHECK(avcodec_send_frame(encoder_, nullptr) >= 0);
    drain();
    AFI_CHECK(av_write_trailer(format_) >= 0);
    std::uint8_t* bytes = nullptr;
    const int size = avio_close_dyn_buf(format_->pb, &bytes);
    format_->pb = nullptr;
    AFI_CHECK(size > 0);
    const auto all = std::as_bytes(std::span(bytes, static_cast<std::size_t>(size)));
    FileContent file(all.begin(), all.end());
    av_free(bytes);
    return file;
  }

 private:
  void open_encoder() {
    const AVCodec* const codec = avcodec_find_encoder_by_name(content_.encoder.c_str());
    AFI_CHECK(codec != nullptr);
    encoder_ = avcodec_alloc_context3(codec);
    encoder_->width = static_cast<int>(content_.frames.front().width);
    encoder_->height = static_cast<int>(content_.frames.front().height);
    encoder_->time_base = {1, static_cast<int>(content_.frames_per_second)};
    encoder_->framerate = {static_cast<int>(content_.frames_per_second), 1};
    encoder_->pix_fmt = content_.encoder == "mjpeg" ? AV_PIX_FMT_YUVJ420P : AV_PIX_FMT_YUV420P;
    encoder_->color_range = content_.encoder == "mjpeg" ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    encoder_->gop_size = content_.frames_between_keys;
    encoder_->slices = content_.slices;
    encoder_->max_b_frames = content_.frames_between_keys > 1 ? 2 : 0;
    encoder_->flags |= AV_CODEC_FLAG_BITEXACT | AV_CODEC_FLAG_QSCALE;
    encoder_->global_quality = 2 * FF_QP2LAMBDA;
    encoder_->thread_count = 1;
    if ((format_->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
      encoder_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    AFI_CHECK(avcodec_open2(encoder_, codec, nullptr) >= 0);
  }
  void add_streams() {
    if (content_.with_sound_track) {
      AVStream* const sound = avformat_new_stream(format_, nullptr);
      sound->codecpar->codec_type = AVMEDIA_TYPE_AUDIO;
      sound->codecpar->codec_id = AV_CODEC_ID_MP3;
      sound->codecpar->sample_rate = 44'100;
      sound->codecpar->bit_rate = 128'000;
      sound->codecpar->frame_size = 1'152;
      av_channel_layout_default(&sound->codecpar->ch_layout, 2);
    }
    stream_ = avformat_new_stream(format_, nullptr);
    AFI_CHECK(avcodec_parameters_from_context(stream_->codecpar, encoder_) >= 0);
    stream_->time_base = encoder_->time_base;
    stream_->avg_frame_rate = encoder_->framerate;
    if (content_.quarter_turns != 0) turn_stream();
  }
  void turn_stream() {
    constexpr std::size_t kSize = 9 * sizeof(std::int32_t);
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    AVPacketSideData* const data = av_packet_side_data_new(&stream_->codecpar->coded_side_data,
                                                           &stream_->codecpar->nb_coded_side_data,
                                                           AV_PKT_DATA_DISPLAYMATRIX, kSize, 0);
    auto* const matrix = reinterpret_cast<std::int32_t*>(data->data);
#else
    auto* const matrix = reinterpret_cast<std::int32_t*>(
        av_stream_new_side_data(stream_, AV_PKT_DATA_DISPLAYMATRIX, kSize));
#endif
    av_display_rotation_set(matrix, 90.0 * content_.quarter_turns);
  }
  AVFrame* converted(const Image& image) {
    AVFrame* const frame = av_frame_alloc();
    frame->format = encoder_->pix_fmt;
    frame->width = encoder_->width;
    frame->height = encoder_->height;
    frame->color_range = encoder_->color_range;
    AFI_CHECK(av_frame_get_buffer(frame, 0) >= 0);
    const auto width = static_cast<int>(image.width);
    const auto height = static_cast<int>(image.height);
    if (scaler_ == nullptr) {
      scaler_ =
          sws_getContext(width, height, AV_PIX_FMT_RGB24, width, height, encoder_->pix_fmt,
                         SWS_BILINEAR | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr);
    }
    // The library reads whole blocks of pixels.
    std::vector<std::uint8_t> padded(image.rgb);
    padded.resize(padded.size() + 64);
    const std::uint8_t* const from[4] = {padded.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {3 * width, 0, 0, 0};
    AFI_CHECK(sws_scale(scaler_, from, strides, 0, height, frame->data, frame->linesize) == height);
    return frame;
  }
  void drain() {
    AVPacket* packet = av_packet_alloc();
    while (avcodec_receive_packet(encoder_, packet) >= 0) {
      packet->stream_index = stream_->index;
      packet->duration = 1;
      av_packet_rescale_ts(packet, encoder_->time_base, stream_->time_base);
      AFI_CHECK(av_interleaved_write_frame(format_, packet) >= 0);
    }
    av_packet_free(&packet);
  }

  const VideoContent& content_;
  AVFormatContext* format_ = nullptr;
  AVCodecContext* encoder_ = nullptr;
  AVStream* stream_ = nullptr;
  SwsContext* scaler_ = nullptr;
};

}  // namespace

FileContent make_video(const VideoContent& content) { return Writer(content).write(); }

FileContent make_video(std::vector<Image> frames) {
  return make_video(VideoContent{.frames = std::move(frames)});
}

std::vector<PacketPlace> packets_in(const FileContent& file) {
  const auto opened = LibavFile::open({.bytes = file, .name = "packets"}, nullptr).value();
  const OwnedAv<AVPacket> packet(av_packet_alloc());
  std::vector<PacketPlace> packets;
  std::ranges::subrange rest(file);
  while (av_read_frame(&opened->context(), packet.get()) >= 0) {
    const std::span data(packet->data, static_cast<std::size_t>(packet->size));
    const auto found = std::ranges::search(rest, std::as_bytes(data));
    AFI_CHECK(!found.empty());
    rest = {found.end(), file.end()};  // equal frames have equal packets
    packets.push_back({.at = static_cast<std::size_t>(found.begin() - file.begin()),
                       .size = data.size(),
                       .time = packet->pts,
                       .is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0});
    av_packet_unref(packet.get());
  }
  return packets;
}

bool has_encoder(const std::string& name) {
  return avcodec_find_encoder_by_name(name.c_str()) != nullptr;
}

std::vector<Image> film_frames(std::uint32_t first, std::uint32_t count, std::uint32_t width,
                               std::uint32_t height) {
  std::vector<Image> frames;
  for (std::uint32_t i = 0; i < count; ++i) {
    // Plain areas that survive coding, another grey for each frame.
    Image image = make_plain(width, height, static_cast<std::uint8_t>(40 * (first + i) % 251),
                             static_cast<std::uint8_t>(90 * (first + i) % 253),
                             static_cast<std::uint8_t>(17 * (first + i) % 239));
    for (std::size_t at = 0; at < image.rgb.size() / 2; ++at) image.rgb[at] ^= 0x7FU;
    frames.push_back(std::move(image));
  }
  return frames;
}

}  // namespace afterimage::testing
