// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/media_files.h"

#include <gif_lib.h>
#include <png.h>
#include <sndfile.h>
#include <webp/encode.h>

#include <algorithm>
#include <cstdio>  // for jpeglib.h and libsndfile
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

// clang-format off: jpeglib.h names FILE without including it.
#include <jpeglib.h>
// clang-format on

#include "afterimage/result.h"

namespace afterimage::testing {

namespace {

void append(FileContent& file, const void* bytes, std::size_t count) {
  const auto* begin = static_cast<const std::byte*>(bytes);
  file.insert(file.end(), begin, begin + count);
}

void append(FileContent& file, std::string_view text) { append(file, text.data(), text.size()); }

void append_little(FileContent& file, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i)));
}

int as_int(std::uint32_t value) { return static_cast<int>(value); }

}  // namespace

Image make_picture(std::uint32_t width, std::uint32_t height, std::uint32_t seed) {
  Image image{.width = width, .height = height, .rgb = {}};
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      for (const std::uint32_t value : {x * 37 + seed, y * 91 + seed * 7, (x + 2 * y) * 53}) {
        image.rgb.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  return image;
}

Image make_plain(std::uint32_t width, std::uint32_t height, std::uint8_t red, std::uint8_t green,
                 std::uint8_t blue) {
  Image image{.width = width, .height = height, .rgb = {}};
  for (std::uint64_t i = 0; i < std::uint64_t{width} * height; ++i) {
    image.rgb.insert(image.rgb.end(), {red, green, blue});
  }
  return image;
}

MediaItem media_item(Modality modality, FileContent file, std::string name) {
  MediaItem item{.modality = modality, .files = {}, .name = std::move(name)};
  item.files.push_back(std::make_shared<const FileContent>(std::move(file)));
  return item;
}

MediaItem folder_item(std::vector<FileContent> files, std::uint32_t frame_rate_mhz,
                      std::string name) {
  MediaItem item{.modality = Modality::kVideo,
                 .files = {},
                 .frame_rate_mhz = frame_rate_mhz,
                 .name = std::move(name)};
  for (FileContent& file : files) {
    item.files.push_back(std::make_shared<const FileContent>(std::move(file)));
  }
  return item;
}

FileContent make_exif(std::uint32_t orientation, bool big_endian) {
  FileContent tiff;
  const auto number = [&](std::uint32_t value, int width) {
    for (int i = 0; i < width; ++i) {
      tiff.push_back(static_cast<std::byte>(value >> (8 * (big_endian ? width - 1 - i : i))));
    }
  };
  append(tiff, big_endian ? "MM" : "II");
  number(42, 2);
  number(8, 4);  // where the directory is
  number(1, 2);  // one entry: orientation, a short, one of it
  number(0x0112, 2);
  number(3, 2);
  number(1, 4);
  number(orientation, 2);
  number(0, 2);
  number(0, 4);  // no further directory
  return tiff;
}

FileContent make_png(const PngContent& content) {
  FileContent file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp to, png_bytep bytes, std::size_t count) {
    append(*static_cast<FileContent*>(png_get_io_ptr(to)), bytes, count);
  };
  png_set_write_fn(png, &file, write, nullptr);
  png_set_IHDR(png, info, content.width, content.height, content.bit_depth, content.color_type,
               content.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i + 3 <= content.palette.size(); i += 3) {
    palette.push_back({content.palette[i], content.palette[i + 1], content.palette[i + 2]});
  }
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (!content.palette_alpha.empty()) {
    png_set_tRNS(png, info, content.palette_alpha.data(),
                 static_cast<int>(content.palette_alpha.size()), nullptr);
  }
  auto exif = content.exif;
  if (!exif.empty()) {
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()),
                   reinterpret_cast<png_bytep>(exif.data()));
  }
  png_write_info(png, info);
  const std::size_t stride = png_get_rowbytes(png, info);
  AFI_CHECK(content.rows.size() == stride * content.height);
  std::vector<png_bytep> rows;
  for (std::uint32_t y = 0; y < content.height; ++y) {
    rows.push_back(const_cast<png_bytep>(content.rows.data()) + y * stride);
  }
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

FileContent make_png(const Image& image) {
  return make_png(PngContent{.width = image.width, .height = image.height, .rows = image.rgb});
}

FileContent make_png_rgba(std::uint32_t width, std::uint32_t height,
                          const std::vector<std::uint8_t>& rgba) {
  return make_png(PngContent{.width = width, .height = height, .color_type = 6, .rows = rgba});
}

