// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/identity.h"

namespace afterimage {

const PreprocessRecipe& Recipes::of(Modality modality) const {
  switch (modality) {
    case Modality::kImage:
      return image;
    case Modality::kAudio:
      return audio;
    case Modality::kVideo:
      break;
  }
  return video;
}

std::vector<EntryLabel> Fingerprint::labels(std::size_t item) const {
  if (!space.has_value()) return {};
  return space->labels(std::span(contents).subspan(item, 1));
}

Fingerprint fingerprint(std::span<const MediaItem* const> media, const Namespace& space,
                        const Recipes& recipes) {
  Fingerprint prints{.space = space, .recipes = recipes};
  for (const MediaItem* item : media) {
    prints.contents.push_back(item->digest.has_value() ? *item->digest : content_digest(*item));
    prints.keys.push_back(
        space.encoder_key(*item, prints.contents.back(), recipes.of(item->modality)));
    prints.modalities.push_back(item->modality);
  }
  return prints;
}

}  // namespace afterimage
