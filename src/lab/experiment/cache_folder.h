// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// The file that says that a folder is ours, and that what is in it may be removed.
inline constexpr const char* kCacheSentinel = ".afterimage-cache";

/// Makes a cache folder and marks it as ours. A folder that is there and not empty, and was not
/// marked, is somebody else's.
///
/// Errors   kInvalidArgument: it is somebody else's, or the root of the file system; kUnavailable.
Result<void> make_cache_folder(const std::string& path, Files& files);

/// Removes all that is in a cache folder but the mark. False: there is no such folder.
///
/// Errors   kInvalidArgument: it carries no mark, or is the root of the file system; nothing was
///          removed.
Result<bool> purge_cache_folder(const std::string& path, Files& files);

}  // namespace afterimage