FileContent make_png_palette(std::uint32_t width, std::uint32_t height,
                             const std::vector<std::uint8_t>& indices,
                             const std::vector<std::uint8_t>& palette,
                             const std::vector<std::uint8_t>& palette_alpha) {
  return make_png(PngContent{.width = width,
                             .height = height,
                             .color_type = 3,
                             .rows = indices,
                             .palette = palette,
                             .palette_alpha = palette_alpha});
}

FileContent make_jpeg(const JpegContent& content) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_CreateCompress(&info, JPEG_LIB_VERSION, sizeof info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = content.width;
  info.image_height = content.height;
  info.input_components = content.channels;
  info.in_color_space = content.channels == 1   ? JCS_GRAYSCALE
                        : content.channels == 3 ? JCS_RGB
                                                : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, content.quality, TRUE);
  info.arith_code = content.arithmetic ? TRUE : FALSE;
  info.restart_in_rows = content.restart_rows;
  if (content.progressive) jpeg_simple_progression(&info);
  const jpeg_scan_info one_channel_each[] = {
      {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
  if (content.separate_scans) {
    info.scan_info = one_channel_each;
    info.num_scans = content.channels;
  }
  jpeg_start_compress(&info, TRUE);
  if (content.exif_orientation != 0) {
    FileContent marker;
    append(marker, std::string_view("Exif\0\0", 6));
    const FileContent tiff = make_exif(content.exif_orientation);
    append(marker, tiff.data(), tiff.size());
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()),
                      static_cast<unsigned>(marker.size()));
  }
  const std::size_t stride =
      std::size_t{content.width} * static_cast<std::size_t>(content.channels);
  AFI_CHECK(content.samples.size() == stride * content.height);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(content.samples.data()) + info.next_scanline * stride;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  FileContent file;
  append(file, bytes, size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return file;
}

FileContent make_jpeg(const Image& image, int quality, std::uint32_t exif_orientation) {
  return make_jpeg(JpegContent{.width = image.width,
                               .height = image.height,
                               .samples = image.rgb,
                               .quality = quality,
                               .exif_orientation = exif_orientation});
}

namespace {

FileContent take_webp(std::uint8_t* bytes, std::size_t size) {
  AFI_CHECK(size > 0);
  FileContent file;
  append(file, bytes, size);
  WebPFree(bytes);
  return file;
}

/// The chunks of a simple WebP file: what follows its 12-byte RIFF header.
std::span<const std::byte> chunks_of(const FileContent& webp) {
  return std::span(webp).subspan(12);
}

constexpr std::uint32_t kVp8xExif = 0x08;
constexpr std::uint32_t kVp8xAnimation = 0x02;

/// RIFF header and VP8X chunk around `chunks`.
FileContent extended_webp(const Image& canvas, std::uint32_t flags, const FileContent& chunks) {
  FileContent file;
  append(file, "RIFF");
  append_little(file, 4 + 18 + chunks.size(), 4);
  append(file, "WEBPVP8X");
  append_little(file, 10, 4);
  append_little(file, flags, 4);
  append_little(file, canvas.width - 1, 3);
  append_little(file, canvas.height - 1, 3);
  append(file, chunks.data(), chunks.size());
  return file;
}

}  // namespace

FileContent make_webp(const Image& image) {
  std::uint8_t* bytes = nullptr;
  const std::size_t size = WebPEncodeLosslessRGB(
      image.rgb.data(), as_int(image.width), as_int(image.height), as_int(3 * image.width), &bytes);
  return take_webp(bytes, size);
}

FileContent make_webp_rgba(std::uint32_t width, std::uint32_t height,
                           const std::vector<std::uint8_t>& rgba) {
  std::uint8_t* bytes = nullptr;
  const std::size_t size =
      WebPEncodeLosslessRGBA(rgba.data(), as_int(width), as_int(height), as_int(4 * width), &bytes);
  return take_webp(bytes, size);
}

FileContent make_webp_lossy(const Image& image, float quality) {
  std::uint8_t* bytes = nullptr;
  const std::size_t size =
      WebPEncodeRGB(image.rgb.data(), as_int(image.width), as_int(image.height),
                    as_int(3 * image.width), quality, &bytes);
  return take_webp(bytes, size);
}

FileContent make_webp_exif(const Image& image, std::uint32_t exif_orientation) {
  const FileContent simple = make_webp(image);
  const FileContent tiff = make_exif(exif_orientation);
  FileContent chunks;
  append(chunks, chunks_of(simple).data(), chunks_of(simple).size());
  append(chunks, "EXIF");
  append_little(chunks, tiff.size(), 4);
  append(chunks, tiff.data(), tiff.size());
  return extended_webp(image, kVp8xExif, chunks);
}

