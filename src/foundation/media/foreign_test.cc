// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "foundation/media/probe.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;

template <std::size_t size>
FileContent bytes(const char (&text)[size]) {
  return text_file({text, size - 1});
}

FileContent transport_stream(std::size_t before) {
  FileContent file(3 * (188 + before), std::byte{0xFF});
  for (std::size_t packet = 0; packet < 3; ++packet) {
    file[packet * (188 + before) + before] = std::byte{'G'};
  }
  return file;
}

TEST(Foreign, FilesThatPeopleSendAreNamed) {
  const struct {
    FileContent file;
    const char* expected;
  } kCases[] = {
      {bytes("\xFF\x0A\x00\x00"), "a JPEG XL file"},
      {bytes("\0\0\0\x0CJXL \r\n\x87\n"), "a JPEG XL file"},
      {bytes("\0\0\0\x0CjP  \r\n\x87\n"), "a JPEG 2000 file"},
      {bytes("\xFF\x4F\xFF\x51\x00"), "a JPEG 2000 file"},
      {bytes("\0\0\1\0\2\0\x10\x10\0\0\1\0\x20\0"), "an ICO file"},
      {bytes("II*\0\x08\0\0\0"), "a TIFF file"},
      {bytes("MM\0*\0\0\0\x08"), "a TIFF file"},
      {bytes("8BPS\0\1\0\0"), "a PSD (Photoshop) file"},
      {bytes("II+\0\x08\0\0\0"), "a BigTIFF file"},
      {bytes("II*\0\x10\0\0\0CR\2\0"), "a CR2 raw file"},
      {bytes("\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<svg xmlns=''/>"), "an SVG file"},
      {bytes("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), "an SVG file"},
      {bytes("\0\0\0\x1C"
             "ftypavif\0\0\0\0mif1avif"),
       "an AVIF file"},
      {bytes("\0\0\0\x1C"
             "ftypmif1\0\0\0\0mif1avif"),
       "an AVIF file"},
      {bytes("\0\0\0\x18"
             "ftypheic\0\0\0\0mif1heic"),
       "a HEIC file"},
      {bytes("\0\0\0\x18"
             "ftypcrx \0\0\0\1crx isom"),
       "a CR3 raw file"},
      {bytes("OggS\0\2"), "an Ogg file"},
      {bytes("\xFF\xF1\x50\x80\x02\x1F\xFC"), "an AAC file"},
      {bytes("FORM\0\0\1\0AIFFCOMM"), "an AIFF file"},
      {bytes("caff\0\1\0\0"), "a CAF file"},
      {bytes("RF64\xFF\xFF\xFF\xFFWAVEds64"), "a WAV file"},
      {bytes("#!AMR\n"), "an AMR file"},
      {bytes("RIFF\0\1\0\0AVI LIST"), "an AVI file"},
      {bytes("\xFF\xFD\x60\xC4\x54\x34"), "an MP2 file"},
      {bytes("\xFF\xFB\x00\xC4\x00\x00"), "an MP3 of free format file"},
      {bytes("Creative Voice File\x1A\x1A\0"), "a VOC file"},
      {bytes("NIST_1A\n   1024\nsample_count"), "a SPHERE (NIST) file"},
      {bytes("FLV\1\5\0\0\0\x09"), "an FLV file"},
      {transport_stream(0), "an MPEG-TS file"},
      {transport_stream(4), "an MPEG-TS file"},
      {bytes("\0\0\1\xBA\x44"), "an MPEG file"},
      {bytes("PK\3\4\x14\0\6\0[Content_Types].xml....word/document.xml"), "a Word or Writer file"},
      {bytes("version https://git-lfs.github.com/spec/v1\noid sha256:"), "a Git LFS pointer file"},
      {bytes("iVBORw0KGgoAAAANSUhEUg"), "a base64 text of a PNG file"},
      {bytes("\x89PNG\n\x1A\n...."), "a damaged PNG (as by a transfer as text) file"},
      {bytes("P5\n4 4\n255\n"), "a PBM, PGM, PPM or PAM file"},
      {bytes("BMW makes cars"), "text that starts with \"BMW makes cars\""},
      {bytes("MAC and cheese"), "text that starts with \"MAC and cheese\""},
      {bytes(""), "text that starts with \"\""},
      {bytes("\1\2"), "bytes that start with 01 02"},
  };
  for (const auto& c : kCases) EXPECT_EQ(describe_content(c.file), c.expected);
}

TEST(Foreign, FilesThatAreReadHaveTheirArticle) {
  const Image picture = make_picture(2, 2);
  EXPECT_EQ(describe_content(make_png(picture)), "a PNG file");
  EXPECT_EQ(describe_content(bytes("\0\0\0\x18"
                                   "ftypmp42")),
            "an MP4 file");
}

}  // namespace
}  // namespace afterimage
