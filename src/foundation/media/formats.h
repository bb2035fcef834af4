// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/media/decode.h"
#include "foundation/media/probe.h"

/// The room's inside: one header reader and one decoder for each format. Nothing here is installed.
///
/// A header reader allocates nothing that the file asks for and checks no limits. A decoder is
/// given a header that has passed them, and gives back exactly what it promised, or kCorruption.
namespace afterimage {

/// One file of a media item, and what messages call it.
struct MediaFile {
  std::span<const std::byte> bytes;
  std::string name;
};

/// How the stored picture must be turned to stand upright; the numbers are EXIF's.
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

/// As stored: width and height before the picture is turned upright.
struct PictureHeader {
  FileFormat format = FileFormat::kUnknown;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t frames = 1;
  Orientation orientation = Orientation::kUpright;
};

struct SoundHeader {
  FileFormat format = FileFormat::kUnknown;
  std::uint32_t sample_rate_hz = 0;
  std::uint32_t channels = 0;
  std::uint64_t samples = 0;  // per channel
};

Result<PictureHeader> read_jpeg_header(const MediaFile& file);
Result<PictureHeader> read_png_header(const MediaFile& file);
Result<PictureHeader> read_webp_header(const MediaFile& file);
Result<PictureHeader> read_gif_header(const MediaFile& file);
Result<SoundHeader> read_wav_header(const MediaFile& file);
Result<SoundHeader> read_flac_header(const MediaFile& file);

/// Any of the four picture formats; nothing else is asked of the file.
Result<PictureHeader> read_picture_header(const MediaFile& file);
/// Either sound format, likewise.
Result<SoundHeader> read_sound_header(const MediaFile& file);

/// The item's own name, or what stands for it.
std::string name_of(const MediaItem& item);

/// The item's files with a name for each; an item without files, or with an empty or too large one,
/// is an error.
Result<std::vector<MediaFile>> files_of(const MediaItem& item, const MediaLimits& limits);

/// A video that is a folder of still frames, rather than one animation.
bool is_folder_of_frames(const MediaItem& item);

Result<Image> decode_jpeg(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_png(const MediaFile& file, const PictureHeader& header);
Result<Image> decode_webp(const MediaFile& file, const PictureHeader& header);
Result<std::vector<Frame>> decode_webp_animation(const MediaFile& file,
                                                 const PictureHeader& header);
/// Stills too: they are animations of one frame.
Result<std::vector<Frame>> decode_gif(const MediaFile& file, const PictureHeader& header);
/// WAV and FLAC.
Result<Samples> decode_sound(const MediaFile& file, const SoundHeader& header);

/// What a TIFF structure (the body of an EXIF block) says. Broken metadata says nothing: upright.
Orientation exif_orientation(std::span<const std::byte> tiff);
/// Whether turning upright swaps width and height.
bool swaps_sides(Orientation orientation);
Image turn_upright(Image stored, Orientation orientation);

/// Appends RGBA pixels, laid over white, to RGB ones.
void append_over_white(std::span<const std::uint8_t> rgba, std::vector<std::uint8_t>& rgb);

/// How long a player shows a frame that asks for `asked`: what is too short to mean anything (at
/// most 10 ms) plays for 100 ms, as in every browser.
Duration shown_for(Duration asked);

/// kCorruption, "photo.png: <what>".
std::unexpected<Error> corrupt(const MediaFile& file, std::string_view what);
/// kUnsupported, likewise.
std::unexpected<Error> unsupported(const MediaFile& file, std::string_view what);

}  // namespace afterimage
