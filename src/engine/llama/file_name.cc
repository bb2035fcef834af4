// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/llama/file_name.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <regex>
#include <vector>

#include "afterimage/memory/checksum.h"
#include "afterimage/platform/files.h"

namespace afterimage {
namespace {

std::vector<std::string> files_of(const std::string& path) {
  static const std::regex kPart("(.*)-00001-of-([0-9]{5})\\.gguf");
  std::smatch match;
  if (!std::regex_match(path, match, kPart)) return {path};
  std::vector<std::string> files{path};
  const unsigned long count = std::stoul(match[2]);
  for (unsigned long i = 2; i <= count; ++i) {
    files.push_back(fmt::format("{}-{:05}-of-{}.gguf", match[1].str(), i, match[2].str()));
  }
  return files;
}

}  // namespace

Result<std::string> content_name(const std::string& path) {
  std::vector<std::uint64_t> blocks;  // checksums, and how long each block was
  for (const std::string& file : files_of(path)) {
    AFI_TRY_VOID(visit_blocks(file, 8_MiB, [&](std::span<const std::byte> block) {
      const Checksum sum = Checksum::of(block);
      blocks.insert(blocks.end(), {sum.low, sum.high, block.size()});
    }));
    blocks.push_back(0);
  }
  const Checksum all = Checksum::of(std::as_bytes(std::span(blocks)));
  return fmt::format("{:016x}{:016x}", all.high, all.low);
}

}  // namespace afterimage
