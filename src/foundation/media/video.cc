// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The pictures of MP4, WebM and Matroska files.
extern "C" {
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "foundation/media/even_frame.h"
#include "foundation/media/formats.h"
#include "foundation/media/libav.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/to_rgb.h"
#include "foundation/media/video_packets.h"

namespace afterimage {
namespace {

constexpr AVRational kNanoseconds{1, 1'000'000'000};
constexpr Duration kLongest = std::chrono::hours(24);
constexpr Duration kShownAlone = std::chrono::milliseconds(40);  // a video of one frame

bool is_known_codec(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_MJPEG:
      return true;
    default:
      return false;
  }
}

/// Turns of the display matrix by other than quarters, and mirrored ones, are not applied.
Orientation orientation_of(const AVStream& stream) {
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  const AVPacketSideData* const data =
      av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data,
                              AV_PKT_DATA_DISPLAYMATRIX);
  const std::uint8_t* const matrix = data != nullptr && data->size >= 36 ? data->data : nullptr;
#else
  std::size_t size = 0;
  const std::uint8_t* matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  if (size < 36) matrix = nullptr;
#endif
  if (matrix == nullptr) return Orientation::kUpright;
  std::int32_t numbers[9];
  std::memcpy(numbers, matrix, sizeof numbers);
  const double angle = -av_display_rotation_get(numbers);
  if (!std::isfinite(angle)) return Orientation::kUpright;
  switch ((static_cast<int>(std::lround(angle / 90)) % 4 + 4) % 4) {
    case 1:
      return Orientation::kTurnClockwise;
    case 2:
      return Orientation::kUpsideDown;
    case 3:
      return Orientation::kTurnCounterclockwise;
    default:
      return Orientation::kUpright;
  }
}

/// An open file, at its first packet.
class VideoFile {
 public:
  static Result<std::unique_ptr<VideoFile>> open(const MediaFile& file, const MediaLimits& limits);

  [[nodiscard]] const AVStream& stream() const { return *opened_->context().streams[stream_]; }
  [[nodiscard]] std::uint32_t width() const { return to_size(width_); }
  [[nodiscard]] std::uint32_t height() const { return to_size(height_); }
  /// False: the file has ended.
  Result<bool> next(AVPacket& packet);

 private:
  explicit VideoFile(const MediaFile& file) : file_(&file) {}
  static std::uint32_t to_size(int side) { return side > 0 ? static_cast<std::uint32_t>(side) : 0; }
  Result<void> choose_stream();
  /// H.264 and HEVC state the size of their pictures themselves, and recorders write another one
  /// into the container: Chrome the odd one that was asked for.
  Result<void> learn_size();
  Result<void> check_size(const MediaLimits& limits) const;
  Result<bool> read(AVPacket& packet);

  const MediaFile* file_;
  std::unique_ptr<LibavFile> opened_;
  unsigned stream_ = 0;
  int width_ = 0;
  int height_ = 0;
  OwnedAv<AVPacket> first_;  // read already; nullptr: none
};

Result<std::unique_ptr<VideoFile>> VideoFile::open(const MediaFile& file,
                                                   const MediaLimits& limits) {
  std::unique_ptr<VideoFile> video(new VideoFile(file));
  AFI_TRY(video->opened_, LibavFile::open(file, nullptr));
  AFI_TRY_VOID(video->choose_stream());
  AFI_TRY_VOID(video->learn_size());
  AFI_TRY_VOID(video->check_size(limits));
  return video;
}

Result<void> VideoFile::choose_stream() {
  bool found = false;
  for (unsigned i = 0; i < opened_->context().nb_streams; ++i) {
    AVStream& stream = *opened_->context().streams[i];
    const bool is_video = stream.codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
                          (stream.disposition & AV_DISPOSITION_ATTACHED_PIC) == 0;
    if (is_video && !found) {
      found = true;
      stream_ = i;
    } else {
      stream.discard = AVDISCARD_ALL;
    }
  }
  if (!found) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no video track among its {} tracks; a sound is sent as audio",
                            file_->name, opened_->context().nb_streams));
  }
  const AVCodecID codec = stream().codecpar->codec_id;
  if (!is_known_codec(codec) || avcodec_find_decoder(codec) == nullptr) {
    return unsupported(*file_, fmt::format("a video coded as \"{}\"; H.264, HEVC, VP8, VP9, AV1 "
                                           "and Motion JPEG are read",
                                           avcodec_get_name(codec)));
  }
  const AVRational base = stream().time_base;
  if (base.num <= 0 || base.den <= 0) return corrupt(*file_, "a video without a unit of time");
  return {};
}

