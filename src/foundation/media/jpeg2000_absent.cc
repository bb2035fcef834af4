// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// In place of jpeg2000.cc where OpenJPEG is not linked: FFmpeg's decoder, which takes nearly twice the time.
#include "foundation/media/formats.h"

namespace afterimage {

Result<Image> decode_jpeg2000(const MediaFile& file, const PictureHeader& header) {
  return decode_coded_still(file, header);
}

std::string jpeg2000_decoder() { return ""; }

}  // namespace afterimage
