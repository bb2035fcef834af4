// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_entry.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "foundation/platform/fault_points.h"
#include "storage/memory/byte_pieces.h"

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are little-endian");

constexpr std::string_view kMagic = "AFISEAL1";
constexpr std::size_t kIdAt = 8;
constexpr std::size_t kNonceAt = 16;
constexpr std::size_t kNonce = 12;
constexpr std::size_t kMetaSizeAt = 28;  // size of the metadata block
constexpr std::size_t kTagAt = 32;
constexpr std::size_t kTag = 16;
constexpr std::size_t kMetaFixed = 16;
/// OpenSSL takes less than 2 GiB per call.
constexpr std::size_t kAtOnce = std::size_t{1} << 30U;

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

const unsigned char* in(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* out(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

/// The derived key of one entry, wiped when destroyed.
struct EntrySecret {
  EntrySecret() = default;
  ~EntrySecret() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
  EntrySecret(const EntrySecret&) = delete;
  EntrySecret& operator=(const EntrySecret&) = delete;
  Secret bytes{};
};

/// Without the labels, which the tier that stores the entry needs to read.
std::size_t meta_block_size(const EntryMeta& meta) {
  const std::size_t specs = meta.form_bytes() - meta.labels.size() * sizeof(EntryLabel);
  return (kMetaFixed + specs + 63) / 64 * 64;
}

template <typename Number>
void append(std::vector<std::byte>& to, Number value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> meta_block_of(const EntryMeta& meta) {
  std::vector<std::byte> meta_block;
  meta_block.reserve(meta_block_size(meta));
  append(meta_block, static_cast<std::int64_t>(meta.cost.count()));
  append(meta_block, static_cast<std::uint64_t>(meta.tensors.size()));
  for (const TensorSpec& form : meta.tensors) {
    append(meta_block, static_cast<std::uint32_t>(form.dtype));
    append(meta_block, static_cast<std::uint32_t>(form.shape.rank()));
    for (const std::uint64_t extent : form.shape.extents()) append(meta_block, extent);
  }
  meta_block.resize(meta_block_size(meta));
  return meta_block;
}

template <typename Number>
std::optional<Number> take(std::span<const std::byte>& from) {
  Number value{};
  if (from.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return value;
}

// The bytes are authenticated, but parsed as carefully as any outside input.
std::optional<EntryMeta> meta_from(std::span<const std::byte> meta_block) {
  EntryMeta meta;
  const auto cost = take<std::int64_t>(meta_block);
  const auto tensors = take<std::uint64_t>(meta_block);
  if (!cost.has_value() || !tensors.has_value()) return std::nullopt;
  meta.cost = Duration(*cost);
  for (std::uint64_t left = *tensors; left > 0; --left) {
    const auto dtype = take<std::uint32_t>(meta_block);
    const auto rank = take<std::uint32_t>(meta_block);
    if (!dtype.has_value() || !rank.has_value() || *dtype == 0 ||
        *dtype > static_cast<std::uint32_t>(DType::kI64) || *rank > Shape::kMaxRank) {
      return std::nullopt;
    }
    std::array<std::uint64_t, Shape::kMaxRank> extents{};
    for (std::uint32_t axis = 0; axis < *rank; ++axis) {
      const auto extent = take<std::uint64_t>(meta_block);
      if (!extent.has_value()) return std::nullopt;
      extents.at(axis) = *extent;
    }
    const auto shape = Shape::of(std::span(extents).first(*rank));
    if (!shape.has_value()) return std::nullopt;
    meta.tensors.push_back({.dtype = static_cast<DType>(*dtype), .shape = *shape});
  }
  return meta;
}

/// Adds the authenticated but unencrypted data: the entry's key, and the header without the tag.
void authenticate(EVP_CIPHER_CTX* context, const TierKey& key, std::span<const std::byte> header,
                  int (*update)(EVP_CIPHER_CTX*, unsigned char*, int*, const unsigned char*, int)) {
  std::array<std::byte, 1 + kDigestBytes + kTagAt> data{};
  if (AFI_STEP("seal.name")) {
    data[0] = static_cast<std::byte>(key.entry_class);
    std::ranges::copy(key.bytes, data.begin() + 1);
  }
  std::ranges::copy(header.first(kTagAt), data.begin() + 1 + kDigestBytes);
  int done = 0;
  AFI_CHECK(update(context, nullptr, &done, in(data.data()), static_cast<int>(data.size())) == 1);
}

void encrypt(EVP_CIPHER_CTX* context, std::span<const std::byte> from, std::byte* to) {
  while (!from.empty()) {
    const auto part = from.first(std::min(from.size(), kAtOnce));
    int done = 0;
    AFI_CHECK(EVP_EncryptUpdate(context, out(to), &done, in(part.data()),
                                static_cast<int>(part.size())) == 1);
    AFI_CHECK(static_cast<std::size_t>(done) == part.size());
    from = from.subspan(part.size());
    to += part.size();
  }
}

}  // namespace

std::size_t encrypted_size(const EntryMeta& meta, std::size_t bytes) {
  return kEncryptionHeader + meta_block_size(meta) + bytes;
}

Result<void> encrypt_entry(const EncryptionKeys& keys, const TierKey& key, const EntryMeta& meta,
                           BytePieces bytes, std::span<std::byte> into) {
  AFI_CHECK(into.size() == encrypted_size(meta, size_of(bytes)));
  EntrySecret secret;
  AFI_CHECK(keys.entry_key(keys.id(), key, secret.bytes));
  AFI_TRY(const auto random, random_secret());
  const std::vector<std::byte> meta_block = meta_block_of(meta);
  const std::span<std::byte> header = into.first(kEncryptionHeader);
  std::ranges::fill(header, std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(kMagic)), header.begin());
  std::ranges::copy(keys.id(), header.begin() + kIdAt);
  std::ranges::copy(std::span(random).first<kNonce>(), header.begin() + kNonceAt);
  const auto meta_size = static_cast<std::uint32_t>(meta_block.size());
  std::memcpy(header.data() + kMetaSizeAt, &meta_size, sizeof meta_size);

  const Context context(EVP_CIPHER_CTX_new());
  AFI_CHECK(context != nullptr);
  AFI_CHECK(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, in(secret.bytes.data()),
                               in(header.data() + kNonceAt)) == 1);
  authenticate(context.get(), key, header, EVP_EncryptUpdate);
  encrypt(context.get(), meta_block, into.data() + kEncryptionHeader);
  std::byte* to = into.data() + kEncryptionHeader + meta_block.size();
  for (const auto piece : bytes) {
    encrypt(context.get(), piece, to);
    to += piece.size();
  }
  int done = 0;
  AFI_CHECK(EVP_EncryptFinal_ex(context.get(), nullptr, &done) == 1 && done == 0);
  AFI_CHECK(
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTag, header.data() + kTagAt) == 1);
  return {};
}

