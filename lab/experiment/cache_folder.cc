// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/cache_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "foundation/text/json_lines.h"

namespace afterimage {
namespace {

constexpr std::string_view kSentinelText =
    "This folder is a cache of afterimage: whatever is in it may be removed at any time.\n";

/// "/", also as "//", "/." and "/x/..".
bool is_root(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return whole == whole.root_path();
}

Result<void> refuse_root(const std::string& path) {
  if (!path.empty() && !is_root(path)) return {};
  return malformed(
      fmt::format("'{}' cannot be a cache folder: it is the root of the file system", path));
}

bool has_mark(const std::string& path, const Files& files) {
  const auto mark = files.read(path + "/" + kCacheSentinel, 4_KiB);
  return mark.has_value() && std::string_view(reinterpret_cast<const char*>(mark->data()),
                                              mark->size()) == kSentinelText;
}

}  // namespace

Result<void> make_cache_folder(const std::string& path, Files& files) {
  AFI_TRY_VOID(refuse_root(path));
  if (has_mark(path, files)) return {};
  if (files.is_folder(path)) {
    AFI_TRY(const std::vector<std::string> names, files.list(path));
    if (!names.empty()) {
      return malformed(
          fmt::format("'{}' is not empty and has no marker file ({}): choose another cache folder",
                      path, kCacheSentinel));
    }
  }
  AFI_TRY_VOID(files.make_folder(path));
  return files.replace(path + "/" + kCacheSentinel, std::as_bytes(std::span(kSentinelText)));
}

Result<bool> purge_cache_folder(const std::string& path, Files& files) {
  AFI_TRY_VOID(refuse_root(path));
  if (!files.is_folder(path)) return false;
  if (!has_mark(path, files)) {
    return malformed(fmt::format(
        "'{}' is not purged: it has no marker file ({}), so it is not a cache of afterimage", path,
        kCacheSentinel));
  }
  AFI_TRY_VOID(files.empty_folder(path, kCacheSentinel));
  return true;
}

}  // namespace afterimage