Result<void> VideoFile::learn_size() {
  const AVCodecParameters& parameters = *stream().codecpar;
  width_ = parameters.width;
  height_ = parameters.height;
  if (parameters.codec_id != AV_CODEC_ID_H264 && parameters.codec_id != AV_CODEC_ID_HEVC) return {};
  first_.reset(av_packet_alloc());
  const OwnedAv<AVCodecParserContext> parser(av_parser_init(parameters.codec_id));
  const OwnedAv<AVCodecContext> context(avcodec_alloc_context3(nullptr));
  if (first_ == nullptr || context == nullptr) return std::unexpected(no_libav_memory());
  AFI_TRY(const bool any, read(*first_));
  if (!any) first_.reset();
  if (!any || parser == nullptr) return {};
  parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
  if (avcodec_parameters_to_context(context.get(), &parameters) < 0) return {};
  std::uint8_t* data = nullptr;
  int size = 0;
  av_parser_parse2(parser.get(), context.get(), &data, &size, first_->data, first_->size,
                   first_->pts, first_->dts, first_->pos);
  if (parser->width > 0 && parser->height > 0) {
    width_ = parser->width;
    height_ = parser->height;
  }
  return {};
}

Result<void> VideoFile::check_size(const MediaLimits& limits) const {
  if (width() == 0 || height() == 0) {
    return corrupt(*file_, fmt::format("a video of {}x{} pixels", width(), height()));
  }
  const std::uint64_t pixels = std::uint64_t{width()} * height();
  if (std::max(width(), height()) > limits.max_side || pixels > limits.max_pixels) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("{}: a video of {}x{} pixels; at most {} per side and {} in total are "
                            "allowed",
                            file_->name, width(), height(), limits.max_side, limits.max_pixels));
  }
  return {};
}

Result<bool> VideoFile::next(AVPacket& packet) {
  if (first_ == nullptr) return read(packet);
  av_packet_unref(&packet);
  av_packet_move_ref(&packet, first_.get());
  first_.reset();
  return true;
}

Result<bool> VideoFile::read(AVPacket& packet) {
  for (;;) {
    av_packet_unref(&packet);
    const int read = av_read_frame(&opened_->context(), &packet);
    if (read == AVERROR_EOF) return false;
    if (read < 0) return corrupt(*file_, fmt::format("it cannot be read on: {}", libav_text(read)));
    if (packet.stream_index != static_cast<int>(stream_)) continue;
    if ((packet.flags & AV_PKT_FLAG_CORRUPT) != 0) {
      return corrupt(*file_, "a frame is cut off or damaged");
    }
    return true;
  }
}

/// A video's packets, read and not decoded.
struct Packets {
  std::vector<std::int64_t>
      times;                     // when each frame is shown, in the stream's unit, in order of time
  std::vector<VideoPacket> all;  // in the file's order
};

