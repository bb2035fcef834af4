// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// The files of a model from the name of one of them: that one first, each once, all in its folder,
// and no more than the name says.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "engines/llama_library/file_name.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> files = files_of(path);
  AFI_CHECK(!files.empty() && files.size() <= 99'999 && files.front() == path);
  const auto rises = std::ranges::adjacent_find(files, std::greater_equal<>()) == files.end();
  AFI_CHECK(rises);  // so each is listed once
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const std::string& file : files) {
    AFI_CHECK(file.size() == path.size() && file.starts_with(folder));
    AFI_CHECK(files.size() == 1 || file.ends_with(".gguf"));
    AFI_CHECK(file.rfind('/') == path.rfind('/'));
  }
  return 0;
}
