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

/// Things with one name in a scene, all alike.
struct SceneThing {
  std::string name;  // unique in a scene: "lamp"
  std::string color;
  std::string material;
  unsigned count = 1;
  unsigned size = 1;   // unique in a scene
  unsigned place = 0;  // from left to right, unique in a scene
};

/// A scene graph from which every question can be answered. Some scenes are drawn as images, others
/// are only described in text.
struct Scene {
  std::string id;
  bool drawn = false;
  std::vector<SceneThing> things;
  std::string he_holds;   // a thing that is not in `things`
  std::string she_holds;  // another such thing
  unsigned year_of_c = 0;
  unsigned year_of_cpp = 0;
  unsigned year_of_csharp = 0;
  unsigned cats = 0;
  unsigned dogs = 0;
};

[[nodiscard]] Scene make_scene(std::size_t number, Rng& rng);

/// What a question asks, independent of its wording.
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

/// The true answer, computed from the graph.
[[nodiscard]] std::string true_answer(const Scene& scene, const SceneProgram& program);

/// Describes the scene in words, including everything that can be asked.
[[nodiscard]] std::string describe_scene(const Scene& scene);

/// The scene as a 96 x 96 PNG: a patch in its color for each thing, all other facts as marks, so
/// that different scenes have different pixels. `opaque` gives the same pixels in another file.
///
/// Errors   kUnavailable: an error of libpng.
[[nodiscard]] Result<std::vector<std::byte>> draw_scene(const Scene& scene, bool opaque = false);

}  // namespace afterimage