Result<Packets> packets_of(VideoFile& video, const MediaFile& file, const MediaLimits& limits) {
  const OwnedAv<AVPacket> packet(av_packet_alloc());
  if (packet == nullptr) return std::unexpected(no_libav_memory());
  const std::uint64_t pixels = std::uint64_t{video.width()} * video.height();
  const std::uint64_t most =
      std::min<std::uint64_t>(limits.max_video_frames, limits.max_decoded_pixels / pixels);
  const AVCodecParameters& parameters = *video.stream().codecpar;
  const VideoPacketReader reader(
      parameters.codec_id,
      std::as_bytes(std::span(parameters.extradata,
                              static_cast<std::size_t>(std::max(parameters.extradata_size, 0)))));
  bool is_known = true;
  Packets packets;
  std::vector<std::int64_t>& times = packets.times;
  for (;;) {
    AFI_TRY(const bool more, video.next(*packet));
    if (!more) break;
    const std::span bytes(packet->data, static_cast<std::size_t>(std::max(packet->size, 0)));
    // A new setup in the middle: nothing is known of what follows, so all of it is decoded.
    is_known = is_known &&
               av_packet_get_side_data(packet.get(), AV_PKT_DATA_NEW_EXTRADATA, nullptr) == nullptr;
    packets.all.push_back(
        is_known ? reader.read(std::as_bytes(bytes), (packet->flags & AV_PKT_FLAG_KEY) != 0)
                 : VideoPacket{});
    packets.all.back().time = packet->pts;
    if ((packet->flags & AV_PKT_FLAG_DISCARD) != 0) continue;  // decoded, and not shown
    if (packet->pts == AV_NOPTS_VALUE) return corrupt(file, "a frame without a time");
    times.push_back(packet->pts);
    if (times.size() <= most) continue;
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("{}: more than {} frames of {}x{} pixels; at most {} frames and {} "
                            "pixels in total are decoded of a video: send a shorter clip",
                            file.name, most, video.width(), video.height(), limits.max_video_frames,
                            limits.max_decoded_pixels));
  }
  if (times.empty()) return corrupt(file, "a video without frames");
  std::ranges::sort(times);
  return packets;
}

Result<Duration> length_of(const std::vector<std::int64_t>& times, AVRational base,
                           const MediaFile& file) {
  if (times.size() == 1) return kShownAlone;
  const std::uint64_t ticks =
      static_cast<std::uint64_t>(times.back()) - static_cast<std::uint64_t>(times.front());
  const double seconds = static_cast<double>(ticks) * base.num / base.den;
  if (seconds > std::chrono::duration<double>(kLongest).count()) {
    return corrupt(file, fmt::format("its frames are {:.0f} seconds apart", seconds));
  }
  // The last frame is shown as long as the others on average. Rounded once: a nanosecond less than 20
  // seconds would be one sampled frame less.
  __extension__ using Wide = unsigned __int128;
  const Wide frames = times.size();
  const Wide den = static_cast<Wide>(base.den) * (frames - 1);
  const Wide shown = Wide{ticks} * static_cast<Wide>(base.num) * frames * kNanoseconds.den;
  return Duration(static_cast<std::int64_t>((shown + den / 2) / den));
}

Result<OwnedAv<AVCodecContext>> open_decoder(const VideoFile& video, const MediaFile& file,
                                             const MediaLimits& limits) {
  const AVCodecParameters& parameters = *video.stream().codecpar;
  const AVCodec* const codec = avcodec_find_decoder(parameters.codec_id);
  OwnedAv<AVCodecContext> decoder(avcodec_alloc_context3(codec));
  if (decoder == nullptr) return std::unexpected(no_libav_memory());
  int done = avcodec_parameters_to_context(decoder.get(), &parameters);
  decoder->thread_count = 1;
  decoder->flags |= AV_CODEC_FLAG_BITEXACT;
  // Its concealment of errors stays on: without it every frame of several slices is marked as damaged. A
  // frame of which it made up anything is marked, too, and refused.
  decoder->err_recognition = AV_EF_EXPLODE;
  decoder->max_pixels = static_cast<std::int64_t>(limits.max_pixels);
  decoder->pkt_timebase = video.stream().time_base;
  const std::scoped_lock lock(libav_opening());
  if (done >= 0) done = avcodec_open2(decoder.get(), codec, nullptr);
  if (done < 0) return corrupt(file, fmt::format("its decoder refuses it: {}", libav_text(done)));
  return decoder;
}

Result<Image> image_of(const AVFrame& frame, ToRgb& to_rgb, const MediaFile& file) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const bool is_full = frame.color_range == AVCOL_RANGE_JPEG || format == AV_PIX_FMT_YUVJ420P ||
                       format == AV_PIX_FMT_YUVJ422P || format == AV_PIX_FMT_YUVJ444P;
  const FrameColours colours{
      .format = format, .matrix = colour_matrix(frame), .is_full_range = is_full};
  AFI_TRY(auto rgb, to_rgb.convert(frame, colours, 3, file));
  return Image{.width = static_cast<std::uint32_t>(frame.width),
               .height = static_cast<std::uint32_t>(frame.height),
               .rgb = std::move(rgb)};
}

