// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/manifest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "foundation/platform/fault_points.h"
#include "storage/memory/stored_forms.h"
#include "storage/redis/remote_options.h"

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored little-endian");

constexpr std::string_view kMagic = "AFIREMO1";
constexpr std::uint32_t kVersion = 1;

/// The fixed fields at the start of a manifest, as stored. Unnamed bytes are zero.
struct Fixed {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t size = 0;
  std::uint64_t sum = 0;  // of the whole manifest, with this field zero
  std::uint8_t entry_class = 0;
  std::array<std::uint8_t, 7> zero{};
  std::array<std::byte, kDigestBytes> key{};
  WriteId write{};
  std::uint64_t value_bytes = 0;
  std::int64_t cost_ns = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t sums = 0;
  std::uint32_t tensors = 0;
  std::uint32_t labels = 0;
};
static_assert(sizeof(Fixed) == kManifestFixed);
static_assert(sizeof(Checksum) == 16);
constexpr std::size_t kSumAt = 16;

std::unexpected<Error> bad_manifest(std::string what) {
  return fail(ErrorCode::kCorruption, "invalid remote manifest: " + std::move(what));
}

Result<Fixed> fixed_of(std::span<const std::byte> bytes) {
  Fixed fixed;
  if (bytes.size() < kManifestFixed) return bad_manifest("too short");
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (!AFI_GUARD("remote.manifest.magic", std::ranges::equal(fixed.magic, kMagic))) {
    return bad_manifest("wrong magic bytes");
  }
  if (!AFI_GUARD("remote.manifest.version", fixed.version == kVersion)) {
    return bad_manifest("unknown version " + std::to_string(fixed.version));
  }
  if (fixed.size < kManifestFixed || fixed.size > kLongestManifest) {
    return bad_manifest("a length of " + std::to_string(fixed.size) + " bytes is out of range");
  }
  return fixed;
}

/// Whether the number of checksums agrees with the value and chunk sizes.
bool sums_fit(const Fixed& fixed) {
  if (fixed.chunk_bytes == 0) return fixed.sums == 1;
  return fixed.chunk_bytes <= kLargestChunk.value() && fixed.sums <= kMostChunks &&
         fixed.value_bytes > 0 && fixed.value_bytes <= kMostChunks * kLargestChunk.value() &&
         chunk_count(fixed.value_bytes, Bytes(fixed.chunk_bytes)) == fixed.sums;
}

std::string named(std::string_view kind, const TierKey& key) {
  return std::string(kRemoteKeyPrefix) + std::string(kind) +
         std::to_string(static_cast<unsigned>(key.entry_class)) + ":" + to_hex(key.bytes);
}

}  // namespace

std::uint64_t chunk_count(std::uint64_t value_bytes, Bytes chunk) {
  return (value_bytes + chunk.value() - 1) / chunk.value();
}

std::vector<std::byte> encode_manifest(const RemoteManifest& manifest) {
  const std::size_t forms = manifest.meta.form_bytes();
  std::vector<std::byte> bytes(kManifestFixed + forms + manifest.sums.size() * sizeof(Checksum));
  Fixed fixed{.version = kVersion,
              .size = static_cast<std::uint32_t>(bytes.size()),
              .entry_class = static_cast<std::uint8_t>(manifest.key.entry_class),
              .key = manifest.key.bytes,
              .write = manifest.write,
              .value_bytes = manifest.value_bytes,
              .cost_ns = manifest.meta.cost.count(),
              .chunk_bytes = manifest.chunk_bytes,
              .sums = static_cast<std::uint32_t>(manifest.sums.size()),
              .tensors = static_cast<std::uint32_t>(manifest.meta.tensors.size()),
              .labels = static_cast<std::uint32_t>(manifest.meta.labels.size())};
  std::ranges::copy(kMagic, fixed.magic.begin());
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  write_forms(manifest.meta, std::span(bytes).subspan(kManifestFixed));
  std::ranges::copy(std::as_bytes(std::span(manifest.sums)),
                    bytes.begin() + static_cast<std::ptrdiff_t>(kManifestFixed + forms));
  const std::uint64_t sum = short_checksum(bytes);
  std::memcpy(bytes.data() + kSumAt, &sum, sizeof sum);
  return bytes;
}

