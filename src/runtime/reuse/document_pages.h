// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>

#include "afterimage/engine.h"
#include "afterimage/media.h"

namespace afterimage {

/// Whether the request has pages of documents: DocumentReader makes them as PPM files. One page may be in
/// many documents. So entries made from a page are erased whenever any media item is erased.
inline bool has_pages(const Request& request) {
  return std::ranges::any_of(media_of(request), [](const MediaItem* item) {
    return item->modality == Modality::kImage && item->files.size() == 1 &&
           item->files[0] != nullptr && item->files[0]->size() > 2 &&
           (*item->files[0])[0] == std::byte{'P'} && (*item->files[0])[1] == std::byte{'6'};
  });
}

/// Of answers to such requests.
inline constexpr const char* kAnyMediaTag = "media:any";

}  // namespace afterimage
