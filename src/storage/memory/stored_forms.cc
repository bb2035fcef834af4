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

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::unexpected<Error> invalid_specs(std::string what) {
  return fail(ErrorCode::kCorruption, std::move(what));
}

}  // namespace

void write_forms(std::span<const TensorSpec> forms, std::span<std::byte> to) {
  for (const TensorSpec& form : forms) {
    const std::array<std::uint8_t, kWord> head{static_cast<std::uint8_t>(form.dtype),
                                               static_cast<std::uint8_t>(form.shape.rank())};
    std::memcpy(to.data(), head.data(), kWord);
    to = to.subspan(kWord);
    for (const std::uint64_t extent : form.shape.extents()) {
      std::memcpy(to.data(), &extent, kWord);
      to = to.subspan(kWord);
    }
  }
}

Result<std::vector<TensorSpec>> read_forms(std::span<const std::byte> bytes, std::size_t count) {
  std::vector<TensorSpec> forms;
  for (std::size_t i = 0; i < count; ++i) {
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
    forms.push_back({.dtype = static_cast<DType>(dtype), .shape = shape});
  }
  return forms;
}

Result<EntryClass> stored_entry_class(std::uint8_t value) {
  if (value == 0 || value > static_cast<std::uint8_t>(kLastEntryClass)) {
    return invalid_specs("an unknown entry class " + std::to_string(value));
  }
  return static_cast<EntryClass>(value);
}

}  // namespace afterimage
