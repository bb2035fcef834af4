// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similar_page.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "caches/identity/field_reader.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are written as they lie");
constexpr std::string_view kPage = "afterimage/similar-questions/1";
constexpr std::string_view kEvidence = "afterimage/similarity-evidence/2";
constexpr std::uint64_t kMostCount = std::numeric_limits<std::uint32_t>::max();

std::unexpected<Error> not_valid(std::span<const std::byte> bytes, const char* what) {
  return fail(ErrorCode::kCorruption,
              std::to_string(bytes.size()) + " bytes are not " + std::string(what));
}

/// Only the kinds for which there is evidence.
void write_table(FieldWriter& fields, const EvidenceTable& table) {
  const auto cells = table.cells();
  fields.number("kinds", static_cast<std::uint64_t>(std::ranges::count_if(
                             cells, [](const Evidence& cell) { return cell.seen() > 0; })));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].seen() == 0) continue;
    fields.number("kind", i).number("right", cells[i].right).number("wrong", cells[i].wrong);
  }
}

EvidenceTable read_table(FieldReader& fields) {
  EvidenceTable table;
  std::size_t least = 0;  // one way to write a table: kinds rise, none is empty
  for (auto kinds = fields.number("kinds", EvidenceTable::kCells); kinds > 0; --kinds) {
    const auto kind = fields.number("kind", EvidenceTable::kCells - 1);
    const Evidence found{.right = static_cast<std::uint32_t>(fields.number("right", kMostCount)),
                         .wrong = static_cast<std::uint32_t>(fields.number("wrong", kMostCount))};
    if (kind < least || found.seen() == 0) fields.ruin();
    if (!fields.is_whole()) break;
    table.add(kind, found);
    least = kind + 1;
  }
  return table;
}

/// One finite vector of length 1 or 0 (check_vector() is the caller's: it knows the dimensions).
Vector read_vector(FieldReader& fields) {
  const std::string_view bytes = fields.value('B', "vector");
  if (bytes.size() % sizeof(float) != 0) fields.ruin();
  Vector vector(fields.is_whole() ? bytes.size() / sizeof(float) : 0);
  if (!vector.empty()) std::memcpy(vector.data(), bytes.data(), vector.size() * sizeof(float));
  if (!std::ranges::all_of(vector, [](float x) { return std::isfinite(x); })) fields.ruin();
  return vector;
}

}  // namespace

std::vector<std::byte> to_bytes(const SimilarPage& page) {
  FieldWriter fields(kPage);
  fields.number("layers", page.layers.size());
  for (const std::string& layer : page.layers) fields.text("layer", layer);
  fields.number("epoch", page.epoch).number("questions", page.candidates.size());
  for (const SimilarCandidate& candidate : page.candidates) {
    fields.text("question", candidate.question);
    for (const Vector& vector : candidate.vectors) {
      fields.bytes("vector", std::as_bytes(std::span(vector)));
    }
    write_table(fields, candidate.evidence);
  }
  return {fields.message().begin(), fields.message().end()};
}

Result<SimilarPage> similar_page_from(std::span<const std::byte> bytes) {
  FieldReader fields(bytes);
  fields.domain(kPage);
  SimilarPage page;
  for (auto layers = fields.number("layers"); layers > 0 && fields.is_whole(); --layers) {
    page.layers.push_back(fields.text("layer"));
  }
  page.epoch = fields.number("epoch");
  for (auto questions = fields.number("questions"); questions > 0 && fields.is_whole();
       --questions) {
    SimilarCandidate& candidate = page.candidates.emplace_back();
    candidate.question = fields.text("question");
    for (std::size_t layer = 0; layer < page.layers.size() && fields.is_whole(); ++layer) {
      candidate.vectors.push_back(read_vector(fields));
    }
    candidate.evidence = read_table(fields);
  }
  if (!fields.is_done()) return not_valid(bytes, "a page of similar questions");
  return page;
}

std::vector<std::byte> to_bytes(const SharedEvidence& evidence) {
  FieldWriter fields(kEvidence);
  fields.number("epoch", evidence.epoch);
  write_table(fields, evidence.table);
  std::vector<std::byte> bytes(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(fields.message());
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

Result<SharedEvidence> shared_evidence_from(std::span<const std::byte> bytes) {
  if (bytes.size() < kDigestBytes) return not_valid(bytes, "evidence of similarity");
  const auto message = bytes.first(bytes.size() - kDigestBytes);
  FieldReader fields(message);
  fields.domain(kEvidence);
  SharedEvidence evidence{.epoch = fields.number("epoch"), .table = {}};
  evidence.table = read_table(fields);
  if (!fields.is_done() || !std::ranges::equal(sha256(message), bytes.last(kDigestBytes))) {
    return not_valid(bytes, "evidence of similarity");
  }
  return evidence;
}

}  // namespace afterimage
