// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/crypto/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "afterimage/result.h"

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

class Context {
 public:
  Context() : context_(EVP_MD_CTX_new()) {
    AFI_CHECK(EVP_DigestInit_ex(context_, algorithm(), nullptr) == 1);
  }
  ~Context() { EVP_MD_CTX_free(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void update(std::span<const std::byte> bytes) {
    AFI_CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
  }

  /// The next update() starts a new message.
  std::array<std::byte, kDigestBytes> finish() {
    std::array<std::byte, kDigestBytes> digest{};
    AFI_CHECK(EVP_DigestFinal_ex(context_, raw(digest), nullptr) == 1);
    AFI_CHECK(EVP_DigestInit_ex(context_, nullptr, nullptr) == 1);
    return digest;
  }

 private:
  EVP_MD_CTX* context_;
};

/// For messages that begin and end in one call: to make a context takes longer than to hash a small message.
Context& context_of_this_thread() {
  static thread_local Context context;
  return context;
}

}  // namespace

std::array<std::byte, kDigestBytes> sha256(std::span<const std::byte> bytes) {
  Context& hash = context_of_this_thread();
  hash.update(bytes);
  return hash.finish();
}

struct Sha256::State {
  Context context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
void Sha256::update(std::span<const std::byte> bytes) { state_->context.update(bytes); }
std::array<std::byte, kDigestBytes> Sha256::finish() { return state_->context.finish(); }

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
  Context& hash = context_of_this_thread();
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
