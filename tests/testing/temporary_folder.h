// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
/// A folder per test: tests run in parallel, so no two may share a path.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace afterimage::testing {

/// A new folder that is removed with its content at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() / "afterimage-test-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      ADD_FAILURE() << "cannot create a folder from the template " << path_;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The path of `name` inside.
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Writes `content` to a file that only its owner may read; its path.
  std::string private_file(const std::string& name, const std::string& content) const {
    std::ofstream(file(name)) << content;
    std::filesystem::permissions(file(name), std::filesystem::perms(0600));
    return file(name);
  }

 private:
  std::string path_;
};

}  // namespace afterimage::testing
