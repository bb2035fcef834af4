// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>

#include "afterimage/engine.h"

struct evp_md_ctx_st;  // OpenSSL's

namespace afterimage {

/// SHA-256 over the logits of successive positions, as they lie in memory.
class LogitsHasher {
 public:
  LogitsHasher();
  void add(std::span<const float> logits);
  /// The digest of everything added. The hasher cannot be used afterwards.
  [[nodiscard]] LogitsDigest finish() &&;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace afterimage
