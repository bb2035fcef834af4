// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/units.h"
#include "storage/memory/checksum.h"

namespace afterimage {

/// What a shared file says of its tensor.
struct SharedTensorForm {
  std::string dtype;  // the caller's word: engines know more types than DType
  std::vector<std::uint64_t> shape;
  double seconds = 0.0;  // that computing it took; 0: unknown
  bool operator==(const SharedTensorForm&) const = default;
};

/// The bytes of a shared file, in the byte order of its machine:
///
///     8  "AFIHOST3"
///    16  XXH3-128 of everything from offset 24 up to the data, and of the data's own XXH3-128
///     4  offset of the data, a multiple of 64
///     4  length of the name;  4  length of the dtype;  4  rank;  8  seconds (double);  8 × rank  shape
///        the name, the dtype, zeros, the data
///
/// Errors   A file that is damaged or is another's gives nullopt: a miss.
/// Threads  Any.
namespace shared_file {

inline constexpr std::size_t kMostName = 200;
inline constexpr std::size_t kMostDType = 64;
inline constexpr std::size_t kMostRank = 16;
inline constexpr std::size_t kMostHead = 1024;  // no head is longer

/// Everything before the data. Requires lengths within the limits above.
std::vector<std::byte> head(std::string_view name, const SharedTensorForm& form,
                            std::span<const std::byte> data);

struct Parsed {
  SharedTensorForm form;
  std::size_t data_offset;  // at most whole.size()
};
/// `verify`: compares the checksum, too, which reads the data. Without it a part of the file that
/// includes the head is enough.
std::optional<Parsed> parse(std::span<const std::byte> whole, std::string_view name, bool verify);
/// Whether the checksum in a parsed file's head is that of the head and of such data.
bool is_intact(std::span<const std::byte> head, const Checksum& of_data);

}  // namespace shared_file

}  // namespace afterimage
