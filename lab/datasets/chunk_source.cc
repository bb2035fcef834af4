// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/chunk_source.h"

#include <algorithm>
#include <array>

namespace afterimage {
namespace {

/// The length of an object id at the start of `text`: "(722332)", "(-)" or "(1,2)" in GQA. 0: no
/// id. "not(white)" is not an id.
std::size_t id_at(std::string_view text) {
  if (!text.starts_with('(')) return 0;
  const std::size_t end = text.find_first_not_of("0123456789,- ", 1);
  return end != std::string_view::npos && end > 1 && text[end] == ')' ? end + 1 : 0;
}

/// Removes object ids and the superfluous spaces.
std::string without_ids(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    if (const std::size_t id = id_at(text); id > 0) {
      text.remove_prefix(id);
      continue;
    }
    const bool space = std::string_view(" \t\r\n").contains(text.front());
    if (!space) result += text.front();
    if (space && !result.empty() && result.back() != ' ') result += ' ';
    text.remove_prefix(1);
  }
  while (result.ends_with(' ')) result.pop_back();
  return result;
}

std::string joined(const std::string& a, const std::string& b, std::string_view between) {
  return a.empty() || b.empty() ? a + b : a + std::string(between) + b;
}

std::string signature(const Sample& sample) {
  return without_ids(sample.semantic_str.empty() ? program_text(sample) : sample.semantic_str);
}

std::string groups(const Sample& sample) {
  return joined(sample.global_group, sample.local_group, " ");
}

std::string whole_chunk(const Sample& sample, ChunkSource source) {
  std::string text;
  switch (source) {
    case ChunkSource::kQuestion:
      break;
    case ChunkSource::kSemantic:
      text = signature(sample);
      break;
    case ChunkSource::kAnswer:
      text = sample.full_answer.empty() ? sample.answer : sample.full_answer;
      break;
    case ChunkSource::kGroup:
      text = groups(sample);
      break;
    case ChunkSource::kImage:
      text = sample.image_id.empty() ? "" : "image-" + sample.image_id;
      break;
    case ChunkSource::kCombined:
      text = joined(signature(sample), groups(sample), " | ");
      break;
  }
  return text.empty() ? sample.question : text;
}

/// Where the first `count` characters of UTF-8 text end.
std::size_t end_of_characters(std::string_view text, std::int64_t count) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80;
    if (begins && count-- == 0) break;
  }
  return end;
}

}  // namespace

std::string_view to_string(ChunkSource source) {
  constexpr std::array<std::string_view, kChunkSources.size()> kNames{
      "question", "semantic", "answer", "group", "image", "combined"};
  return kNames[static_cast<std::size_t>(source)];
}

std::optional<ChunkSource> chunk_source_named(std::string_view name) {
  const auto* const it = std::ranges::find_if(
      kChunkSources, [&](ChunkSource source) { return to_string(source) == name; });
  return it == kChunkSources.end() ? std::nullopt : std::optional(*it);
}

std::string program_text(const Sample& sample) {
  std::string text;
  for (const SemanticStep& step : sample.semantic) {
    text += (text.empty() ? "" : " | ") + joined(step.operation, step.argument, ":");
  }
  return text;
}

std::string chunk_text(const Sample& sample, ChunkSource source, std::int64_t window) {
  std::string text = sample.chunk_override;
  if (text.empty()) text = whole_chunk(sample, source);
  if (window > 0) text.resize(end_of_characters(text, window));
  return text;
}

}  // namespace afterimage