/// Decodes frames in order of time and converts, for each wanted time, the one shown then. Frames that are not
/// wanted, and that no wanted one is decoded from, are skipped: those behind the last wanted one before the next
/// start, and others as the decoder knows them.
class VideoFrames final : public FrameSource {
 public:
  static Result<std::unique_ptr<FrameSource>> open(const MediaFile& file,
                                                   std::span<const std::uint32_t> positions,
                                                   const MediaLimits& limits);
  Result<Frame> next() override {
    const std::int64_t wanted = wanted_.at(next_++);
    const Result<void> advanced = advance_to(wanted);
    if (!advanced.has_value() && !skips_) return std::unexpected(advanced.error());
    // The decoder has other times than the container, leaves a frame out, or lacks what was skipped: which one is
    // shown then is known once all are decoded.
    if (skips_ && (!advanced.has_value() || shown_ == nullptr || at_ != wanted)) {
      skips_ = false;
      AFI_TRY_VOID(start());
      AFI_TRY_VOID(advance_to(wanted));
    }
    const AVFrame* const frame = at_ > wanted && before_ != nullptr ? before_.get() : shown_.get();
    if (frame == nullptr) return corrupt(*file_, "none of its frames can be decoded");
    AFI_TRY(Image image, image_of(*frame, to_rgb_, *file_));
    return Frame{
        .image = turn_upright(std::move(image), orientation_of(video_->stream())),
        .at = Duration(av_rescale_q(wanted - start_, video_->stream().time_base, kNanoseconds))};
  }

 private:
  VideoFrames(const MediaFile& file, const MediaLimits& limits) : file_(&file), limits_(limits) {}
  /// From the first packet on.
  Result<void> start();
  Result<void> advance_to(std::int64_t wanted) {
    while (!ended_ && (shown_ == nullptr || at_ < wanted)) AFI_TRY_VOID(advance());
    return {};
  }
  [[nodiscard]] bool may_skip(const AVPacket& packet) const {
    return skips_ && (packet.flags & AV_PKT_FLAG_DISCARD) == 0 && packet.pts != AV_NOPTS_VALUE &&
           !std::ranges::binary_search(decoded_times_, packet.pts);
  }
  /// The next packet that has to be decoded. False: the file has ended.
  Result<bool> next_packet();
  /// Decodes one frame more, or finds that there is none.
  Result<void> advance();
  Result<void> check(const AVFrame& frame) const;

  const MediaFile* file_;
  const MediaLimits limits_;
  std::vector<std::int64_t> wanted_;  // never decreasing
  std::vector<std::int64_t>
      decoded_times_;  // sorted: of those, and of what is shown before: of two fields, the first
  std::vector<bool> to_decode_;  // of the file's packets
  std::size_t next_ = 0;
  std::size_t packet_number_ = 0;
  std::int64_t start_ = 0;
  std::unique_ptr<VideoFile> video_;
  OwnedAv<AVCodecContext> decoder_;
  ToRgb to_rgb_{SWS_BILINEAR};
  OwnedAv<AVPacket> packet_;
  OwnedAv<AVFrame> decoded_;
  OwnedAv<AVFrame> before_;  // the frame before `shown_`
  OwnedAv<AVFrame> shown_;   // the last one decoded
  std::int64_t at_ = 0;      // its time
  bool skips_ = true;
  bool sent_all_ = false;
  bool ended_ = false;
};

Result<std::unique_ptr<FrameSource>> VideoFrames::open(const MediaFile& file,
                                                       std::span<const std::uint32_t> positions,
                                                       const MediaLimits& limits) {
  AFI_TRY(const auto scanned, VideoFile::open(file, limits));
  AFI_TRY(const Packets packets, packets_of(*scanned, file, limits));
  const std::vector<std::int64_t>& times = packets.times;
  std::vector<std::int64_t> starts;
  for (const VideoPacket& packet : packets.all) {
    if (packet.is_start) starts.push_back(packet.time);
  }
  std::ranges::sort(starts);
  std::unique_ptr<VideoFrames> frames(new VideoFrames(file, limits));
  for (const std::uint32_t position : positions) {
    frames->wanted_.push_back(times.at(position));
    frames->decoded_times_.push_back(times[position]);
    if (position > 0 && !std::ranges::binary_search(starts, times[position])) {
      frames->decoded_times_.push_back(times[position - 1]);
    }
  }
  std::ranges::sort(frames->decoded_times_);
  frames->to_decode_ = packets_to_decode(packets.all, frames->decoded_times_);
  frames->start_ = times.front();
  AFI_TRY_VOID(frames->start());
  return frames;
}

