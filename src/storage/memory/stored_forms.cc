// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/stored_forms.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little, "extents are stored little-endian");
static_assert(sizeof(EntryLabel) == 8);

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::unexpected<Error> invalid_specs(std::string what) {
  return fail(ErrorCode::kCorruption, std::move(what));
}

}  // namespace

void write_forms(const EntryMeta& meta, std::span<std::byte> to) {
  for (const TensorSpec& form : meta.tensors) {
    const std::array<std::uint8_t, kWord> head{static_cast<std::uint8_t>(form.dtype),
                                               static_cast<std::uint8_t>(form.shape.rank())};
    std::memcpy(to.data(), head.data(), kWord);
    to = to.subspan(kWord);
    for (const std::uint64_t extent : form.shape.extents()) {
      std::memcpy(to.data(), &extent, kWord);
      to = to.subspan(kWord);
    }
  }
  if (!meta.labels.empty()) {
    std::memcpy(to.data(), meta.labels.data(), meta.labels.size() * sizeof(EntryLabel));
  }
}

Result<void> read_forms(std::span<const std::byte> bytes, std::size_t tensors, std::size_t labels,
                        EntryMeta& meta) {
  meta.tensors.clear();
  for (std::size_t i = 0; i < tensors; ++i) {
    if (bytes.size() < kWord) return invalid_specs("tensor specs exceed the header");
    const auto dtype = std::to_integer<std::uint8_t>(bytes[0]);
    const auto rank = std::to_integer<std::uint8_t>(bytes[1]);
    bytes = bytes.subspan(kWord);
    if (dtype == 0 || dtype > static_cast<std::uint8_t>(DType::kI64))
      return invalid_specs("an unknown dtype");
    if (rank > Shape::kMaxRank || bytes.size() < kWord * rank)
      return invalid_specs("an invalid tensor rank");
    std::array<std::uint64_t, Shape::kMaxRank> extents{};
    if (rank > 0) std::memcpy(extents.data(), bytes.data(), kWord * rank);
    bytes = bytes.subspan(kWord * rank);
    AFI_TRY(const Shape shape, Shape::of(std::span(extents).first(rank)));
    meta.tensors.push_back({.dtype = static_cast<DType>(dtype), .shape = shape});
  }
  if (labels > bytes.size() / sizeof(EntryLabel)) return invalid_specs("labels exceed the header");
  meta.labels.resize(labels);
  if (labels > 0) std::memcpy(meta.labels.data(), bytes.data(), labels * sizeof(EntryLabel));
  return {};
}

Result<EntryClass> stored_entry_class(std::uint8_t value) {
  if (value == 0 || value > static_cast<std::uint8_t>(kLastEntryClass)) {
    return invalid_specs("an unknown entry class " + std::to_string(value));
  }
  return static_cast<EntryClass>(value);
}

}  // namespace afterimage
