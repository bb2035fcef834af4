// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/shared_files/shared_file_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "afterimage/result.h"

namespace afterimage::shared_file {

namespace {

constexpr std::array<char, 8> kMagic = {'A', 'F', 'I', 'H', 'O', 'S', 'T', '3'};
constexpr std::size_t kChecked = 24;  // where the bytes begin that the checksum covers
constexpr std::size_t kAlignment = 64;

struct Lengths {
  std::uint32_t data_offset;
  std::uint32_t name;
  std::uint32_t dtype;
  std::uint32_t rank;
  double seconds;
};
constexpr std::size_t kFixed = kChecked + sizeof(Lengths);

Checksum checksum_of(std::span<const std::byte> head, const Checksum& of_data) {
  const std::array pieces = {head.subspan(kChecked), std::as_bytes(std::span(&of_data, 1))};
  return Checksum::of(pieces);
}

}  // namespace

std::vector<std::byte> head(std::string_view name, const SharedTensorForm& form,
                            std::span<const std::byte> data) {
  AFI_CHECK(name.size() <= kMostName && form.dtype.size() <= kMostDType &&
            form.shape.size() <= kMostRank);
  const std::size_t shape_bytes = form.shape.size() * sizeof(std::uint64_t);
  const std::size_t used = kFixed + shape_bytes + name.size() + form.dtype.size();
  const std::size_t offset = (used + kAlignment - 1) / kAlignment * kAlignment;
  const Lengths lengths = {.data_offset = static_cast<std::uint32_t>(offset),
                           .name = static_cast<std::uint32_t>(name.size()),
                           .dtype = static_cast<std::uint32_t>(form.dtype.size()),
                           .rank = static_cast<std::uint32_t>(form.shape.size()),
                           .seconds = form.seconds};
  std::vector<std::byte> bytes(offset);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kChecked, &lengths, sizeof(lengths));
  std::byte* at = bytes.data() + kFixed;
  at = std::ranges::copy(std::as_bytes(std::span(form.shape)), at).out;
  at = std::ranges::copy(std::as_bytes(std::span(name)), at).out;
  std::ranges::copy(std::as_bytes(std::span(form.dtype)), at);
  const Checksum sum = checksum_of(bytes, Checksum::of(data));
  std::memcpy(bytes.data() + kMagic.size(), &sum, sizeof(sum));
  return bytes;
}

bool is_intact(std::span<const std::byte> head, const Checksum& of_data) {
  Checksum stored;
  std::memcpy(&stored, head.data() + kMagic.size(), sizeof(stored));
  return checksum_of(head, of_data) == stored;
}

std::optional<Parsed> parse(std::span<const std::byte> whole, std::string_view name, bool verify) {
  if (whole.size() < kFixed || std::memcmp(whole.data(), kMagic.data(), kMagic.size()) != 0) {
    return std::nullopt;
  }
  Lengths lengths;
  std::memcpy(&lengths, whole.data() + kChecked, sizeof(lengths));
  if (lengths.name != name.size() || lengths.dtype > kMostDType || lengths.rank > kMostRank) {
    return std::nullopt;
  }
  const std::size_t shape_bytes = lengths.rank * sizeof(std::uint64_t);
  const std::size_t used = kFixed + shape_bytes + lengths.name + lengths.dtype;
  const std::size_t offset = lengths.data_offset;
  if (offset < used || offset > whole.size() || offset > kMostHead) return std::nullopt;
  if (verify && !is_intact(whole.first(offset), Checksum::of(whole.subspan(offset)))) {
    return std::nullopt;
  }
  const auto* text = reinterpret_cast<const char*>(whole.data() + kFixed + shape_bytes);
  if (std::string_view(text, lengths.name) != name) return std::nullopt;
  if (!std::isfinite(lengths.seconds) || lengths.seconds < 0) return std::nullopt;
  Parsed parsed = {.form = {.dtype = std::string(text + lengths.name, lengths.dtype),
                            .shape = std::vector<std::uint64_t>(lengths.rank),
                            .seconds = lengths.seconds},
                   .data_offset = offset};
  if (shape_bytes > 0) std::memcpy(parsed.form.shape.data(), whole.data() + kFixed, shape_bytes);
  return parsed;
}

}  // namespace afterimage::shared_file