Result<void> VideoFrames::start() {
  AFI_TRY(video_, VideoFile::open(*file_, limits_));
  AFI_TRY(decoder_, open_decoder(*video_, *file_, limits_));
  packet_.reset(av_packet_alloc());
  decoded_.reset(av_frame_alloc());
  before_.reset();
  shown_.reset();
  packet_number_ = 0;
  sent_all_ = ended_ = false;
  return packet_ == nullptr || decoded_ == nullptr ? std::unexpected(no_libav_memory())
                                                   : Result<void>();
}

Result<void> VideoFrames::check(const AVFrame& frame) const {
  if ((frame.flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame.decode_error_flags != 0) {
    return corrupt(*file_, "a frame is damaged");
  }
  if (frame.width != static_cast<int>(video_->width()) ||
      frame.height != static_cast<int>(video_->height())) {
    return unsupported(*file_,
                       fmt::format("a frame of {}x{} pixels in a video of {}x{}", frame.width,
                                   frame.height, video_->width(), video_->height()));
  }
  if (frame.best_effort_timestamp == AV_NOPTS_VALUE) {
    return corrupt(*file_, "a frame without a time");
  }
  return {};
}

Result<bool> VideoFrames::next_packet() {
  for (;;) {
    AFI_TRY(const bool more, video_->next(*packet_));
    const std::size_t number = packet_number_++;
    if (!more || !skips_ || number >= to_decode_.size() || to_decode_[number]) return more;
  }
}

Result<void> VideoFrames::advance() {
  for (;;) {
    const int received = avcodec_receive_frame(decoder_.get(), decoded_.get());
    if (received >= 0) break;
    if (received == AVERROR_EOF || (received == AVERROR(EAGAIN) && sent_all_)) {
      ended_ = true;
      return {};
    }
    if (received != AVERROR(EAGAIN)) {
      return corrupt(*file_, fmt::format("a frame cannot be decoded: {}", libav_text(received)));
    }
    AFI_TRY(const bool more, next_packet());
    sent_all_ = !more;
    decoder_->skip_frame = may_skip(*packet_) ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
    const int sent = avcodec_send_packet(decoder_.get(), more ? packet_.get() : nullptr);
    if (sent < 0) {
      return corrupt(*file_, fmt::format("a frame cannot be decoded: {}", libav_text(sent)));
    }
  }
  AFI_TRY_VOID(check(*decoded_));
  std::swap(before_, shown_);
  std::swap(shown_, decoded_);
  at_ = shown_->best_effort_timestamp;
  if (decoded_ == nullptr) decoded_.reset(av_frame_alloc());
  if (decoded_ == nullptr) return std::unexpected(no_libav_memory());
  return {};
}

}  // namespace

Result<VideoHeader> read_video_header(const MediaFile& file, const MediaLimits& limits) {
  AFI_TRY_VOID(check_container(file));
  AFI_TRY(const auto video, VideoFile::open(file, limits));
  AFI_TRY(const Packets packets, packets_of(*video, file, limits));
  AFI_TRY(const Duration length, length_of(packets.times, video->stream().time_base, file));
  return VideoHeader{.format = sniff(file.bytes),
                     .width = video->width(),
                     .height = video->height(),
                     .frames = static_cast<std::uint32_t>(packets.times.size()),
                     .length = length,
                     .orientation = orientation_of(video->stream())};
}

Result<std::unique_ptr<FrameSource>> open_video_frames(const MediaFile& file,
                                                       std::span<const std::uint32_t> positions,
                                                       const MediaLimits& limits) {
  return VideoFrames::open(file, positions, limits);
}

std::string video_decoder() {
  return fmt::format("lavc {}, lsws {}, even frames, planes", avcodec_version(), swscale_version());
}

}  // namespace afterimage
