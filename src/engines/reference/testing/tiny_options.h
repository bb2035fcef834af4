// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "engines/reference/reference_engine.h"

namespace afterimage::testing {

/// ReferenceOptions::full() in tiny()'s sizes, with two layers.
inline ReferenceOptions tiny_full() {
  ReferenceOptions options = ReferenceOptions::tiny();
  options.name = "afterimage-reference-tiny-full";
  options.decoder.layers.assign(2, FullAttention{});
  return options;
}

/// ReferenceOptions::tiled() in tiny()'s sizes: four tiles, and windows of 320 ms.
inline ReferenceOptions tiny_tiled() {
  ReferenceOptions options = ReferenceOptions::tiny();
  options.name = "afterimage-reference-tiny-tiled";
  options.vision.max_cells = 2;
  options.vision.max_tiles = 4;
  options.audio.window_embeddings = 4;
  return options;
}

}  // namespace afterimage::testing