FileContent make_webp_animation(const std::vector<Image>& frames, std::uint32_t delay_ms) {
  FileContent chunks;
  append(chunks, "ANIM");
  append_little(chunks, 6, 4);
  append_little(chunks, 0, 6);  // background colour, loops for ever
  for (const Image& frame : frames) {
    const FileContent simple = make_webp(frame);
    append(chunks, "ANMF");
    append_little(chunks, 16 + chunks_of(simple).size(), 4);
    append_little(chunks, 0, 6);  // at the upper left corner
    append_little(chunks, frame.width - 1, 3);
    append_little(chunks, frame.height - 1, 3);
    append_little(chunks, delay_ms, 3);
    append_little(chunks, 2, 1);  // no blending
    append(chunks, chunks_of(simple).data(), chunks_of(simple).size());
  }
  return extended_webp(frames.at(0), kVp8xAnimation, chunks);
}

namespace {

int write_gif(GifFileType* gif, const GifByteType* bytes, int count) {
  append(*static_cast<FileContent*>(gif->UserData), bytes, static_cast<std::size_t>(count));
  return count;
}

void put_gif_frame(GifFileType* gif, const GifFrame& frame) {
  const GraphicsControlBlock control{.DisposalMode = frame.disposal,
                                     .UserInputFlag = false,
                                     .DelayTime = frame.delay_cs,
                                     .TransparentColor = frame.transparent};
  GifByteType extension[4];
  EGifGCBToExtension(&control, extension);
  EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, sizeof extension, extension);
  AFI_CHECK(EGifPutImageDesc(gif, as_int(frame.left), as_int(frame.top), as_int(frame.width),
                             as_int(frame.height), frame.interlaced, nullptr) == GIF_OK);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> passes =
      frame.interlaced
          ? std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 8}, {4, 8}, {2, 4}, {1, 2}}
          : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}};
  for (const auto& [first, step] : passes) {
    for (std::uint32_t y = first; y < frame.height; y += step) {
      const auto begin = frame.indices.begin() + y * frame.width;
      std::vector<GifPixelType> line(begin, begin + frame.width);
      AFI_CHECK(EGifPutLine(gif, line.data(), as_int(frame.width)) == GIF_OK);
    }
  }
}

}  // namespace

FileContent make_gif(std::uint32_t width, std::uint32_t height,
                     const std::vector<std::uint8_t>& palette,
                     const std::vector<GifFrame>& frames) {
  FileContent file;
  int error = 0;
  GifFileType* gif = EGifOpen(&file, write_gif, &error);
  AFI_CHECK(gif != nullptr);
  EGifSetGifVersion(gif, true);
  std::vector<GifColorType> colours;
  for (std::size_t i = 0; i + 3 <= palette.size(); i += 3) {
    colours.push_back({palette[i], palette[i + 1], palette[i + 2]});
  }
  ColorMapObject* map = GifMakeMapObject(static_cast<int>(colours.size()), colours.data());
  AFI_CHECK(map != nullptr);
  AFI_CHECK(EGifPutScreenDesc(gif, as_int(width), as_int(height), 8, 0, map) == GIF_OK);
  GifFreeMapObject(map);
  for (const GifFrame& frame : frames) put_gif_frame(gif, frame);
  AFI_CHECK(EGifCloseFile(gif, &error) == GIF_OK);
  return file;
}

FileContent make_gif(const std::vector<Image>& frames, int delay_cs) {
  std::map<std::tuple<std::uint8_t, std::uint8_t, std::uint8_t>, std::uint8_t> index_of;
  std::vector<std::uint8_t> palette;
  std::vector<GifFrame> indexed;
  for (const Image& frame : frames) {
    GifFrame& out = indexed.emplace_back();
    out.width = frame.width;
    out.height = frame.height;
    out.delay_cs = delay_cs;
    for (std::size_t i = 0; i + 3 <= frame.rgb.size(); i += 3) {
      const std::tuple colour{frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]};
      const auto [entry, is_new] =
          index_of.try_emplace(colour, static_cast<std::uint8_t>(index_of.size()));
      if (is_new) palette.insert(palette.end(), {frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]});
      AFI_CHECK(index_of.size() <= 256);
      out.indices.push_back(entry->second);
    }
  }
  palette.resize(3 * 256);
  return make_gif(frames.at(0).width, frames.at(0).height, palette, indexed);
}

