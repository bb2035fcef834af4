// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/units.h"

namespace afterimage {

/// The numeric values are written into keys and files: append, never renumber.
enum class Modality : std::uint8_t { kImage = 1, kAudio = 2, kVideo = 3 };

/// "image", "audio", "video".
std::string_view to_string(Modality modality);

/// Immutable raw bytes of one file. Shared by the requests that carry it; never by cache entries.
using FileBytes = std::shared_ptr<const std::vector<std::byte>>;

/// One image, audio clip or video as it arrived: encoded bytes, not pixels.
///
/// Shape  One file, or, for a video given as a folder, one file a frame in playing order.
/// Errors Nothing is checked here: the bytes come from outside. media/ probes and decodes.
struct MediaItem {
  Modality modality = Modality::kImage;
  std::vector<FileBytes> files;
  /// Playing speed of a folder of frames, in frames per 1,000 seconds. 0: the file itself says.
  std::uint32_t frame_rate_mhz = 0;
  std::string name;  // for messages only: never part of an identity
  /// The content digest of `files`, if it is known: whoever sets it has hashed these very bytes.
  std::optional<ContentDigest> digest = std::nullopt;
};

/// Sum of the sizes of all files.
[[nodiscard]] Bytes raw_bytes(const MediaItem& item);

}  // namespace afterimage
