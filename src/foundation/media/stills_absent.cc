// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// In place of stills.cc where FFmpeg's libraries are not linked.
#include <fmt/format.h>

#include "foundation/media/formats.h"

namespace afterimage {
namespace {

std::unexpected<Error> no_decoder(const MediaFile& file, const PictureHeader& header) {
  return unsupported(file, fmt::format("this build reads no {} files; build it with "
                                       "AFTERIMAGE_VIDEO, or convert the file to PNG or JPEG",
                                       to_string(header.format)));
}

}  // namespace

Result<Image> decode_heif(const MediaFile& file, const PictureHeader& header) {
  return no_decoder(file, header);
}

Result<Image> decode_coded_still(const MediaFile& file, const PictureHeader& header) {
  return no_decoder(file, header);
}

std::string picture_decoder() { return "none" + jpeg2000_decoder(); }

}  // namespace afterimage
