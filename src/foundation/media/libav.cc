// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/libav.h"

extern "C" {
#include <libavutil/log.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace afterimage {
namespace {

constexpr std::size_t kMaxAllocation = 256UL << 20U;  // a header may claim any table
constexpr int kMaxStreams = 32;
constexpr int kReadBytes = 32 * 1024;

int open_nothing(AVFormatContext* /*context*/, AVIOContext** /*opened*/, const char* /*url*/,
                 int /*flags*/, AVDictionary** /*options*/) {
  return AVERROR(EPERM);
}

}  // namespace

void set_up_libav() {
  static std::once_flag once;
  std::call_once(once, [] {
    av_log_set_level(AV_LOG_QUIET);
    av_max_alloc(kMaxAllocation);
  });
}

std::string libav_text(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, text, sizeof text);
  return text;
}

Error no_libav_memory() { return {ErrorCode::kNoSpace, "no memory to decode a video or a sound"}; }

std::mutex& libav_opening() {
  static std::mutex opening;
  return opening;
}

int LibavFile::read(void* opaque, std::uint8_t* to, int size) {
  Source& source = *static_cast<Source*>(opaque);
  const std::size_t rest = source.bytes.size() - source.at;
  if (rest == 0 || size <= 0) return AVERROR_EOF;
  const std::size_t count = std::min(rest, static_cast<std::size_t>(size));
  std::memcpy(to, source.bytes.data() + source.at, count);
  source.at += count;
  return static_cast<int>(count);
}

std::int64_t LibavFile::seek(void* opaque, std::int64_t offset, int whence) {
  Source& source = *static_cast<Source*>(opaque);
  const auto size = static_cast<std::int64_t>(source.bytes.size());
  switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE:
      return size;
    case SEEK_CUR:
      offset += static_cast<std::int64_t>(source.at);
      break;
    case SEEK_END:
      offset += size;
      break;
    default:
      break;
  }
  if (offset < 0 || offset > size) return AVERROR(EINVAL);
  source.at = static_cast<std::size_t>(offset);
  return offset;
}

Result<std::unique_ptr<LibavFile>> LibavFile::open(const MediaFile& file, AVDictionary* options) {
  const auto free_options = [](AVDictionary* dictionary) { av_dict_free(&dictionary); };
  std::unique_ptr<AVDictionary, decltype(free_options)> given(options, free_options);
  set_up_libav();
  std::unique_ptr<LibavFile> opened(new LibavFile);
  opened->source_.bytes = file.bytes;
  auto* const buffer = static_cast<unsigned char*>(av_malloc(kReadBytes));
  if (buffer == nullptr) return std::unexpected(no_libav_memory());
  opened->io_.reset(
      avio_alloc_context(buffer, kReadBytes, 0, &opened->source_, read, nullptr, seek));
  if (opened->io_ == nullptr) {
    av_free(buffer);
    return std::unexpected(no_libav_memory());
  }
  AVFormatContext* context = avformat_alloc_context();
  if (context == nullptr) return std::unexpected(no_libav_memory());
  context->pb = opened->io_.get();
  context->flags |= AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_BITEXACT;
  context->io_open = open_nothing;
  context->max_streams = kMaxStreams;
  const bool is_mp4 = sniff(file.bytes) == FileFormat::kMp4;
  const AVInputFormat* const format = av_find_input_format(is_mp4 ? "mov" : "matroska");
  AVDictionary* left = given.release();
  const int done = avformat_open_input(&context, nullptr, format, &left);  // frees it on failure
  given.reset(left);
  if (done < 0) {
    return corrupt(file, fmt::format("its header cannot be read: {}", libav_text(done)));
  }
  opened->format_.reset(context);
  return opened;
}

}  // namespace afterimage
