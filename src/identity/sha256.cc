// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/identity/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "afterimage/check.h"

namespace afterimage {
namespace {

// Fetched once: an implicit fetch costs more than hashing a small buffer.
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

std::array<std::byte, kDigestBytes> hmac_sha256(const Secret& key,
                                                std::span<const std::byte> message) {
  std::array<std::byte, kDigestBytes> digest{};
  AFI_CHECK(HMAC(algorithm(), key.data(), static_cast<int>(key.size()),
                 reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                 raw(digest), nullptr) != nullptr);
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

}  // namespace afterimage
