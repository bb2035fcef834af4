// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/identity/fields.h"

#include <bit>

namespace afterimage {

FieldWriter::FieldWriter(std::string_view domain) {
  message_.reserve(256);  // longer than most messages
  field('D', "", domain.size());
  append(domain);
}

FieldWriter& FieldWriter::text(std::string_view name, std::string_view value) {
  field('T', name, value.size());
  append(value);
  return *this;
}

FieldWriter& FieldWriter::number(std::string_view name, std::uint64_t value) {
  field('N', name, sizeof value);
  append_length(value);
  return *this;
}

FieldWriter& FieldWriter::bytes(std::string_view name, std::span<const std::byte> value) {
  field('B', name, value.size());
  message_.insert(message_.end(), value.begin(), value.end());
  return *this;
}

FieldWriter& FieldWriter::texts(std::string_view name,
                                const std::map<std::string, std::string>& values) {
  field('M', name, values.size());
  for (const auto& [key, value] : values) text(key, value);
  return *this;
}

void FieldWriter::append_length(std::uint64_t length) {
  if constexpr (std::endian::native == std::endian::big) length = std::byteswap(length);
  const auto little_endian = std::as_bytes(std::span(&length, 1));
  message_.insert(message_.end(), little_endian.begin(), little_endian.end());
}

void FieldWriter::append(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  message_.insert(message_.end(), bytes.begin(), bytes.end());
}

void FieldWriter::field(char type, std::string_view name, std::uint64_t value_length) {
  message_.push_back(static_cast<std::byte>(type));
  append_length(name.size());
  append(name);
  append_length(value_length);
}

}  // namespace afterimage
