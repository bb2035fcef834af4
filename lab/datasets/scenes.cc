// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/scenes.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

struct NamedColor {
  std::string_view name;
  std::array<std::uint8_t, 3> rgb;
};
constexpr auto kColors = std::to_array<NamedColor>({{"red", {200, 30, 30}},
                                                    {"green", {30, 160, 50}},
                                                    {"blue", {40, 70, 200}},
                                                    {"yellow", {230, 210, 40}},
                                                    {"purple", {130, 40, 160}},
                                                    {"orange", {240, 140, 20}},
                                                    {"brown", {120, 80, 40}},
                                                    {"gray", {128, 128, 128}}});
constexpr auto kMaterials =
    std::to_array<std::string_view>({"clay", "concrete", "ivory", "porcelain", "velvet", "wicker"});
constexpr auto kNames = std::to_array<std::string_view>(
    {"bench",  "bucket", "candle", "carpet", "clock",    "curtain", "drawer",
     "helmet", "kettle", "ladder", "lamp",   "lantern",  "mirror",  "pillow",
     "ribbon", "saddle", "statue", "teapot", "umbrella", "wardrobe"});
constexpr auto kHeld = std::to_array<std::string_view>(
    {"basket", "camera", "guitar", "hammer", "kite", "racket", "trumpet", "violin"});

constexpr unsigned kThings = 6;
constexpr unsigned kSide = 96;
constexpr unsigned kPatch = 16;

/// Draws `count` distinct elements.
template <std::size_t N>
std::vector<std::string> pick(const std::array<std::string_view, N>& from, std::size_t count,
                              Rng& rng) {
  std::vector<std::string> all(from.begin(), from.end());
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + rng.below(N - i)]);
  all.resize(count);
  return all;
}

const SceneThing& thing(const Scene& scene, std::string_view name) {
  const auto it = std::ranges::find(scene.things, name, &SceneThing::name);
  AFI_CHECK(it != scene.things.end());
  return *it;
}

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

std::string names_where(const Scene& scene, const auto& holds) {
  std::string names;
  for (const SceneThing& one : scene.things) {
    if (holds(one)) names += (names.empty() ? "the " : ", the ") + one.name;
  }
  return names.empty() ? "nothing" : names;
}

void fill(std::span<std::uint8_t> pixels, unsigned x, unsigned y, unsigned size,
          const std::array<std::uint8_t, 3>& rgb) {
  for (unsigned row = y; row < y + size; ++row) {
    for (unsigned column = x; column < x + size; ++column) {
      std::ranges::copy(rgb, pixels.begin() + (row * kSide + column) * 3);
    }
  }
}

std::vector<std::uint8_t> pixels_of(const Scene& scene) {
  std::vector<std::uint8_t> pixels(std::size_t{kSide} * kSide * 3, 255);
  for (const SceneThing& one : scene.things) {
    const auto* color = std::ranges::find(kColors, one.color, &NamedColor::name);
    for (unsigned copy = 0; copy < one.count; ++copy) {
      fill(pixels, one.place * kPatch, kPatch / 2 * copy, 2 + one.size, color->rgb);
    }
  }
  // Facts without a colour (materials, held things) are drawn as a bar of marks.
  const std::string text = describe_scene(scene);
  const auto digest = sha256(std::as_bytes(std::span(text)));
  for (unsigned i = 0; i < kSide / 8; ++i) {
    const auto mark = std::to_integer<std::uint8_t>(digest[i]);
    fill(pixels, i * 8, kSide - 8, 8, {mark, mark, mark});
  }
  return pixels;
}

}  // namespace

