// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/model.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {

class FieldWriter;

/// Everything besides content that changes a result: model, weights, encoder, adapter, template, KV
/// dtype and tenant, under the tenant's salt. Without that salt nobody can tell whether two tenants
/// hold the same image.
///
/// Errors   kInvalidArgument: the engine does not name its model and encoder. Without an identity
///          nothing is cached.
/// Threads  Any; immutable.
/// Source   docs/formats/keys.md; golden vectors in keys_test.cc.
class Namespace {
 public:
  static Result<Namespace> of(const ModelIdentity& model, const TenantId& tenant,
                              const Secret& root);

  /// The key of one encoder output.
  [[nodiscard]] EncoderKey encoder_key(const MediaItem& item, const ContentDigest& content,
                                       const PreprocessRecipe& recipe) const;

  /// The root of this namespace's prefix keys: everything besides the sequence that changes KV.
  /// Preprocessing changes KV, so the recipes are part of it.
  [[nodiscard]] NamespaceId prefix_root(const PreprocessRecipe& image,
                                        const PreprocessRecipe& audio,
                                        const PreprocessRecipe& video) const;

  /// Derives a secret of this namespace from `fields`, whose domain is the caller's own.
  [[nodiscard]] Secret derive(const FieldWriter& fields) const;

 private:
  explicit Namespace(const Secret& key) : key_(key) {}

  Secret key_;
};

/// Derives a tenant's salt from the secret of the whole installation.
Secret tenant_salt(const Secret& root, const TenantId& tenant);

}  // namespace afterimage
