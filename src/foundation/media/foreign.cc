// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Names of what is not read, for error messages: by the first bytes, as sniff() does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/text/ascii.h"

namespace afterimage {

namespace {

constexpr std::string_view kToPicture = "convert it to PNG or JPEG";
constexpr std::string_view kToSound = "convert it to WAV, FLAC or MP3";
constexpr std::string_view kToVideo = "convert it to MP4";
constexpr std::string_view kToPdf = "save it as PDF";
constexpr std::string_view kUnpack = "unpack it";

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  Foreign is;
};

template <std::size_t size>
constexpr std::string_view raw(const char (&bytes)[size]) {  // with zeros
  return {bytes, size - 1};
}

constexpr Magic kMagic[] = {
    {0, raw("\xFF\xD8"), {"damaged JPEG", ""}},
    {0, raw("\x89PNG"), {"damaged PNG (as by a transfer as text)", ""}},
    {0, raw("\xFF\x0A"), {"JPEG XL", kToPicture}},
    {0, raw("\0\0\0\x0CJXL \r\n\x87\n"), {"JPEG XL", kToPicture}},
    {0, raw("II*\0\x10\0\0\0CR"), {"CR2 raw", kToPicture}},
    {0, raw("II+\0"), {"BigTIFF", kToPicture}},
    {0, raw("MM\0+"), {"BigTIFF", kToPicture}},
    {0, raw("II\xBC\x01"), {"JPEG XR", kToPicture}},
    {0, raw("8BPS"), {"PSD (Photoshop)", kToPicture}},
    {0, raw("\0\0\2\0"), {"TGA or CUR (cursor)", kToPicture}},
    {0, raw("\x8AMNG\r\n\x1A\n"), {"MNG", kToPicture}},
    {0, raw("\x8BJNG\r\n\x1A\n"), {"JNG", kToPicture}},
    {0, raw("gimp xcf"), {"XCF (GIMP)", kToPicture}},
    {0, raw("qoif"), {"QOI", kToPicture}},
    {0, raw("DDS "), {"DDS", kToPicture}},
    {0, raw("\x76\x2F\x31\x01"), {"OpenEXR", kToPicture}},
    {0, raw("\xD7\xCD\xC6\x9A"), {"WMF", kToPicture}},
    {40, raw(" EMF"), {"EMF", kToPicture}},
    {128, raw("DICM"), {"DICOM", kToPicture}},
    {0, raw("AT&TFORM"), {"DjVu", "convert it to PDF"}},
    {0, raw("RIFX"), {"RIFX (big-endian WAV)", kToSound}},
    {0, raw("riff\x2E\x91\xCF\x11"), {"Wave64", kToSound}},
    {0, raw(".snd"), {"AU", kToSound}},
    {0, raw("MThd"), {"MIDI", "render it to WAV"}},
    {0, raw("wvpk"), {"WavPack", kToSound}},
    {0, raw("Creative Voice File\x1A"), {"VOC", kToSound}},
    {0, raw("MAC "), {"Monkey's Audio", kToSound}},
    {0, raw("DSD "), {"DSF", kToSound}},
    {0, raw("MPCK"), {"Musepack", kToSound}},
    {0, raw("\x0B\x77"), {"AC-3", kToSound}},
    {0, raw("\x7F\xFE\x80\x01"), {"DTS", kToSound}},
    {0,
     raw("\x30\x26\xB2\x75\x8E\x66\xCF\x11"),
     {"WMA or WMV", "convert it to MP4, or its sound to WAV"}},
    {0, raw("FLV\x01"), {"FLV", kToVideo}},
    {0, raw("\0\0\x01\xBA"), {"MPEG", kToVideo}},
    {0, raw("\0\0\x01\xB3"), {"MPEG", kToVideo}},
    {0, raw("\0\0\0\x01"), {"raw H.264 or HEVC", kToVideo}},
    {0, raw(".RMF"), {"RealMedia", kToVideo}},
    {0, raw("DKIF"), {"IVF", kToVideo}},
    {0, raw("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), {"Word, Excel or PowerPoint", kToPdf}},
    {0, raw("\x1F\x8B"), {"gzip", kUnpack}},
    {0, raw("BZh"), {"bzip2", kUnpack}},
    {0,
     raw("\xFD"
         "7zXZ"),
     {"xz", kUnpack}},
    {0, raw("\x28\xB5\x2F\xFD"), {"Zstandard", kUnpack}},
    {0, raw("7z\xBC\xAF\x27\x1C"), {"7z", kUnpack}},
    {0, raw("Rar!\x1A\x07"), {"RAR", kUnpack}},
    {257, raw("ustar"), {"tar", kUnpack}},
    {0,
     raw("\x7F"
         "ELF"),
     {"ELF", ""}},
};

/// Of text: prose may begin as the others do.
constexpr Magic kTextMagic[] = {
    {0, raw("#?RADIANCE"), {"Radiance HDR", kToPicture}},
    {0, raw("YUV4MPEG2"), {"Y4M", kToVideo}},
    {0, raw("NIST_1A\n"), {"SPHERE (NIST)", kToSound}},
    {0, raw("{\\rtf"), {"RTF", kToPdf}},
    {0, raw("%!PS"), {"PostScript", "convert it to PDF"}},
    {0,
     raw("version https://git-lfs"),
     {"Git LFS pointer", "fetch the file itself with git lfs pull"}},
    {0, raw("iVBORw0KGgo"), {"base64 text of a PNG", "decode it"}},
    {0, raw("/9j/"), {"base64 text of a JPEG", "decode it"}},
    {0, raw("R0lGOD"), {"base64 text of a GIF", "decode it"}},
    {0, raw("UklGR"), {"base64 text of a RIFF", "decode it"}},
    {0, raw("data:"), {"data URL of a", "decode it"}},
};

bool has_at(std::span<const std::byte> file, std::size_t offset, std::string_view bytes) {
  return as_text(file).substr(std::min(offset, file.size())).starts_with(bytes);
}

std::span<const std::byte> start_of(std::span<const std::byte> file) {
  return file.first(std::min<std::size_t>(file.size(), 24));
}

bool is_text(std::span<const std::byte> file) {
  return std::ranges::all_of(as_text(start_of(file)), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
}

unsigned octet(std::span<const std::byte> file, std::size_t at) {
  return at < file.size() ? std::to_integer<unsigned>(file[at]) : 0;
}

bool is_transport_stream(std::span<const std::byte> file) {
  for (const std::size_t first : {0U, 4U}) {  // the latter: with a time before each packet
    const std::size_t packet = 188 + first;
    if (has_at(file, first, "G") && has_at(file, first + packet, "G") &&
        (file.size() <= first + 2 * packet || has_at(file, first + 2 * packet, "G"))) {
      return true;
    }
  }
  return false;
}

Foreign riff_of(std::span<const std::byte> file) {
  if (has_at(file, 8, "AVI ")) return {"AVI", kToVideo};
  if (has_at(file, 8, "sfbk")) return {"SoundFont", ""};
  return {"RIFF of another kind", ""};
}

/// Frames that are neither AAC nor MP3 as they are read.
Foreign mpeg_sound_of(std::span<const std::byte> file) {
  switch (octet(file, 1) >> 1U & 3U) {  // the layer
    case 0:
      return (octet(file, 1) & 0xF0U) == 0xF0 ? Foreign{"AAC", kToSound} : Foreign{};
    case 1:
      return octet(file, 2) >> 4U == 0 ? Foreign{"MP3 of free format", kToSound} : Foreign{};
    case 2:
      return {"MP2", kToSound};
    default:
      return {};
  }
}

Foreign archive_of(std::span<const std::byte> file) {
  const std::string_view start = as_text(file).substr(0, 4'096);
  if (start.contains("word/") || start.contains("mimetypeapplication/vnd.oasis.opendocument.text"))
    return {"Word or Writer", kToPdf};
  if (start.contains("xl/") || start.contains("opendocument.spreadsheet"))
    return {"Excel or Calc", kToPdf};
  if (start.contains("ppt/") || start.contains("opendocument.presentation"))
    return {"PowerPoint or Impress", kToPdf};
  if (start.contains("[Content_Types].xml")) return {"Office", kToPdf};
  if (start.contains("mimetypeapplication/epub")) return {"EPUB", "convert it to PDF"};
  return {"ZIP", kUnpack};
}

/// SVG and HTML begin in many ways.
Foreign markup_of(std::span<const std::byte> file) {
  std::string_view start = as_text(file).substr(0, 4'096);
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  start.remove_prefix(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  if (!start.starts_with('<')) return {};
  const std::string page = ascii::lowered(start);
  if (page.contains("<svg")) return {"SVG", "render it to PNG"};
  if (page.starts_with("<!doctype") || page.starts_with("<html")) {
    return {"HTML", "its address is that of a page, not of a file"};
  }
  return {};
}

}  // namespace

Foreign foreign_format(std::span<const std::byte> file) {
  if (has_at(file, 4, "ftypcrx ")) return {"CR3 raw", kToPicture};
  if (has_at(file, 0, "RIFF")) return riff_of(file);
  if (has_at(file, 0, raw("PK\x03\x04"))) return archive_of(file);
  if (has_at(file, 0, "P") && octet(file, 1) >= '1' && octet(file, 1) <= '7' &&
      (octet(file, 2) == ' ' || octet(file, 2) == '\n' || octet(file, 2) == '\r')) {
    return {"PBM, PGM, PPM or PAM", kToPicture};
  }
  for (const Magic& magic : kTextMagic) {
    if (has_at(file, magic.offset, magic.bytes)) return magic.is;
  }
  const Foreign markup = markup_of(file);
  if (!markup.name.empty() || is_text(file)) return markup;
  for (const Magic& magic : kMagic) {
    if (has_at(file, magic.offset, magic.bytes)) return magic.is;
  }
  if (is_transport_stream(file)) return {"MPEG-TS", kToVideo};
  if (octet(file, 0) == 0xFF && octet(file, 1) >= 0xE0U) return mpeg_sound_of(file);
  return {};
}

std::string with_article(std::string_view name) {
  // As they are spoken: "an em-pea-four", "a HEIC", "a URL".
  static constexpr std::string_view kAn[] = {"HTML", "MP4", "MP3", "MP2", "MPEG", "MNG",
                                             "RTF",  "SVG", "FLV", "XCF", "RIFX"};
  const bool an =
      std::ranges::any_of(kAn, [&](std::string_view word) { return name.starts_with(word); }) ||
      (std::string_view("AEIO").contains(name.substr(0, 1)));
  return fmt::format("{} {}", an ? "an" : "a", name);
}

std::string describe_content(std::span<const std::byte> file) {
  if (const FileFormat format = sniff(file); format != FileFormat::kUnknown) {
    return fmt::format("{} file", with_article(to_string(format)));
  }
  if (const Foreign foreign = foreign_format(file); !foreign.name.empty()) {
    return fmt::format("{} file", with_article(foreign.name));
  }
  const auto start = start_of(file);
  if (is_text(file)) {
    std::string line(as_text(start));
    std::ranges::replace_if(line, [](char c) { return c < ' '; }, ' ');
    return fmt::format("text that starts with \"{}\"", line);
  }
  std::string hex;
  for (const std::byte b : start.first(std::min<std::size_t>(start.size(), 8))) {
    hex += fmt::format(" {:02x}", std::to_integer<unsigned>(b));
  }
  return fmt::format("bytes that start with{}", hex);
}

}  // namespace afterimage
