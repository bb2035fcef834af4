// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a sequence state that a model's memories wrote, or an error. The first byte selects
// the memories, the second the number of tokens, the third where in the rest (in sixteenths) the
// state ends that teaches the format; the bytes after it are another state of the same model.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "afterimage/result.h"
#include "engines/llama/sequence_state.h"
#include "testing/restored_state.h"

using namespace afterimage;

namespace {

std::vector<KvKind> kinds_of(std::uint8_t choice) {
  std::vector<KvKind> kinds;
  if ((choice & 1U) != 0) kinds.push_back(KvKind::kFull);
  if ((choice & 2U) != 0) kinds.push_back(KvKind::kSliding);
  if ((choice & 4U) != 0) kinds.push_back(KvKind::kRecurrent);
  return kinds;
}

/// The parsed state fits the model, and can be written again.
void check(const StateFormat& format, std::span<const std::byte> written, bool partial) {
  const auto contents = read_state(format, written, partial);
  if (!contents.has_value()) return;
  std::vector<std::vector<std::byte>> rows(contents->size());
  std::vector<SectionRows> sections;
  bool all_hold_cells = true;
  for (std::size_t i = 0; i < contents->size(); ++i) {
    const StateSection& section = format.sections[i];
    const SectionContent& content = (*contents)[i];
    all_hold_cells = all_hold_cells && content.cells > 0;
    if (section.kind == KvKind::kRecurrent) {
      sections.push_back({.cells = 1, .pieces = content.pieces});
      continue;
    }
    rows[i].resize(content.cells * section.row_bytes());
    content.copy_rows(section, 0, content.cells, rows[i], section.row_bytes());
    for (std::uint32_t cell = 0; cell < content.cells; ++cell) {
      static_cast<void>(content.position(section, cell));
    }
    sections.push_back(
        {.cells = content.cells, .pieces = {rows[i]}, .stride = section.row_bytes()});
  }
  if (partial || !all_hold_cells) return;
  // Sequence and owners are written as 0, and cells into the first stream; the sizes stay the same.
  const auto again = testing::restored_state(format, sections);
  AFI_CHECK(again.size() == written.size());
  AFI_CHECK(read_state(format, again, false).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(3);
  const std::size_t first = bytes.size() * std::min<std::size_t>(data[2], 16) / 16;
  const auto format =
      StateFormat::learn(bytes.first(first), TokenCount(data[1]), kinds_of(data[0]));
  if (!format.has_value()) return 0;
  for (const bool partial : {false, true}) {
    check(*format, bytes.first(first), partial);
    check(*format, bytes.subspan(first), partial);
  }
  return 0;
}