Scene make_scene(std::size_t number, Rng& rng) {
  Scene scene{.id = fmt::format("scene-{:05}", number), .drawn = number % 2 == 0};
  const auto names = pick(kNames, kThings, rng);
  std::vector<unsigned> sizes{1, 2, 3, 4, 5, 6};
  for (unsigned i = 0; i < kThings; ++i) {
    std::swap(sizes[i], sizes[i + rng.below(kThings - i)]);
    scene.things.push_back({.name = names[i],
                            .color = std::string(kColors[rng.below(kColors.size())].name),
                            .material = std::string(kMaterials[rng.below(kMaterials.size())]),
                            .count = static_cast<unsigned>(1 + rng.below(9)),
                            .size = sizes[i],
                            .place = i});
  }
  const auto held = pick(kHeld, 2, rng);
  scene.he_holds = held[0];
  scene.she_holds = held[1];
  const auto year = [&](unsigned from) { return from + static_cast<unsigned>(rng.below(10)); };
  scene.year_of_c = year(1970);
  scene.year_of_cpp = year(1980);
  scene.year_of_csharp = year(1990);
  scene.cats = static_cast<unsigned>(rng.below(5));
  scene.dogs = 5 + static_cast<unsigned>(rng.below(5));
  return scene;
}

std::string true_answer(const Scene& scene, const SceneProgram& program) {
  const auto& things = scene.things;
  switch (program.query) {
    case SceneQuery::kColor:
      return thing(scene, program.a).color;
    case SceneQuery::kMaterial:
      return thing(scene, program.a).material;
    case SceneQuery::kCount:
      return std::to_string(thing(scene, program.a).count);
    case SceneQuery::kIsCount:
      return yes_or_no(thing(scene, program.a).count == program.number);
    case SceneQuery::kLeftOf:
      return yes_or_no(thing(scene, program.a).place < thing(scene, program.b).place);
    case SceneQuery::kRightOf:
      return yes_or_no(thing(scene, program.a).place > thing(scene, program.b).place);
    case SceneQuery::kBiggest:
      return "the " + std::ranges::max(things, {}, &SceneThing::size).name;
    case SceneQuery::kSmallest:
      return "the " + std::ranges::min(things, {}, &SceneThing::size).name;
    case SceneQuery::kIs:
      return names_where(scene, [&](const SceneThing& t) { return t.color == program.a; });
    case SceneQuery::kIsNot:
      return names_where(scene, [&](const SceneThing& t) { return t.color != program.a; });
    case SceneQuery::kHeldByHim:
      return "a " + scene.he_holds;
    case SceneQuery::kHeldByHer:
      return "a " + scene.she_holds;
    case SceneQuery::kYearOf:
      return std::to_string(program.a == "C"     ? scene.year_of_c
                            : program.a == "C++" ? scene.year_of_cpp
                                                 : scene.year_of_csharp);
    case SceneQuery::kKindCount:
      return std::to_string(program.a == "cats" ? scene.cats : scene.dogs);
  }
  AFI_CHECK(false);
}

std::string describe_scene(const Scene& scene) {
  std::string text = fmt::format("This is {}. From left to right there are", scene.id);
  for (const SceneThing& one : scene.things) {
    text += fmt::format(" {} {} {} of {} and size {};", one.count, one.color, one.name,
                        one.material, one.size);
  }
  return text + fmt::format(
                    " he holds a {} and she holds a {}; the manuals are of C ({}), C++ ({}) and C# "
                    "({}); there are {} cats and {} dogs.",
                    scene.he_holds, scene.she_holds, scene.year_of_c, scene.year_of_cpp,
                    scene.year_of_csharp, scene.cats, scene.dogs);
}

Result<std::vector<std::byte>> draw_scene(const Scene& scene, bool opaque) {
  std::vector<std::uint8_t> pixels = pixels_of(scene);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = kSide;
  image.height = kSide;
  image.format = PNG_FORMAT_RGB;
  if (opaque) {
    std::vector<std::uint8_t> with_alpha;
    for (std::size_t i = 0; i < pixels.size(); i += 3) {
      with_alpha.insert(with_alpha.end(), {pixels[i], pixels[i + 1], pixels[i + 2], 255});
    }
    pixels = std::move(with_alpha);
    image.format = PNG_FORMAT_RGBA;
  }
  png_alloc_size_t size = 0;
  std::vector<std::byte> file;
  for (const bool write : {false, true}) {  // first pass: size; second pass: write
    file.resize(size);
    if (png_image_write_to_memory(&image, write ? file.data() : nullptr, &size, 0, pixels.data(), 0,
                                  nullptr) == 0) {
      return fail(ErrorCode::kUnavailable, fmt::format("libpng: {}", image.message));
    }
  }
  file.resize(size);
  return file;
}

}  // namespace afterimage
