// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

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

  [[nodiscard]] std::span<const std::byte> message() const { return message_; }

 private:
  void append_length(std::uint64_t length);
  void append(std::string_view text);
  void field(char type, std::string_view name, std::uint64_t value_length);

  std::vector<std::byte> message_;
};

}  // namespace afterimage
