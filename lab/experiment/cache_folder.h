// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// Marker file: this folder is an Afterimage cache and its contents may be removed.
inline constexpr const char* kCacheSentinel = ".afterimage-cache";

/// Creates a cache folder and its marker. An existing folder that is not empty and has no marker is
/// not taken over.
///
/// Errors   kInvalidArgument: a folder without the marker that is not empty, or the root of the
///          file system; kUnavailable.
Result<void> make_cache_folder(const std::string& path, Files& files);

/// Removes everything in a cache folder except the marker. False: the folder does not exist.
///
/// Errors   kInvalidArgument: no marker, or the root of the file system; nothing was removed.
Result<bool> purge_cache_folder(const std::string& path, Files& files);

}  // namespace afterimage
