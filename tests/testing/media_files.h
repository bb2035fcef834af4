// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "foundation/media/decode.h"

/// Media files generated in memory by the libraries that also read them. Link
/// afterimage_testing_media. An encoding error is a bug in the test and ends the process.
namespace afterimage::testing {

using FileContent = std::vector<std::byte>;

/// An image in which neighbouring pixels differ and no two orientations look alike.
Image make_picture(std::uint32_t width, std::uint32_t height, std::uint32_t seed = 1);
Image make_plain(std::uint32_t width, std::uint32_t height, std::uint8_t red, std::uint8_t green,
                 std::uint8_t blue);

/// A media item of these files.
MediaItem media_item(Modality modality, FileContent file, std::string name = "item");
MediaItem folder_item(std::vector<FileContent> files, std::uint32_t frame_rate_mhz,
                      std::string name = "folder");

/// A TIFF structure that holds only the orientation.
FileContent make_exif(std::uint32_t orientation, bool big_endian = false);

/// A PNG with explicit layout. `rows` holds height × ceil(row bits / 8) bytes, 16-bit samples
/// big-endian.
struct PngContent {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int color_type = 2;  // PNG's numbers: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  int bit_depth = 8;
  bool interlaced = false;
  std::vector<std::uint8_t> rows;
  std::vector<std::uint8_t> palette;        // RGB triples
  std::vector<std::uint8_t> palette_alpha;  // one for each of the first colours
  FileContent exif;
};
FileContent make_png(const PngContent& content);
FileContent make_png(const Image& image);
FileContent make_png_rgba(std::uint32_t width, std::uint32_t height,
                          const std::vector<std::uint8_t>& rgba);
FileContent make_png_palette(std::uint32_t width, std::uint32_t height,
                             const std::vector<std::uint8_t>& indices,
                             const std::vector<std::uint8_t>& palette,
                             const std::vector<std::uint8_t>& palette_alpha = {});

/// A JPEG with explicit layout: `samples` interleaves 1 (grey), 3 (RGB) or 4 (inverted CMYK)
/// channels.
struct JpegContent {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int channels = 3;
  std::vector<std::uint8_t> samples;
  int quality = 90;
  bool progressive = false;
  bool separate_scans = false;  // one per channel
  bool arithmetic = false;
  int restart_rows = 0;                // 0: no restart markers
  std::uint32_t exif_orientation = 0;  // 0: no EXIF
};
FileContent make_jpeg(const JpegContent& content);
FileContent make_jpeg(const Image& image, int quality = 90, std::uint32_t exif_orientation = 0);

/// Lossless, so that decoding gives exactly these pixels.
FileContent make_webp(const Image& image);
FileContent make_webp_rgba(std::uint32_t width, std::uint32_t height,
                           const std::vector<std::uint8_t>& rgba);
FileContent make_webp_lossy(const Image& image, float quality);
/// Lossless with an EXIF chunk.
FileContent make_webp_exif(const Image& image, std::uint32_t exif_orientation);
/// Every frame covers the canvas and replaces the previous one.
FileContent make_webp_animation(const std::vector<Image>& frames, std::uint32_t delay_ms);

struct GifFrame {
  std::uint32_t left = 0;
  std::uint32_t top = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> indices;
  int delay_cs = 10;
  int disposal = 0;      // GIF's numbers: 0 unspecified, 1 keep, 2 clear, 3 as before
  int transparent = -1;  // index into the palette
  bool interlaced = false;
};
/// `palette` holds 2, 4, 8, … or 256 RGB triples.
FileContent make_gif(std::uint32_t width, std::uint32_t height,
                     const std::vector<std::uint8_t>& palette, const std::vector<GifFrame>& frames);
/// Whole frames with at most 256 colours together.
FileContent make_gif(const std::vector<Image>& frames, int delay_cs);

/// 16-bit PCM. `samples` interleaves the channels.
FileContent make_wav(const std::vector<float>& samples, std::uint32_t rate_hz,
                     std::uint32_t channels = 1);
FileContent make_wav_float(const std::vector<float>& samples, std::uint32_t rate_hz,
                           std::uint32_t channels = 1);
enum class AiffKind : std::uint8_t { kPcm, kLittle, kFloat };
FileContent make_aiff(const std::vector<float>& samples, std::uint32_t rate_hz,
                      std::uint32_t channels, AiffKind kind);
/// A CAF: of PCM, most significant byte first or last, or of floats.
FileContent make_caf(const std::vector<float>& samples, std::uint32_t rate_hz,
                     std::uint32_t channels, AiffKind kind);
/// An RF64: a WAV whose lengths have 64 bits.
FileContent make_rf64(const std::vector<float>& samples, std::uint32_t rate_hz,
                      std::uint32_t channels = 1);
/// A WAV of Microsoft's or IMA's ADPCM.
FileContent make_adpcm(const std::vector<float>& samples, std::uint32_t rate_hz, bool ima);
FileContent make_flac(const std::vector<float>& samples, std::uint32_t rate_hz,
                      std::uint32_t channels = 1);
/// Without tags. A frame with the encoder's notes ("Xing") is the first, but not of a low constant bit rate.
FileContent make_mp3(const std::vector<float>& samples, std::uint32_t rate_hz,
                     std::uint32_t channels = 1, bool variable_bit_rate = true);

}  // namespace afterimage::testing
