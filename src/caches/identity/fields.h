// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace afterimage {

/// A name and its value.
using TextField = std::pair<std::string_view, std::string_view>;

/// Builds the message that a key is derived from. Different inputs never produce the same message.
///
/// Shape    "<domain>" as text, then each field as: type (1 byte), length of the name (8 bytes,
///          little endian), name, length of the value (8 bytes), value. A map is its count, then
///          name and value of each entry in order of name.
/// Threads  Not thread-safe.
/// Source   docs/formats/keys.md.
class FieldWriter {
 public:
  /// `domain` names the kind of message and the version of its field list.
  explicit FieldWriter(std::string_view domain);

  FieldWriter& text(std::string_view name, std::string_view value);
  FieldWriter& number(std::string_view name, std::uint64_t value);
  FieldWriter& bytes(std::string_view name, std::span<const std::byte> value);
  FieldWriter& texts(std::string_view name, const std::map<std::string, std::string>& values);
  /// The same map. Requires `values` in order of name, each name once.
  FieldWriter& sorted_texts(std::string_view name, std::span<const TextField> values);

  [[nodiscard]] std::span<const std::byte> message() const {
    return std::as_bytes(std::span(message_));
  }

 private:
  void append_length(std::uint64_t length);
  void field(char type, std::string_view name, std::uint64_t value_length);

  std::string message_;
};

}  // namespace afterimage
