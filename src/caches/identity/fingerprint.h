// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/model.h"
#include "caches/identity/keys.h"

namespace afterimage {

/// The preprocessing of each modality.
struct Recipes {
  PreprocessRecipe image;
  PreprocessRecipe audio;
  PreprocessRecipe video;

  [[nodiscard]] const PreprocessRecipe& of(Modality modality) const;
};

/// The identities of a request's media: one element per media item, in order of appearance.
struct Fingerprint {
  std::vector<ContentDigest> contents;
  std::vector<EncoderKey> keys;
  std::vector<Modality> modalities;
};

/// Hashes every byte of every item. Pure; any thread.
Fingerprint fingerprint(std::span<const MediaItem* const> media, const Namespace& space,
                        const Recipes& recipes);

}  // namespace afterimage
