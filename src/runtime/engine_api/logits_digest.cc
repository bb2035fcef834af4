// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/logits_digest.h"

#include <openssl/evp.h>

#include "afterimage/result.h"

namespace afterimage {

LogitsHasher::LogitsHasher() : context_(EVP_MD_CTX_new()) {
  AFI_CHECK(context_ != nullptr);
  AFI_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void LogitsHasher::add(std::span<const float> logits) {
  AFI_CHECK(EVP_DigestUpdate(context_.get(), logits.data(), logits.size_bytes()) == 1);
}

LogitsDigest LogitsHasher::finish() && {
  LogitsDigest digest;
  AFI_CHECK(EVP_DigestFinal_ex(context_.get(),
                               reinterpret_cast<unsigned char*>(digest.bytes.data()),
                               nullptr) == 1);
  return digest;
}

void LogitsHasher::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

}  // namespace afterimage
