// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"

/// Private to this room: one header reader and one decoder per format. Nothing here is installed.
///
/// A header reader allocates nothing whose size the file controls, and checks no limits. A decoder
/// is given a header that passed the limits, and returns exactly what the header promised, or
/// kCorruption.
namespace afterimage {

/// One file of a media item, and its name for messages.
struct MediaFile {
  std::span<const std::byte> bytes;
  std::string name;
};

/// A format that is not read.
struct Foreign {
  std::string_view name;    // "JPEG XL"; empty: unknown
  std::string_view advice;  // "convert it to PNG"; may be empty
};
Foreign foreign_format(std::span<const std::byte> file);
/// "a JPEG XL", "an MP4".
std::string with_article(std::string_view name);

/// How the stored image must be rotated or mirrored to be upright; the numbers are EXIF's.
enum class Orientation : std::uint8_t {
  kUpright = 1,
  kMirrored = 2,
  kUpsideDown = 3,
  kFlipped = 4,
  kTransposed = 5,
  kTurnClockwise = 6,
  kTransversed = 7,
  kTurnCounterclockwise = 8,
};

/// Sizes as stored: before EXIF orientation is applied.
struct PictureHeader {
  FileFormat format = FileFormat::kUnknown;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t coded_width = 0;  // of HEIC and AVIF, of which a part may be shown; 0: as width
  std::uint32_t coded_height = 0;
  std::uint32_t frames = 1;
  Duration length{0};  // of an animation, as a player shows it
  Orientation orientation = Orientation::kUpright;
  /// Why it cannot be played, although its first frame is whole; empty: it can.
  std::string unplayable = {};
};

/// Of a video file, as stored.
struct VideoHeader {
  FileFormat format = FileFormat::kUnknown;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t frames = 0;
  Duration length{0};
  Orientation orientation = Orientation::kUpright;
};

/// Where the sound of an MP3 file lies.
struct Mp3Frames {
  std::size_t begin = 0;  // of the bytes: without tags and notes of the encoder
  std::size_t end = 0;
  std::uint64_t count = 0;
  std::uint32_t samples_each = 0;  // per channel
  std::uint64_t before = 0;        // samples that encoder and decoder added to the original
  std::uint64_t after = 0;
};

/// Where the samples of a WAV, CAF, AIFF or FLAC file lie.
struct WavSamples {
  std::span<const std::byte> format = {};  // WAV and AIFF: the chunk that describes them
  std::span<const std::byte> data = {};    // FLAC: from the second block of its header on
  bool as_declared = true;                 // false: its header states another length
  std::uint64_t coded_samples = 0;         // with the rest of the last block
};

struct SoundHeader {
  FileFormat format = FileFormat::kUnknown;
  std::uint32_t sample_rate_hz = 0;
  std::uint32_t channels = 0;
  std::uint64_t samples = 0;  // per channel
  std::uint64_t before = 0;   // decoded before them, and not of the sound; compressed sounds only
  Mp3Frames mp3 = {};         // MP3 only
  WavSamples wav = {};        // WAV and CAF; AIFF and FLAC of a pipe
};

Result<PictureHeader> read_jpeg_header(const MediaFile& file);
Result<PictureHeader> read_png_header(const MediaFile& file);
Result<PictureHeader> read_webp_header(const MediaFile& file);
Result<PictureHeader> read_gif_header(const MediaFile& file);
Result<PictureHeader> read_ppm_header(const MediaFile& file);
Result<PictureHeader> read_bmp_header(const MediaFile& file);
Result<PictureHeader> read_ico_header(const MediaFile& file);
Result<PictureHeader> read_heif_header(const MediaFile& file);
Result<PictureHeader> read_tiff_header(const MediaFile& file);
Result<PictureHeader> read_jpeg2000_header(const MediaFile& file);
/// Whether the file begins as BMP files and icons of Windows do.
bool is_bmp(std::span<const std::byte> file);
bool is_icon(std::span<const std::byte> file);
Result<SoundHeader> read_wav_header(const MediaFile& file);
Result<SoundHeader> read_flac_header(const MediaFile& file);
/// Reads the header of every frame: the file states its length nowhere else.
Result<SoundHeader> read_mp3_header(const MediaFile& file);
Result<SoundHeader> read_aiff_header(const MediaFile& file);
Result<SoundHeader> read_caf_header(const MediaFile& file);
/// Of the sound of Ogg, AMR, AAC, MP4, WebM and Matroska files. Decodes its first samples.
Result<SoundHeader> read_coded_header(const MediaFile& file, const MediaLimits& limits);
/// Bytes of the ID3v2 tags at the start.
std::size_t leading_tags(std::span<const std::byte> file);
/// Without ID3v1 and APEv2 tags at its end.
std::span<const std::byte> without_trailing_tags(std::span<const std::byte> file);
/// Whether an MP4 or Matroska file has a video track; true of a damaged one.
bool has_pictures(const MediaFile& file);
/// Whether the file begins as MP3 files do.
bool is_mp3(std::span<const std::byte> file);

/// Whether an MP4 or Matroska file is as long as its outermost structure says.
Result<void> check_container(const MediaFile& file);
/// Of MP4, WebM and Matroska. Reads the file without decoding it, since only the packets tell the
/// number of frames, and checks the limits on the way.
Result<VideoHeader> read_video_header(const MediaFile& file, const MediaLimits& limits);

/// Reads the header of any of the image formats.
Result<PictureHeader> read_picture_header(const MediaFile& file);
/// Reads the header of any of the formats for sound.
Result<SoundHeader> read_sound_header(const MediaFile& file, const MediaLimits& limits);

/// The same, within the limits.
Result<SoundHeader> probe_sound(const MediaFile& file, const MediaLimits& limits);

/// What the fourth sample of a TIFF's pixels is.
enum class TiffAlpha : std::uint8_t { kOverWhite, kNone, kMultiplied };

/// A TIFF whose directory has only what decides its pixels: FFmpeg's decoder takes another field for damage, or
/// else takes damage for pixels.
struct TiffForDecoder {
  static constexpr std::size_t kPadding = 64;
  std::vector<std::byte> bytes;  // and behind them as many zeros, which FFmpeg's decoders may read
  TiffAlpha alpha = TiffAlpha::kOverWhite;
};
Result<TiffForDecoder> tiff_for_decoder(const MediaFile& file);

/// How the samples of a JPEG are meant; within a TIFF the JPEG need not say.
enum class JpegColours : std::uint8_t { kAsMarked, kGrey, kRgb, kYCbCr };

/// A TIFF whose strips or tiles are JPEG files, except that what all share is stored once.
struct TiffJpeg {
  std::span<const std::byte> shared;
  std::vector<std::span<const std::byte>> pieces = {};  // row by row
  std::uint32_t piece_width = 0;
  std::uint32_t piece_height = 0;
  std::uint32_t columns = 0;
  JpegColours colours = JpegColours::kAsMarked;
};
/// nullopt: of a TIFF that is compressed in another way.
Result<std::optional<TiffJpeg>> jpeg_in_tiff(const MediaFile& file);

/// The item's name for messages, or a substitute if it has none.
std::string name_of(const MediaItem& item);

/// The item's files, each with a name for messages. Fails if there are none, or one is empty or too
/// large.
Result<std::vector<MediaFile>> files_of(const MediaItem& item, const MediaLimits& limits);

/// MP4, and Matroska with WebM.
constexpr bool is_video_file(FileFormat format) {
  return format == FileFormat::kMp4 || format == FileFormat::kMatroska;
}

/// Whether the item is a video given as a folder of still frames rather than as one animation.
bool is_folder_of_frames(const MediaItem& item);

Result<Image> decode_jpeg(const MediaFile& file, const PictureHeader& header,
                          JpegColours colours = JpegColours::kAsMarked);
Result<Image> decode_tiff(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_png(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_ppm(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_webp(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_bmp(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_ico(const MediaFile& file, const PictureHeader& header);
/// HEIC and AVIF.
Result<Image> decode_heif(const MediaFile& file, const PictureHeader& header);
/// TIFF, and JPEG 2000 where OpenJPEG is not linked.
Result<Image> decode_coded_still(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_jpeg2000(const MediaFile& file, const PictureHeader& header);
/// Names OpenJPEG, as the end of picture_decoder().
std::string jpeg2000_decoder();
/// The first `frames` frames of an animation, at most as many as the header says.
Result<std::vector<Frame>> decode_webp_animation(const MediaFile& file, const PictureHeader& header,
                                                 std::uint32_t frames);
/// Also decodes still images, which are animations of one frame.
Result<std::vector<Frame>> decode_gif(const MediaFile& file, const PictureHeader& header,
                                      std::uint32_t frames);
/// Decodes one frame after the other.
class FrameSource {
 public:
  FrameSource() = default;
  FrameSource(const FrameSource&) = delete;
  FrameSource& operator=(const FrameSource&) = delete;
  virtual ~FrameSource() = default;
  /// At the next of its positions, of which there is one.
  virtual Result<Frame> next() = 0;
};
/// The frames at these positions, which never decrease and are below the header's count. `file` outlives
/// the source.
Result<std::unique_ptr<FrameSource>> open_video_frames(const MediaFile& file,
                                                       std::span<const std::uint32_t> positions,
                                                       const MediaLimits& limits);
Result<Samples> decode_coded(const MediaFile& file, const SoundHeader& header);
/// WAV, FLAC, AIFF and CAF.
Result<Samples> decode_sound(const MediaFile& file, const SoundHeader& header);
/// Names the library that decides which samples an MP3 file has.
std::string mp3_decoder();
/// Names the library that decides which samples a sound in Ogg, AMR, AAC, MP4, WebM or Matroska has.
std::string coded_sound_decoder();
Result<Samples> decode_mp3(const MediaFile& file, const SoundHeader& header);

/// The orientation in a TIFF structure (the body of an EXIF block). Broken metadata counts as
/// upright.
Orientation exif_orientation(std::span<const std::byte> tiff);
/// Whether applying the orientation swaps width and height.
bool swaps_sides(Orientation orientation);
Image turn_upright(Image stored, Orientation orientation);

/// Composites RGBA pixels over white and appends them as RGB.
void append_over_white(std::span<const std::uint8_t> rgba, std::vector<std::uint8_t>& rgb);

constexpr std::int64_t kMillihertzNanoseconds = 1'000'000'000'000;  // a period at 1 mHz

/// How long a player shows a frame with this `delay`: delays of at most 10 ms become 100 ms,
/// as in every browser.
Duration shown_for(Duration delay);

/// kCorruption, "photo.png: <what>".
std::unexpected<Error> corrupt(const MediaFile& file, std::string_view what);
/// kUnsupported, in the same format.
std::unexpected<Error> unsupported(const MediaFile& file, std::string_view what);

}  // namespace afterimage
