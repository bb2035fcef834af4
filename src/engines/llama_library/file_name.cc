// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/file_name.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "foundation/platform/files.h"
#include "storage/memory/checksum.h"

namespace afterimage {

std::vector<std::string> files_of(const std::string& path) {
  // Parsed by hand: std::regex recurses once per character and overflows the stack on a long name.
  constexpr std::string_view kFirst = "-00001-of-";
  constexpr std::string_view kEnding = ".gguf";
  constexpr std::size_t kDigits = 5;
  const std::size_t tail = kFirst.size() + kDigits + kEnding.size();
  if (path.size() < tail || !path.ends_with(kEnding)) return {path};
  const std::string stem = path.substr(0, path.size() - tail);
  const std::string count = path.substr(stem.size() + kFirst.size(), kDigits);
  const bool is_first = path.compare(stem.size(), kFirst.size(), kFirst) == 0;
  if (!is_first || count.find_first_not_of("0123456789") != std::string::npos) return {path};
  std::vector<std::string> files{path};
  for (unsigned long i = 2; i <= std::stoul(count); ++i) {
    files.push_back(fmt::format("{}-{:05}-of-{}.gguf", stem, i, count));
  }
  return files;
}

Result<std::string> content_name(const std::string& path, const std::stop_token& stop) {
  std::vector<std::uint64_t> blocks;  // checksums, and how long each block was
  for (const std::string& file : files_of(path)) {
    const auto visit = [&](std::span<const std::byte> block) {
      const Checksum sum = Checksum::of(block);
      blocks.insert(blocks.end(), {sum.low, sum.high, block.size()});
    };
    AFI_TRY_VOID(visit_blocks(file, 8_MiB, visit, stop));
    blocks.push_back(0);
  }
  const Checksum all = Checksum::of(std::as_bytes(std::span(blocks)));
  return fmt::format("{:016x}{:016x}", all.high, all.low);
}

}  // namespace afterimage
