// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Compressed sounds: Opus, Vorbis, AAC, ALAC, FLAC, MP3 and AMR in Ogg, MP4, WebM, Matroska and files of their own.
// Which samples are the sound follows from the file, not from the libraries, whose versions differ in
// what they cut off.
extern "C" {
#include <libavcodec/vorbis_parser.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/media/libav.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/mono.h"
#include "foundation/media/sound_decoder.h"
#include "foundation/media/sound_packets.h"

namespace afterimage {
namespace {

constexpr std::size_t kMostSamplesOfAByte = 64;

AVCodecID codec_of(SoundCodec codec) {
  switch (codec) {
    case SoundCodec::kOpus:
      return AV_CODEC_ID_OPUS;
    case SoundCodec::kVorbis:
      return AV_CODEC_ID_VORBIS;
    case SoundCodec::kFlac:
      return AV_CODEC_ID_FLAC;
    case SoundCodec::kAac:
      return AV_CODEC_ID_AAC;
    case SoundCodec::kAmrNarrow:
      return AV_CODEC_ID_AMR_NB;
    case SoundCodec::kAmrWide:
      return AV_CODEC_ID_AMR_WB;
  }
  return AV_CODEC_ID_NONE;
}

bool is_read(AVCodecID codec, bool in_mp4) {
  switch (codec) {
    case AV_CODEC_ID_OPUS:
    case AV_CODEC_ID_AAC:
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_MP3:
      return true;
    case AV_CODEC_ID_VORBIS:
    case AV_CODEC_ID_PCM_F32LE:
    case AV_CODEC_ID_PCM_S16LE:
      return !in_mp4;
    case AV_CODEC_ID_ALAC:
    case AV_CODEC_ID_AMR_NB:
    case AV_CODEC_ID_AMR_WB:
      return in_mp4;
    default:
      return false;
  }
}

/// A sound in any of the files, ready to be decoded from its first packet.
struct CodedSound {
  OwnedAv<AVCodecParameters> parameters;
  std::uint64_t before = 0;              // samples at its beginning that are not of the sound
  std::optional<std::uint64_t> samples;  // of the sound; nullopt: all that its packets hold
  std::unique_ptr<SoundPackets> packets;
};

/// The first sound track of an MP4, WebM or Matroska file.
class Track final : public SoundPackets {
 public:
  static Result<std::unique_ptr<Track>> open(const MediaFile& file);

  Result<bool> next(std::span<const std::byte>& packet) override {
    for (;;) {
      av_packet_unref(packet_.get());
      const int read = av_read_frame(&opened_->context(), packet_.get());
      if (read == AVERROR_EOF) return false;
      if (read < 0) {
        return corrupt(*file_, fmt::format("it cannot be read on: {}", libav_text(read)));
      }
      if (packet_->stream_index != stream_) continue;
      if ((packet_->flags & AV_PKT_FLAG_CORRUPT) != 0) {
        return corrupt(*file_, "a part of its sound is cut off or damaged");
      }
      packet = std::as_bytes(std::span(packet_->data, static_cast<std::size_t>(packet_->size)));
      return true;
    }
  }
  [[nodiscard]] const AVStream& stream() const { return *opened_->context().streams[stream_]; }
  [[nodiscard]] const AVPacket& packet() const { return *packet_; }
  /// Samples at the end of the last packet that are not of the sound.
  [[nodiscard]] std::uint32_t padding() const {
    std::size_t size = 0;
    const std::uint8_t* const data =
        av_packet_get_side_data(packet_.get(), AV_PKT_DATA_SKIP_SAMPLES, &size);
    if (data == nullptr || size < 10) return 0;
    ByteCursor cursor(std::as_bytes(std::span(data, size)));
    cursor.take(4);
    return cursor.little(4);
  }

 private:
  explicit Track(const MediaFile& file) : file_(&file) {}

  const MediaFile* file_;
  std::unique_ptr<LibavFile> opened_;
  OwnedAv<AVPacket> packet_;
  int stream_ = -1;
};

Result<std::unique_ptr<Track>> Track::open(const MediaFile& file) {
  std::unique_ptr<Track> track(new Track(file));
  AVDictionary* options = nullptr;
  const bool in_mp4 = sniff(file.bytes) == FileFormat::kMp4;
  if (in_mp4) av_dict_set(&options, "ignore_editlist", "1", 0);
  AFI_TRY(track->opened_, LibavFile::open(file, options));
  const AVFormatContext& context = track->opened_->context();
  for (unsigned i = 0; i < context.nb_streams; ++i) {
    AVStream& stream = *context.streams[i];
    if (stream.codecpar->codec_type == AVMEDIA_TYPE_AUDIO && track->stream_ < 0) {
      track->stream_ = static_cast<int>(i);
    } else {
      stream.discard = AVDISCARD_ALL;
    }
  }
  if (track->stream_ < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no sound among its {} tracks", file.name, context.nb_streams));
  }
  const AVCodecID codec = track->stream().codecpar->codec_id;
  if (!is_read(codec, in_mp4)) {
    return unsupported(
        file, fmt::format("a sound coded as \"{}\"; Opus, AAC, MP3 and FLAC are read, in MP4 also "
                          "ALAC and AMR, in WebM and Matroska also Vorbis and PCM",
                          avcodec_get_name(codec)));
  }
  if (codec == AV_CODEC_ID_OPUS && !in_mp4) {
    // Padding is counted at this rate; mkvmerge writes that of the sound before it was encoded, and a parser
    // would set it again.
    track->opened_->context().flags |= AVFMT_FLAG_NOPARSE;
    track->stream().codecpar->sample_rate = 48'000;
  }
  const AVRational base = track->stream().time_base;
  if (base.num <= 0 || base.den <= 0) return corrupt(file, "a sound without a unit of time");
  track->packet_.reset(av_packet_alloc());
  if (track->packet_ == nullptr) return std::unexpected(no_libav_memory());
  return track;
}

Result<OwnedAv<AVCodecParameters>> parameters_of(const SoundStream& stream) {
  OwnedAv<AVCodecParameters> parameters(avcodec_parameters_alloc());
  if (parameters == nullptr) return std::unexpected(no_libav_memory());
  parameters->codec_type = AVMEDIA_TYPE_AUDIO;
  parameters->codec_id = codec_of(stream.codec);
  const std::size_t size = stream.setup.size();
  if (size > 0) {
    parameters->extradata =
        static_cast<std::uint8_t*>(av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE));
    if (parameters->extradata == nullptr) return std::unexpected(no_libav_memory());
    std::memcpy(parameters->extradata, stream.setup.data(), size);
    parameters->extradata_size = static_cast<int>(size);
  }
  ByteCursor head(stream.setup);
  std::uint32_t channels = 1;
  if (stream.codec == SoundCodec::kOpus) {
    head.take(9);
    channels = head.big(1);
    parameters->sample_rate = 48'000;
  }
  if (stream.codec == SoundCodec::kAmrNarrow) parameters->sample_rate = 8'000;
  if (stream.codec == SoundCodec::kAmrWide) parameters->sample_rate = 16'000;
  if (channels > 0 && stream.codec != SoundCodec::kAac && stream.codec != SoundCodec::kVorbis &&
      stream.codec != SoundCodec::kFlac) {
    av_channel_layout_default(&parameters->ch_layout, static_cast<int>(channels));
  }
  return parameters;
}

Result<CodedSound> open_stream(const MediaFile& file, bool whole) {
  SoundStream stream;
  switch (sniff(file.bytes)) {
    case FileFormat::kOgg: {
      AFI_TRY(stream, open_ogg(file, whole));
      break;
    }
    case FileFormat::kAmr: {
      AFI_TRY(stream, open_amr(file));
      break;
    }
    default: {
      AFI_TRY(stream, open_adts(file));
      break;
    }
  }
  CodedSound sound{.parameters = nullptr,
                   .before = stream.before,
                   .samples = stream.samples,
                   .packets = nullptr};
  AFI_TRY(sound.parameters, parameters_of(stream));
  sound.packets = std::move(stream.packets);
  return sound;
}

Result<CodedSound> open_track(const MediaFile& file) {
  AFI_TRY(auto track, Track::open(file));
  CodedSound sound;
  sound.parameters.reset(avcodec_parameters_alloc());
  if (sound.parameters == nullptr ||
      avcodec_parameters_copy(sound.parameters.get(), track->stream().codecpar) < 0) {
    return std::unexpected(no_libav_memory());
  }
  sound.packets = std::move(track);
  return sound;
}

/// How many samples packets hold, without decoding them.
class PacketCounter {
 public:
  PacketCounter(const AVCodecParameters& parameters, const SoundDecoder& decoder)
      : codec_(parameters.codec_id), each_(decoder.first_samples()), channels_(decoder.channels()) {
    if (codec_ == AV_CODEC_ID_VORBIS) {
      vorbis_.reset(av_vorbis_parse_init(parameters.extradata, parameters.extradata_size));
    }
  }
  /// 0: it has none, or is damaged.
  std::uint64_t count(std::span<const std::byte> packet) {
    switch (codec_) {
      case AV_CODEC_ID_OPUS:
        return opus_samples(packet);
      case AV_CODEC_ID_FLAC:
        return flac_samples(packet);
      case AV_CODEC_ID_PCM_F32LE:
        return packet.size() / sizeof(float) / channels_;
      case AV_CODEC_ID_PCM_S16LE:
        return packet.size() / sizeof(std::int16_t) / channels_;
      case AV_CODEC_ID_VORBIS: {
        if (vorbis_ == nullptr) return 0;
        const int samples = av_vorbis_parse_frame(vorbis_.get(), as_octets(packet),
                                                  static_cast<int>(packet.size()));
        const bool first = std::exchange(is_first_, false);  // only the next one's overlap
        return first || samples < 0 ? 0 : static_cast<std::uint64_t>(samples);
      }
      default:
        return each_;
    }
  }

 private:
  struct FreeParser {
    void operator()(AVVorbisParseContext* parser) const { av_vorbis_parse_free(&parser); }
  };
  AVCodecID codec_;
  std::uint64_t each_;
  std::uint64_t channels_;
  std::unique_ptr<AVVorbisParseContext, FreeParser> vorbis_;
  bool is_first_ = true;
};

/// Sets `before` and `samples` of a sound in MP4: the media, or the part of it that the edit list shows.
Result<void> measure_mp4(const MediaFile& file, const SoundDecoder& decoder, std::uint64_t most,
                         CodedSound& sound) {
  AFI_TRY(const auto track, Track::open(file));
  const AVRational base = track->stream().time_base;
  const AVRational rate{1, static_cast<int>(decoder.rate_hz())};
  const auto each = static_cast<std::int64_t>(decoder.first_samples());
  std::optional<std::int64_t> start;
  std::int64_t media = 0;
  const std::int64_t longest = av_rescale_q(static_cast<std::int64_t>(most), rate, base);
  for (std::span<const std::byte> packet;;) {
    AFI_TRY(const bool more, track->next(packet));
    if (!more || media > longest) break;
    if (!start.has_value()) start = track->packet().pts;
    const std::int64_t stated = track->packet().duration;  // fragments may leave out the first one
    media += stated > 0 ? stated : av_rescale_q(each, rate, base);
  }
  std::int64_t begin = 0;
  std::int64_t end = media;
  const auto edit = edit_of_sound(file.bytes);
  if (edit.has_value()) {
    if (!edit->is_simple) {
      return unsupported(file, "a sound whose edit list joins several pieces or changes its speed");
    }
    if (edit->begin > static_cast<std::uint64_t>(media) || edit->length > UINT32_MAX) {
      return corrupt(file, "an edit list that begins after the end of the sound");
    }
    begin = static_cast<std::int64_t>(edit->begin);
    if (start.has_value() && *start != AV_NOPTS_VALUE && *start > 0) {
      begin = std::max<std::int64_t>(begin - *start, 0);
    }
    if (edit->length != 0) {
      const AVRational movie{
          1, static_cast<int>(std::min<std::uint32_t>(edit->movie_unit, INT32_MAX))};
      const std::int64_t shown = av_rescale_q(static_cast<std::int64_t>(edit->length), movie, base);
      // A movie counts milliseconds, as a rule: an end within one of the media's end is that.
      const std::int64_t unit = av_rescale_q_rnd(1, movie, base, AV_ROUND_UP);
      if (begin + shown + unit < end) end = begin + shown;
    }
  }
  sound.before = static_cast<std::uint64_t>(av_rescale_q(begin, base, rate));
  const std::int64_t last = av_rescale_q(end, base, rate);
  sound.samples = static_cast<std::uint64_t>(std::max<std::int64_t>(last, 0)) - sound.before;
  if (std::cmp_less(last, sound.before)) return corrupt(file, "a sound that ends before it begins");
  return {};
}

/// Sets `before` and `samples` of a sound in WebM or Matroska.
Result<void> measure_matroska(const MediaFile& file, const SoundDecoder& decoder,
                              std::uint64_t most, CodedSound& sound) {
  AFI_TRY(const auto track, Track::open(file));
  const AVCodecParameters& parameters = *track->stream().codecpar;
  PacketCounter counter(parameters, decoder);
  std::uint64_t coded = 0;
  std::uint64_t padding = 0;
  for (std::span<const std::byte> packet;;) {
    AFI_TRY(const bool more, track->next(packet));
    if (!more || coded > most) break;
    coded += counter.count(packet);
    padding += track->padding();
  }
  sound.before = static_cast<std::uint64_t>(std::max(parameters.initial_padding, 0));
  if (parameters.codec_id == AV_CODEC_ID_OPUS && parameters.extradata_size >= 12) {
    // As the encoder says, if the container says nothing, or less: FFmpeg counts at the rate of the
    // encoder's input.
    ByteCursor head(std::as_bytes(std::span(parameters.extradata, 12)));
    head.take(10);
    sound.before = std::max<std::uint64_t>(sound.before, head.little(2));
  }
  if (sound.before + padding > coded) return corrupt(file, "a sound that is all padding");
  sound.samples = coded - sound.before - padding;
  return {};
}

Result<CodedSound> open_sound(const MediaFile& file, bool whole) {
  return is_video_file(sniff(file.bytes)) ? open_track(file) : open_stream(file, whole);
}

/// Sets `before` and `samples` of a sound whose first samples were decoded.
Result<void> measure(const MediaFile& file, const SoundDecoder& decoder, const MediaLimits& limits,
                     CodedSound& sound) {
  // More than is allowed is not counted to its end.
  const std::uint64_t most = 2 * limits.max_samples + 2 * std::uint64_t{decoder.rate_hz()};
  const FileFormat format = sniff(file.bytes);
  if (format == FileFormat::kMp4) return measure_mp4(file, decoder, most, sound);
  if (format == FileFormat::kMatroska) return measure_matroska(file, decoder, most, sound);
  if (sound.samples.has_value()) return {};
  AFI_TRY(const CodedSound counted, open_stream(file, false));
  std::uint64_t coded = 0;
  for (std::span<const std::byte> packet; coded <= most;) {
    AFI_TRY(const bool more, counted.packets->next(packet));
    if (!more) break;
    coded += decoder.first_samples();
  }
  sound.samples = coded;
  return {};
}

}  // namespace

Result<SoundHeader> read_coded_header(const MediaFile& file, const MediaLimits& limits) {
  const FileFormat format = sniff(file.bytes);
  if (is_video_file(format)) AFI_TRY_VOID(check_container(file));
  AFI_TRY(CodedSound sound, open_sound(file, false));
  AFI_TRY(const SoundDecoder decoder, SoundDecoder::start(file, *sound.parameters, *sound.packets));
  AFI_TRY_VOID(measure(file, decoder, limits, sound));
  if (sound.before > limits.max_samples) {
    return fail(
        ErrorCode::kLimitExceeded,
        fmt::format("{}: its sound begins {} samples after the file's; at most {} are decoded",
                    file.name, sound.before, limits.max_samples));
  }
  return SoundHeader{.format = format,
                     .sample_rate_hz = decoder.rate_hz(),
                     .channels = static_cast<std::uint32_t>(decoder.channels()),
                     .samples = *sound.samples,
                     .before = sound.before};
}

Result<Samples> decode_coded(const MediaFile& file, const SoundHeader& header) {
  AFI_TRY(CodedSound sound, open_sound(file, true));
  AFI_TRY(SoundDecoder decoder, SoundDecoder::start(file, *sound.parameters, *sound.packets));
  Samples samples{.sample_rate_hz = header.sample_rate_hz, .mono = {}};
  std::vector<float>& mono = samples.mono;
  // What is declared, but no more than a file of this size holds at 6 kbit/s.
  mono.reserve(std::min<std::uint64_t>(header.samples, kMostSamplesOfAByte * file.bytes.size()));
  std::uint64_t before = header.before;  // still to be left out
  while (mono.size() < header.samples) {
    AFI_TRY(const SoundBlock block, decoder.next());
    if (block.samples == 0) break;
    const auto first = std::min<std::uint64_t>(before, block.samples);
    const auto kept = std::min<std::uint64_t>(block.samples - first, header.samples - mono.size());
    before -= first;
    if (!append_mono(block.channels, first, kept, mono)) {
      return corrupt(file, "a sample that is not a number");
    }
  }
  if (mono.size() < header.samples) {
    return corrupt(
        file, fmt::format("it declares {} samples; only {} could be read",
                          header.before + header.samples, header.before - before + mono.size()));
  }
  return samples;
}

bool has_pictures(const MediaFile& file) {
  const auto opened = LibavFile::open(file, nullptr);
  if (!opened.has_value()) return true;
  const AVFormatContext& context = (*opened)->context();
  return std::ranges::any_of(std::span(context.streams, context.nb_streams), [](const AVStream* s) {
    return s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
           (s->disposition & AV_DISPOSITION_ATTACHED_PIC) == 0;
  });
}

std::string coded_sound_decoder() {
  return fmt::format("lavc {}, plain, Opus at 48 kHz", avcodec_version());
}

}  // namespace afterimage
