// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/random.h"

namespace afterimage {

/// Things of one name in a scene, all alike.
struct SceneThing {
  std::string name;  // one of its kind in a scene: "lamp"
  std::string color;
  std::string material;
  unsigned count = 1;
  unsigned size = 1;   // no two in a scene are of the same size
  unsigned place = 0;  // from left to right; no two stand in the same place
};

/// What there is to be asked about: a scene graph of which everything is known. Some are drawn,
/// some only told.
struct Scene {
  std::string id;
  bool drawn = false;
  std::vector<SceneThing> things;
  std::string he_holds;   // the name of something that is not among the things
  std::string she_holds;  // another
  unsigned year_of_c = 0;
  unsigned year_of_cpp = 0;
  unsigned year_of_csharp = 0;
  unsigned cats = 0;
  unsigned dogs = 0;
};

[[nodiscard]] Scene make_scene(std::size_t number, Rng& rng);

/// What a question asks, as it is computed; the words may differ.
enum class SceneQuery : unsigned char {
  kColor,     // of the thing `a`
  kMaterial,  // of the thing `a`
  kCount,     // of the things `a`
  kIsCount,   // are there `number` of the things `a`?
  kLeftOf,    // is `a` left of `b`?
  kRightOf,
  kBiggest,
  kSmallest,
  kIs,  // which things are of the color `a`?
  kIsNot,
  kHeldByHim,
  kHeldByHer,
  kYearOf,     // of the language `a`
  kKindCount,  // of "cats" or "dogs"
};
struct SceneProgram {
  SceneQuery query = SceneQuery::kColor;
  std::string a;
  std::string b;
  unsigned number = 0;

  auto operator<=>(const SceneProgram&) const = default;
};

/// The true answer, by looking at the graph: this is the engine that never errs.
[[nodiscard]] std::string true_answer(const Scene& scene, const SceneProgram& program);

/// The scene in words, everything that can be asked included.
[[nodiscard]] std::string told(const Scene& scene);

/// The scene as a PNG of 96 x 96: a patch of its color for each thing, and the rest as marks, so
/// that scenes which differ look different. `opaque` gives the same pixels in another file.
/// Errors  kUnavailable: libpng's.
[[nodiscard]] Result<std::vector<std::byte>> drawn(const Scene& scene, bool opaque = false);

}  // namespace afterimage
