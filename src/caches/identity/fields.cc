// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/identity/fields.h"

#include <algorithm>
#include <array>
#include <bit>

#include "afterimage/result.h"

namespace afterimage {

FieldWriter::FieldWriter(std::string_view domain) {
  message_.reserve(1024);  // longer than most messages
  field('D', "", domain.size());
  message_.append(domain);
}

FieldWriter& FieldWriter::text(std::string_view name, std::string_view value) {
  field('T', name, value.size());
  message_.append(value);
  return *this;
}

FieldWriter& FieldWriter::number(std::string_view name, std::uint64_t value) {
  field('N', name, sizeof value);
  append_length(value);
  return *this;
}

FieldWriter& FieldWriter::bytes(std::string_view name, std::span<const std::byte> value) {
  field('B', name, value.size());
  message_.append(reinterpret_cast<const char*>(value.data()), value.size());
  return *this;
}

FieldWriter& FieldWriter::texts(std::string_view name,
                                const std::map<std::string, std::string>& values) {
  field('M', name, values.size());
  for (const auto& [key, value] : values) text(key, value);
  return *this;
}

FieldWriter& FieldWriter::sorted_texts(std::string_view name, std::span<const TextField> values) {
  AFI_CHECK(std::ranges::is_sorted(values, {}, &TextField::first));
  field('M', name, values.size());
  for (const auto& [key, value] : values) text(key, value);
  return *this;
}

void FieldWriter::append_length(std::uint64_t length) {
  if constexpr (std::endian::native == std::endian::big) length = std::byteswap(length);
  const auto little_endian = std::bit_cast<std::array<char, sizeof length>>(length);
  message_.append(little_endian.data(), little_endian.size());
}

void FieldWriter::field(char type, std::string_view name, std::uint64_t value_length) {
  message_.push_back(type);
  append_length(name.size());
  message_.append(name);
  append_length(value_length);
}

}  // namespace afterimage