DecryptedEntry decrypt_entry(const EncryptionKeys& keys, const TierKey& key,
                             std::span<const std::byte> encrypted, std::span<std::byte> into) {
  if (encrypted.size() < kEncryptionHeader ||
      std::memcmp(encrypted.data(), kMagic.data(), kMagic.size()) != 0) {
    return {.state = DecryptStatus::kNotEncrypted};
  }
  const auto header = encrypted.first(kEncryptionHeader);
  auto body = encrypted.subspan(kEncryptionHeader);
  AFI_CHECK(into.size() == body.size());
  EncryptionKeyId id{};
  std::copy_n(header.begin() + kIdAt, id.size(), id.begin());
  EntrySecret secret;
  const bool known = keys.entry_key(id, key, secret.bytes);
  if (!AFI_GUARD("seal.key", known)) {
    return {.state = DecryptStatus::kOtherKey};
  }
  const auto zeros = header.subspan(kTagAt + kTag);
  if (!AFI_GUARD("seal.zeros",
                 std::ranges::all_of(zeros, [](std::byte b) { return b == std::byte{0}; }))) {
    return {};
  }

  const Context context(EVP_CIPHER_CTX_new());
  AFI_CHECK(context != nullptr);
  AFI_CHECK(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, in(secret.bytes.data()),
                               in(header.data() + kNonceAt)) == 1);
  authenticate(context.get(), key, header, EVP_DecryptUpdate);
  std::byte* to = into.data();
  while (!body.empty()) {
    const auto part = body.first(std::min(body.size(), kAtOnce));
    int done = 0;
    AFI_CHECK(EVP_DecryptUpdate(context.get(), out(to), &done, in(part.data()),
                                static_cast<int>(part.size())) == 1);
    body = body.subspan(part.size());
    to += part.size();
  }
  std::array<std::byte, kTag> tag{};
  std::ranges::copy(header.subspan(kTagAt, kTag), tag.begin());
  AFI_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTag, tag.data()) == 1);
  std::array<unsigned char, 16> rest{};
  int done = 0;
  if (!AFI_GUARD("seal.tag", EVP_DecryptFinal_ex(context.get(), rest.data(), &done) == 1)) {
    return {};
  }

  std::uint32_t meta_size = 0;
  std::memcpy(&meta_size, header.data() + kMetaSizeAt, sizeof meta_size);
  if (meta_size > into.size() || meta_size % 64 != 0) return {};
  auto meta = meta_from(into.first(meta_size));
  if (!meta.has_value()) return {};
  return {.state = DecryptStatus::kOpened, .meta = *std::move(meta), .bytes_begin = meta_size};
}

}  // namespace afterimage