Result<std::size_t> manifest_bytes(std::span<const std::byte> fixed) {
  AFI_TRY(const Fixed known, fixed_of(fixed));
  return known.size;
}

Result<RemoteManifest> decode_manifest(std::span<const std::byte> bytes) {
  AFI_TRY(const Fixed fixed, fixed_of(bytes));
  if (fixed.size != bytes.size()) return bad_manifest("truncated, or longer than its length field");
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  std::fill_n(copy.begin() + kSumAt, sizeof fixed.sum, std::byte{0});
  if (!AFI_GUARD("remote.manifest.checksum", short_checksum(copy) == fixed.sum)) {
    return bad_manifest("checksum mismatch");
  }
  if (!AFI_GUARD("remote.manifest.sums", sums_fit(fixed))) {
    return bad_manifest("its sizes contradict each other");
  }
  RemoteManifest manifest{.write = fixed.write,
                          .value_bytes = fixed.value_bytes,
                          .chunk_bytes = fixed.chunk_bytes,
                          .sums = std::vector<Checksum>(fixed.sums)};
  AFI_TRY(manifest.key.entry_class, stored_entry_class(fixed.entry_class));
  manifest.key.bytes = fixed.key;
  manifest.meta.cost = Duration(fixed.cost_ns);
  const std::size_t sums = manifest.sums.size() * sizeof(Checksum);
  const auto rest = bytes.subspan(kManifestFixed);
  if (rest.size() < sums) return bad_manifest("truncated checksums");
  const auto forms = rest.first(rest.size() - sums);
  AFI_TRY_VOID(read_forms(forms, fixed.tensors, fixed.labels, manifest.meta));
  if (!AFI_GUARD("remote.manifest.forms", manifest.meta.form_bytes() == forms.size())) {
    return bad_manifest("the tensor forms have another size");
  }
  std::memcpy(manifest.sums.data(), rest.last(sums).data(), sums);
  return manifest;
}

Result<ManifestLabels> manifest_labels(std::span<const std::byte> bytes) {
  AFI_TRY(const Fixed fixed, fixed_of(bytes));
  const std::size_t sums = fixed.sums * sizeof(Checksum);
  if (sums > fixed.size - kManifestFixed) return bad_manifest("its sizes contradict each other");
  ManifestLabels found{.needed = fixed.size - sums, .labels = std::nullopt};
  if (bytes.size() < found.needed) return found;
  EntryMeta meta;
  AFI_TRY_VOID(read_forms(bytes.first(found.needed).subspan(kManifestFixed), fixed.tensors,
                          fixed.labels, meta));
  found.labels = std::move(meta.labels);
  return found;
}

std::optional<TierKey> key_of_manifest(std::string_view name) {
  const std::string start = std::string(kRemoteKeyPrefix) + "m:";
  if (!name.starts_with(start) || name.size() != start.size() + 2 + 2 * kDigestBytes) {
    return std::nullopt;
  }
  name.remove_prefix(start.size());
  const auto entry_class = stored_entry_class(static_cast<std::uint8_t>(name[0] - '0'));
  const auto digest = ContentDigest::from_hex(name.substr(2));
  if (name[1] != ':' || !entry_class.has_value() || !digest.has_value()) return std::nullopt;
  return TierKey::of(*entry_class, *digest);
}

std::string manifest_name(const TierKey& key) { return named("m:", key); }
std::string lease_name(const TierKey& key, const TierKey& entry) {
  return named("t:", key) + "{" + manifest_name(entry) + "}";
}

std::string chunk_name(const WriteId& write, std::size_t chunk) {
  std::array<std::byte, kDigestBytes> wide{};
  std::ranges::copy(write, wide.begin());
  return std::string(kRemoteKeyPrefix) + "c:" + to_hex(wide).substr(0, 2 * write.size()) + ":" +
         std::to_string(chunk);
}

}  // namespace afterimage
