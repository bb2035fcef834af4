// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "foundation/platform/files.h"

namespace afterimage::testing {

/// A file system in memory. Not thread-safe while being written.
class MemoryFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override {
    const auto it = files_.find(path);
    if (it == files_.end()) return missing(path);
    if (it->second.size() > limit.value()) {
      return fail(ErrorCode::kLimitExceeded, "'" + path + "' is larger than the limit");
    }
    return it->second;
  }

  Result<void> replace(const std::string& path, std::span<const std::byte> content) override {
    files_[path].assign(content.begin(), content.end());
    return {};
  }

  Result<void> append(const std::string& path, std::span<const std::byte> content) override {
    files_[path].insert(files_[path].end(), content.begin(), content.end());
    return {};
  }

  Result<void> cut(const std::string& path, Bytes size) override {
    const auto it = files_.find(path);
    if (it == files_.end()) return missing(path);
    it->second.resize(std::min<std::size_t>(it->second.size(), size.value()));
    return {};
  }

  Result<void> make_folder(const std::string& path) override {
    folders_.insert(path);
    return {};
  }

  Result<void> empty_folder(const std::string& path, const std::string& kept) override {
    if (!is_folder(path)) return missing(path);
    std::erase_if(files_, [&](const auto& file) {
      return file.first.starts_with(path + "/") && file.first != path + "/" + kept;
    });
    return {};
  }

  Result<void> check_replaceable(const std::string& path) const override {
    if (is_folder(path)) return fail(ErrorCode::kUnavailable, "'" + path + "' is a folder");
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& folder) const override {
    if (!is_folder(folder)) return missing(folder);
    std::vector<std::string> names;
    const std::string prefix = folder + "/";
    for (const auto& [path, content] : files_) {
      if (path.starts_with(prefix) && path.find('/', prefix.size()) == std::string::npos) {
        names.push_back(path.substr(prefix.size()));
      }
    }
    return names;
  }

  [[nodiscard]] bool is_folder(const std::string& path) const override {
    if (folders_.contains(path)) return true;
    const auto it = files_.lower_bound(path + "/");
    return it != files_.end() && it->first.starts_with(path + "/");
  }

 private:
  static std::unexpected<Error> missing(const std::string& path) {
    return fail(ErrorCode::kNotFound, "'" + path + "' does not exist");
  }

  std::map<std::string, std::vector<std::byte>> files_;
  std::set<std::string> folders_;  // created explicitly; others exist because they contain files
};

}  // namespace afterimage::testing
