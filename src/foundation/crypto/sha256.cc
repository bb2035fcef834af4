// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/crypto/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "afterimage/check.h"

namespace afterimage {
namespace {

// Fetched once: an implicit fetch takes longer than hashing a small buffer.
const EVP_MD* algorithm() {
  static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  AFI_CHECK(kSha256 != nullptr);
  return kSha256;
}

unsigned char* raw(std::array<std::byte, kDigestBytes>& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

std::array<std::byte, kDigestBytes> sha256(std::span<const std::byte> bytes) {
  std::array<std::byte, kDigestBytes> digest{};
  AFI_CHECK(EVP_Digest(bytes.data(), bytes.size(), raw(digest), nullptr, algorithm(), nullptr) ==
            1);
  return digest;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  AFI_CHECK(EVP_DigestInit_ex(state_->context, algorithm(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_->context); }

void Sha256::update(std::span<const std::byte> bytes) {
  AFI_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::array<std::byte, kDigestBytes> Sha256::finish() {
  std::array<std::byte, kDigestBytes> digest{};
  AFI_CHECK(EVP_DigestFinal_ex(state_->context, raw(digest), nullptr) == 1);
  AFI_CHECK(EVP_DigestInit_ex(state_->context, nullptr, nullptr) == 1);
  return digest;
}

// Built from two hashes rather than OpenSSL's HMAC(), which looks the algorithm up at each call;
// for short messages that is most of the time.
std::array<std::byte, kDigestBytes> hmac_sha256(const Secret& key,
                                                std::span<const std::byte> message) {
  static constexpr std::size_t kBlock = 64;  // of SHA-256
  std::array<std::byte, kBlock> inner{};
  std::array<std::byte, kBlock> outer{};
  inner.fill(std::byte{0x36});
  outer.fill(std::byte{0x5C});
  for (std::size_t i = 0; i < key.size(); ++i) {
    inner[i] ^= key[i];
    outer[i] ^= key[i];
  }
  Sha256 hash;
  hash.update(inner);
  hash.update(message);
  const auto digest = hash.finish();
  hash.update(outer);
  hash.update(digest);
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return hash.finish();
}

}  // namespace afterimage
