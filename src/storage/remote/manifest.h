// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "storage/memory/checksum.h"

/// The manifest of a remote entry: key names on the server, encoding and decoding. No I/O.
///
/// Errors   kCorruption: the checksum does not match, or the fields contradict each other. Any
///          bytes may be given.
/// Threads  Any.
/// Source   docs/formats/remote.md, to the byte.
namespace afterimage {

/// 128 random bits, unique to one write, so that chunks of two writers never mix.
using WriteId = std::array<std::byte, 16>;

inline constexpr std::size_t kManifestFixed = 112;
inline constexpr Bytes kLargestChunk = 4_MiB;
inline constexpr std::size_t kMostChunks = 16384;
/// The longest manifest, without an inline value.
inline constexpr std::size_t kLongestManifest =
    kManifestFixed + EntryMeta::kMaxFormBytes + kMostChunks * sizeof(Checksum);

/// How an entry is stored: a small value inline behind the manifest, a larger one in chunks under
/// keys of their own.
struct RemoteManifest {
  TierKey key;
  WriteId write{};
  EntryMeta meta;
  std::uint64_t value_bytes = 0;
  std::uint32_t chunk_bytes = 0;  // 0: the value is inline, right after the manifest
  std::vector<Checksum> sums;     // one per chunk; one of the whole value if it is inline

  bool operator==(const RemoteManifest&) const = default;
  [[nodiscard]] bool value_is_inline() const { return chunk_bytes == 0; }
  [[nodiscard]] std::size_t chunks() const { return value_is_inline() ? 0 : sums.size(); }
  /// The part of `value` that belongs to a chunk.
  template <typename Byte>
  [[nodiscard]] std::span<Byte> chunk_of(std::span<Byte> value, std::size_t chunk) const {
    const std::size_t at = chunk * chunk_bytes;
    return value.subspan(at, std::min<std::size_t>(chunk_bytes, value.size() - at));
  }
};

/// Number of chunks of a value.
[[nodiscard]] std::uint64_t chunk_count(std::uint64_t value_bytes, Bytes chunk);

[[nodiscard]] std::vector<std::byte> encode_manifest(const RemoteManifest& manifest);
/// Length of the manifest whose first kManifestFixed bytes are `fixed`.
Result<std::size_t> manifest_bytes(std::span<const std::byte> fixed);
/// `bytes` is exactly one manifest, without an inline value.
Result<RemoteManifest> decode_manifest(std::span<const std::byte> bytes);

/// What a manifest says an entry was made from. `bytes` is its beginning.
struct ManifestLabels {
  std::size_t needed = 0;                         // bytes of the beginning, at least kManifestFixed
  std::optional<std::vector<EntryLabel>> labels;  // nullopt: `bytes` has fewer than `needed`
};
/// Does not check the manifest's checksum, which needs all its bytes.
Result<ManifestLabels> manifest_labels(std::span<const std::byte> bytes);

/// The names of all manifests, as a pattern of the servers.
inline constexpr std::string_view kManifestPattern = "afi1:m:*";
/// Key of a manifest, "afi1:m:1:0123…": entry class and 64 hex digits.
[[nodiscard]] std::string manifest_name(const TierKey& key);
/// nullopt: it is no name of a manifest.
[[nodiscard]] std::optional<TierKey> key_of_manifest(std::string_view name);
/// Key of a chunk, "afi1:c:0123…:7": write id and chunk number.
[[nodiscard]] std::string chunk_name(const WriteId& write, std::size_t chunk);
/// Key of the lease `key` to make `entry`, "afi1:t:1:0123…{…}": its hash tag is the name of the entry's
/// manifest, so that both have one slot.
[[nodiscard]] std::string lease_name(const TierKey& key, const TierKey& entry);

}  // namespace afterimage
