// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace afterimage {

/// Reads a message that a FieldWriter wrote. The first mismatch marks the whole message invalid,
/// and later reads return empty values: check is_done() before using any of them.
///
/// Threads  Not thread-safe.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> message) : rest_(message) {}

  void domain(std::string_view expected) {
    if (value('D', "") != expected) ruin();
  }
  /// The view is valid while the message is.
  std::string_view value(char type, std::string_view name) {
    if (take(1) != std::string_view(&type, 1) || take(length()) != name) ruin();
    return take(length());
  }
  std::string text(std::string_view name) { return std::string(value('T', name)); }
  std::uint64_t number(std::string_view name, std::uint64_t most = UINT64_MAX) {
    const std::string_view bytes = value('N', name);
    const std::uint64_t number = number_in(bytes);
    if (bytes.size() != sizeof number || number > most) ruin();
    return is_whole() ? number : 0;
  }
  template <std::size_t kSize>
  std::array<std::byte, kSize> bytes(std::string_view name) {
    const std::string_view found = value('B', name);
    std::array<std::byte, kSize> bytes{};
    if (found.size() != kSize) ruin();
    if (is_whole()) std::ranges::copy(std::as_bytes(std::span(found)), bytes.begin());
    return bytes;
  }
  void ruin() {
    whole_ = false;
    rest_ = {};
  }
  /// No mismatch so far.
  [[nodiscard]] bool is_whole() const { return whole_; }
  /// The whole message was read without a mismatch.
  [[nodiscard]] bool is_done() const { return whole_ && rest_.empty(); }

 private:
  static std::uint64_t number_in(std::string_view bytes) {
    std::uint64_t number = 0;
    if (bytes.size() == sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
    if constexpr (std::endian::native == std::endian::big) number = std::byteswap(number);
    return number;
  }
  std::uint64_t length() { return number_in(take(sizeof(std::uint64_t))); }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) ruin();
    const auto taken = rest_.first(std::min<std::uint64_t>(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  std::span<const std::byte> rest_;
  bool whole_ = true;
};

}  // namespace afterimage
