// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// A store's secret file with any mode and content gives its secret, or an error that does not
// reveal the content.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "afterimage/digest.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "fuzz_input.h"

using namespace afterimage;

namespace {

/// Removed when the process exits normally.
struct Folder {
  Folder() : path((std::filesystem::temp_directory_path() / "afterimage-fuzz-XXXXXX").string()) {
    AFI_CHECK(::mkdtemp(path.data()) != nullptr);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder kFolder;
  static const std::string kPath = kFolder.path + "/secret";
  testing::FuzzInput input(data, size);
  const mode_t mode = input.u16() & 0777U;
  const std::string_view content = input.rest();
  const int file = ::open(kPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  AFI_CHECK(file >= 0);
  AFI_CHECK(::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  AFI_CHECK(::fchmod(file, mode) == 0);
  AFI_CHECK(::close(file) == 0);
  const auto secret = store_secret(kFolder.path);
  const bool good = content.size() == 32 && (mode & 077U) == 0;
  AFI_CHECK(!secret.has_value() || good);
  if (secret.has_value()) {
    AFI_CHECK(std::memcmp(secret->data(), content.data(), content.size()) == 0);
  } else {
    static const std::string kFirst = secret.error().message;
    AFI_CHECK(secret.error().message == kFirst);
  }
  AFI_CHECK(::unlink(kPath.c_str()) == 0);
  return 0;
}
