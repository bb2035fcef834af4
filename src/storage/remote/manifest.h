// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "storage/memory/checksum.h"

/// What stands on a server for an entry: names and bytes. Pure encoding and decoding, no I/O.
///
/// Errors   kCorruption: the bytes are not what their checksum says, or not what they claim to be.
///          Any bytes may be given.
/// Threads  Any.
/// Source   docs/formats/remote.md, to the byte.
namespace afterimage {

/// A random number of 128 bits that one write has, and no other: chunks of two writers never mix.
using WriteId = std::array<std::byte, 16>;

inline constexpr std::size_t kManifestFixed = 112;
inline constexpr Bytes kLargestChunk = 4_MiB;
inline constexpr std::size_t kMostChunks = 16384;
/// The longest manifest without a value.
inline constexpr std::size_t kLongestManifest =
    kManifestFixed + EntryMeta::kMaxFormBytes + kMostChunks * sizeof(Checksum);

/// How an entry is kept: small ones right behind their manifest, others in chunks that have names
/// of their own.
struct RemoteManifest {
  TierKey key;
  WriteId write{};
  EntryMeta meta;
  std::uint64_t value_bytes = 0;
  std::uint32_t chunk_bytes = 0;  // 0: the value follows the manifest
  std::vector<Checksum> sums;     // of each chunk; of the value, if it follows

  bool operator==(const RemoteManifest&) const = default;
  [[nodiscard]] bool follows() const { return chunk_bytes == 0; }
  [[nodiscard]] std::size_t chunks() const { return follows() ? 0 : sums.size(); }
  /// The part of the value that a chunk is.
  template <typename Byte>
  [[nodiscard]] std::span<Byte> chunk_of(std::span<Byte> value, std::size_t chunk) const {
    const std::size_t at = chunk * chunk_bytes;
    return value.subspan(at, std::min<std::size_t>(chunk_bytes, value.size() - at));
  }
};

/// How many chunks a value makes.
[[nodiscard]] std::uint64_t chunk_count(std::uint64_t value_bytes, Bytes chunk);

[[nodiscard]] std::vector<std::byte> encode_manifest(const RemoteManifest& manifest);
/// How long the manifest is whose first kManifestFixed bytes these are.
Result<std::size_t> manifest_bytes(std::span<const std::byte> fixed);
/// `bytes` are the manifest, and nothing behind it.
Result<RemoteManifest> decode_manifest(std::span<const std::byte> bytes);

/// "afi1:m:1:0123…": class and 64 hex digits.
[[nodiscard]] std::string manifest_name(const TierKey& key);
/// "afi1:c:0123…:7": the write and the number.
[[nodiscard]] std::string chunk_name(const WriteId& write, std::size_t chunk);
/// "afi1:t:1:0123…": whose turn it is to make the entry.
[[nodiscard]] std::string turn_name(const TierKey& key);

}  // namespace afterimage
