// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/mem.h>
#include <libswscale/swscale.h>
}

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "afterimage/result.h"
#include "foundation/media/formats.h"

/// Private to this room: what its files share of FFmpeg's libraries, versions 5.1 to
/// 8. Everything that libavformat reads comes from the file's bytes in memory: it can open nothing
/// else.
namespace afterimage {

struct FreeLibav {
  void operator()(AVFormatContext* context) const { avformat_close_input(&context); }
  void operator()(AVIOContext* io) const {
    av_freep(static_cast<void*>(&io->buffer));
    avio_context_free(&io);
  }
  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
  void operator()(AVCodecParameters* parameters) const { avcodec_parameters_free(&parameters); }
  void operator()(AVBufferPool* pool) const { av_buffer_pool_uninit(&pool); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(SwsContext* context) const { sws_freeContext(context); }
  void operator()(AVCodecParserContext* parser) const { av_parser_close(parser); }
};
template <typename T>
using OwnedAv = std::unique_ptr<T, FreeLibav>;

/// Switches the libraries' log off and limits their allocations. Before their first use.
void set_up_libav();
std::string libav_text(int error);
Error no_libav_memory();

/// Held while a decoder is opened: how it computes is decided then, and sound_decoder.cc asks for
/// plain C in that time.
std::mutex& libav_opening();

/// An MP4, WebM or Matroska file, opened.
class LibavFile {
 public:
  /// `options` are the demuxer's, and freed.
  static Result<std::unique_ptr<LibavFile>> open(const MediaFile& file, AVDictionary* options);
  [[nodiscard]] AVFormatContext& context() const { return *format_; }

 private:
  /// What libavformat reads from.
  struct Source {
    std::span<const std::byte> bytes;
    std::size_t at = 0;
  };
  LibavFile() = default;
  static int read(void* opaque, std::uint8_t* to, int size);
  static std::int64_t seek(void* opaque, std::int64_t offset, int whence);

  Source source_;
  OwnedAv<AVIOContext> io_;
  OwnedAv<AVFormatContext> format_;
};

}  // namespace afterimage
