// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace afterimage {

/// Reads MessagePack from bytes of other processes without building a tree: whatever a size says,
/// nothing is allocated for it. The first byte that does not fit marks the whole as broken, and later
/// reads return nothing.
///
/// Threads  Not thread-safe.
class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  enum class Kind : unsigned char {
    kNil,
    kBool,
    kInteger,
    kFloat,
    kText,
    kBytes,
    kArray,
    kMap,
    kOther,
    kNone,  // the end, or broken
  };
  /// Of the next value.
  [[nodiscard]] Kind peek() const;
  /// The number of elements that follow; of a map, the number of pairs. nullopt: the next value is
  /// another kind (which stays), or broken.
  std::optional<std::size_t> array();
  std::optional<std::size_t> map();
  /// Negative numbers as two's complement.
  std::optional<std::uint64_t> integer();
  /// Of a text or of bytes; valid while the message is.
  std::optional<std::string_view> text();
  /// The next value with everything in it, however deep.
  void skip();
  /// Marks the whole as broken: the caller found what it does not take.
  void fail();
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  [[nodiscard]] unsigned head() const {
    return rest_.empty() ? 0xC1U : std::to_integer<unsigned>(rest_.front());
  }
  /// `width` bytes after the head, big-endian; consumes both.
  std::uint64_t number(unsigned width);
  std::string_view take(std::size_t size);

  std::span<const std::byte> rest_;
  bool broken_ = false;
};

}  // namespace afterimage
