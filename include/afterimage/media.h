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

/// Kind of a media item. The numeric values are written into keys and files: append, never
/// renumber.
enum class Modality : std::uint8_t { kImage = 1, kAudio = 2, kVideo = 3 };

/// "image", "audio", "video".
std::string_view to_string(Modality modality);

/// Immutable raw bytes of one file. Requests that carry the file share them; cache entries never
/// do.
using FileBytes = std::shared_ptr<const std::vector<std::byte>>;

/// One image, audio clip or video as received: encoded bytes, not pixels.
///
/// Shape    One file; for a video given as a folder, one file per frame in playing order.
/// Errors   None: the bytes come from outside and are not checked here. foundation/media probes and
///          decodes them.
struct MediaItem {
  Modality modality = Modality::kImage;
  std::vector<FileBytes> files;
  /// Frame rate of a folder of frames, in frames per 1,000 seconds. 0: taken from the file itself.
  std::uint32_t frame_rate_mhz = 0;
  std::string name;  // for messages only: never part of a key
  /// Content digest of `files`, if it is known. Only a caller that hashed these very bytes sets it.
  std::optional<ContentDigest> digest = std::nullopt;

  /// How large an item is, as its files say; zero where it has no such size, or that is unknown.
  struct Size {
    std::uint32_t width = 0;  // pixels, of images and videos
    std::uint32_t height = 0;
    Duration length{0};  // of videos and sound
    bool operator==(const Size&) const = default;
  };
};
using MediaSize = MediaItem::Size;

/// Sum of the sizes of all files.
[[nodiscard]] Bytes raw_bytes(const MediaItem& item);

}  // namespace afterimage
