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

/// What happens to each modality before its encoder.
struct Recipes {
  PreprocessRecipe image;
  PreprocessRecipe audio;
  PreprocessRecipe video;

  [[nodiscard]] const PreprocessRecipe& of(Modality modality) const;
};

/// What a request's media are, exactly. One element a media item, in order of appearance.
struct Fingerprint {
  std::vector<ContentDigest> contents;
  std::vector<EncoderKey> keys;
  std::vector<Modality> modalities;
};

/// Hashes every byte of every item whose digest is not known. Pure; any thread.
Fingerprint fingerprint(std::span<const MediaItem* const> media, const Namespace& space,
                        const Recipes& recipes);

}  // namespace afterimage