namespace {

struct MemoryFile {
  FileContent bytes;
  std::size_t position = 0;
};

sf_count_t as_count(std::size_t value) { return static_cast<sf_count_t>(value); }

SF_VIRTUAL_IO memory_io() {
  return {.get_filelen =
              [](void* user) { return as_count(static_cast<MemoryFile*>(user)->bytes.size()); },
          .seek =
              [](sf_count_t offset, int whence, void* user) {
                auto* file = static_cast<MemoryFile*>(user);
                const sf_count_t base = whence == SEEK_SET   ? 0
                                        : whence == SEEK_CUR ? as_count(file->position)
                                                             : as_count(file->bytes.size());
                file->position = static_cast<std::size_t>(base + offset);
                return base + offset;
              },
          .read =
              [](void* out, sf_count_t count, void* user) {
                auto* file = static_cast<MemoryFile*>(user);
                const std::size_t taken =
                    std::min(static_cast<std::size_t>(count), file->bytes.size() - file->position);
                std::memcpy(out, file->bytes.data() + file->position, taken);
                file->position += taken;
                return as_count(taken);
              },
          .write =
              [](const void* in, sf_count_t count, void* user) {
                auto* file = static_cast<MemoryFile*>(user);
                const auto size = static_cast<std::size_t>(count);
                file->bytes.resize(std::max(file->bytes.size(), file->position + size));
                std::memcpy(file->bytes.data() + file->position, in, size);
                file->position += size;
                return count;
              },
          .tell = [](void* user) { return as_count(static_cast<MemoryFile*>(user)->position); }};
}

FileContent make_sound(const std::vector<float>& samples, std::uint32_t rate_hz,
                       std::uint32_t channels, int format, int bit_rate_mode = -1) {
  SF_VIRTUAL_IO io = memory_io();
  MemoryFile file;
  SF_INFO info{};
  info.samplerate = as_int(rate_hz);
  info.channels = as_int(channels);
  info.format = format;
  SNDFILE* sound = sf_open_virtual(&io, SFM_WRITE, &info, &file);
  AFI_CHECK(sound != nullptr);
  if (bit_rate_mode >= 0) {  // libsndfile 1.2 does it and returns SF_FALSE
    sf_command(sound, SFC_SET_BITRATE_MODE, &bit_rate_mode, sizeof(bit_rate_mode));
  }
  AFI_CHECK(sf_write_float(sound, samples.data(), as_count(samples.size())) ==
            as_count(samples.size()));
  AFI_CHECK(sf_close(sound) == 0);
  return std::move(file.bytes);
}

}  // namespace

FileContent make_wav(const std::vector<float>& samples, std::uint32_t rate_hz,
                     std::uint32_t channels) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
}

FileContent make_wav_float(const std::vector<float>& samples, std::uint32_t rate_hz,
                           std::uint32_t channels) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
}

namespace {

int coding_of(AiffKind kind) {
  return kind == AiffKind::kFloat    ? SF_FORMAT_FLOAT
         : kind == AiffKind::kLittle ? SF_ENDIAN_LITTLE | SF_FORMAT_PCM_16
                                     : SF_FORMAT_PCM_16;
}

}  // namespace

FileContent make_aiff(const std::vector<float>& samples, std::uint32_t rate_hz,
                      std::uint32_t channels, AiffKind kind) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_AIFF | coding_of(kind));
}

FileContent make_caf(const std::vector<float>& samples, std::uint32_t rate_hz,
                     std::uint32_t channels, AiffKind kind) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_CAF | coding_of(kind));
}

FileContent make_rf64(const std::vector<float>& samples, std::uint32_t rate_hz,
                      std::uint32_t channels) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_RF64 | SF_FORMAT_PCM_16);
}

FileContent make_adpcm(const std::vector<float>& samples, std::uint32_t rate_hz, bool ima) {
  return make_sound(samples, rate_hz, 1,
                    SF_FORMAT_WAV | (ima ? SF_FORMAT_IMA_ADPCM : SF_FORMAT_MS_ADPCM));
}

FileContent make_flac(const std::vector<float>& samples, std::uint32_t rate_hz,
                      std::uint32_t channels) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
}

FileContent make_mp3(const std::vector<float>& samples, std::uint32_t rate_hz,
                     std::uint32_t channels, bool variable_bit_rate) {
  return make_sound(samples, rate_hz, channels, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III,
                    variable_bit_rate ? SF_BITRATE_MODE_VARIABLE : SF_BITRATE_MODE_CONSTANT);
}

}  // namespace afterimage::testing
