// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Numbers at addresses that are a multiple of nothing.
namespace afterimage {
namespace {

inline std::uint16_t u16(const std::byte* at) {
  std::uint16_t x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
}
inline std::int32_t i32(const std::byte* at) {
  std::int32_t x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
}

}  // namespace
}  // namespace afterimage
