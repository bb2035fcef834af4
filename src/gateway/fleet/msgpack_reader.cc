// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/msgpack_reader.h"

namespace afterimage {

void MsgpackReader::fail() {
  broken_ = true;
  rest_ = {};
}

std::string_view MsgpackReader::take(std::size_t size) {
  if (size > rest_.size()) {
    fail();
    return {};
  }
  const auto taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

std::uint64_t MsgpackReader::number(unsigned width) {
  take(1);
  std::uint64_t value = 0;
  for (const char c : take(width)) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

MsgpackReader::Kind MsgpackReader::peek() const {
  if (rest_.empty()) return Kind::kNone;
  const unsigned h = head();
  if (h <= 0x7F || h >= 0xE0) return Kind::kInteger;
  if (h <= 0x8F || h == 0xDE || h == 0xDF) return Kind::kMap;
  if (h <= 0x9F || h == 0xDC || h == 0xDD) return Kind::kArray;
  if (h <= 0xBF || (h >= 0xD9 && h <= 0xDB)) return Kind::kText;
  if (h == 0xC0) return Kind::kNil;
  if (h == 0xC2 || h == 0xC3) return Kind::kBool;
  if (h >= 0xC4 && h <= 0xC6) return Kind::kBytes;
  if (h == 0xCA || h == 0xCB) return Kind::kFloat;
  if (h >= 0xCC && h <= 0xD3) return Kind::kInteger;
  return Kind::kOther;
}

std::optional<std::size_t> MsgpackReader::array() {
  if (peek() != Kind::kArray) return std::nullopt;
  const unsigned h = head();
  const std::uint64_t count = h == 0xDC ? number(2) : h == 0xDD ? number(4) : (take(1), h & 0x0FU);
  // Each element has at least one byte.
  if (count > rest_.size()) fail();
  if (broken_) return std::nullopt;
  return count;
}

std::optional<std::size_t> MsgpackReader::map() {
  if (peek() != Kind::kMap) return std::nullopt;
  const unsigned h = head();
  const std::uint64_t count = h == 0xDE ? number(2) : h == 0xDF ? number(4) : (take(1), h & 0x0FU);
  if (count > rest_.size() / 2) fail();
  if (broken_) return std::nullopt;
  return count;
}

std::optional<std::uint64_t> MsgpackReader::integer() {
  if (peek() != Kind::kInteger) return std::nullopt;
  const unsigned h = head();
  std::uint64_t value = 0;
  if (h <= 0x7F) {
    take(1);
    value = h;
  } else if (h >= 0xE0) {
    take(1);
    value = static_cast<std::uint64_t>(static_cast<std::int64_t>(h) - 256);
  } else {
    const unsigned width = 1U << ((h - 0xCCU) & 3U);
    value = number(width);
    if (h >= 0xD0 && width < 8 && (value >> (8 * width - 1)) != 0) {
      value |= ~std::uint64_t{0} << (8 * width);  // the sign
    }
  }
  if (broken_) return std::nullopt;
  return value;
}

std::optional<std::string_view> MsgpackReader::text() {
  const Kind kind = peek();
  if (kind != Kind::kText && kind != Kind::kBytes) return std::nullopt;
  const unsigned h = head();
  std::uint64_t size = 0;
  if (h <= 0xBF) {
    take(1);
    size = h & 0x1FU;
  } else {
    size = number(1U << (kind == Kind::kText ? h - 0xD9U : h - 0xC4U));
  }
  const std::string_view value = take(size);
  if (broken_) return std::nullopt;
  return value;
}

void MsgpackReader::skip() {
  // Not recursive: depth is the sender's choice.
  for (std::size_t left = 1; left > 0 && !broken_; --left) {
    const unsigned h = head();
    switch (peek()) {
      case Kind::kNone:
        fail();
        break;
      case Kind::kArray:
        left += array().value_or(0);
        break;
      case Kind::kMap:
        left += 2 * map().value_or(0);
        break;
      case Kind::kInteger:
        integer();
        break;
      case Kind::kText:
      case Kind::kBytes:
        text();
        break;
      case Kind::kNil:
      case Kind::kBool:
        take(1);
        break;
      case Kind::kFloat:
        number(h == 0xCA ? 4 : 8);
        break;
      case Kind::kOther:
        if (h == 0xC1) {
          fail();
        } else if (h <= 0xC9) {  // an extension with its size
          const std::uint64_t size = number(1U << (h - 0xC7U));
          take(1);
          take(size);
        } else {  // one of 1 to 16 bytes
          take(2 + (std::size_t{1} << (h - 0xD4U)));
        }
        break;
    }
  }
}

}  // namespace afterimage
