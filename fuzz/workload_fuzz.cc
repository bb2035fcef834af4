// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give a request or an error with a message.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "bench/workload/media_loader.h"
#include "bench/workload/workload.h"
#include "foundation/platform/testing/memory_files.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const testing::MemoryFiles no_files;
  auto loader = MediaLoader::open({.workload = "w.jsonl"}, no_files);
  AFI_CHECK(loader.has_value());
  // Data URLs are decoded; references to files become empty items.
  const auto load = [&](const MediaReference& reference) -> Result<std::vector<MediaItem>> {
    MediaItem item{.modality = reference.modality, .name = reference.name};
    if (!reference.name.starts_with("data:")) return std::vector{item};
    AFI_TRY(item, loader->load(reference));
    return std::vector{std::move(item)};
  };
  const auto request = parse_workload_line(line, load);
  if (request.has_value()) {
    AFI_CHECK(!request->id.text().empty());
    AFI_CHECK(!request->messages.empty());
  } else {
    AFI_CHECK(!request.error().message.empty());
  }
  return 0;
}
