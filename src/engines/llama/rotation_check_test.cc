// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/rotation_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "engines/llama/llama_engine.h"
#include "engines/llama/rotation.h"
#include "engines/llama/testing/model_rows.h"
#include "engines/llama/testing/quantized_model.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

using testing::demo_options;
using ::testing::HasSubstr;
using testing::ModelRows;

std::string found(const ModelRows& of, const KeyRotation& rotation) {
  const auto checked = check_keys_turn(*of.model, of.rows, rotation);
  return checked.has_value() ? "" : checked.error().message;
}

struct Mutation {
  const char* name;
  std::function<void(KeyRotation&)> change;
};

// M-RoPE with halves (dense, and seer with trained weights) and RoPE with neighbours (plain).
TEST(RotationCheck, AModelTurnsAsItsFileSaysAndInNoOtherWay) {
  const std::vector<Mutation> kMutations{
      {"sign", [](auto& r) { std::ranges::for_each(r.radians, [](float& x) { x = -x; }); }},
      {"not at all", [](auto& r) { std::ranges::fill(r.radians, 0.0F); }},
      {"half as far", [](auto& r) { std::ranges::for_each(r.radians, [](float& x) { x /= 2; }); }},
      {"fastest pair", [](auto& r) { r.radians[0] = 0; }},
      {"pairs",
       [](auto& r) {
         const bool halves = r.pairs == KeyRotation::Pairs::kHalves;
         r.pairs = halves ? KeyRotation::Pairs::kNeighbours : KeyRotation::Pairs::kHalves;
       }},
      {"order", [](auto& r) { std::ranges::reverse(r.radians); }},
      {"values of the last layer",
       [](auto& r) { r.keys.back().at += std::uint64_t{r.keys.back().heads} * r.head_size * 2; }},
  };
  const std::vector<Mutation> kOfAxes{
      {"row and column swapped",
       [](auto& r) {
         for (auto& axis : r.axes) axis = static_cast<std::uint8_t>(axis == 0 ? 0 : 3 - axis);
       }},
      {"time and row swapped",
       [](auto& r) {
         for (auto& axis : r.axes) axis = static_cast<std::uint8_t>(axis == 2 ? 2 : 1 - axis);
       }},
      {"sections instead of interleaved", [](auto& r) { std::ranges::sort(r.axes); }},
      {"time only", [](auto& r) { std::ranges::fill(r.axes, std::uint8_t{0}); }},
  };
  for (const std::string name : {"dense", "seer", "plain"}) {
    const ModelRows of = ModelRows::load(demo_options(name));
    const KeyRotation good = rotation_of(of.model->facts().rotary, of.rows).value();
    EXPECT_EQ(found(of, good), "") << name;
    auto mutations = kMutations;
    if (name != "plain") mutations.insert(mutations.end(), kOfAxes.begin(), kOfAxes.end());
    for (const auto& [what, change] : mutations) {
      KeyRotation wrong = good;
      change(wrong);
      EXPECT_THAT(found(of, wrong), HasSubstr("do not turn as its file says"))
          << name << ": " << what;
    }
  }
}

TEST(RotationCheck, NamesTheLayer) {
  const ModelRows of = ModelRows::load(demo_options("dense"));
  KeyRotation second = rotation_of(of.model->facts().rotary, of.rows).value();
  ASSERT_GT(second.keys.size(), 1U);
  second.keys[1].at += 2;
  EXPECT_THAT(found(of, second), HasSubstr("layer 1"));
}

// Rounding in weights of few bits is no other rotation.
TEST(RotationCheck, QuantizedWeightsPass) {
  for (const std::string& type : testing::kWeightTypes) {
    const ModelRows of = ModelRows::load(testing::quantized_options(type));
    EXPECT_EQ(found(of, rotation_of(of.model->facts().rotary, of.rows).value()), "") << type;
  }
}

TEST(LlamaEngineRotation, IsDeclaredOrTheReasonIsGiven) {
  const auto reason = [](LlamaOptions options) {
    const auto engine = LlamaEngine::create(std::move(options)).value();
    EXPECT_EQ(engine->key_rotation() == nullptr, !engine->why_no_rotation().empty());
    return engine->why_no_rotation();
  };
  EXPECT_EQ(reason(demo_options("dense")), "");
  EXPECT_THAT(reason(demo_options("plain")), HasSubstr("takes no images"));
  EXPECT_THAT(reason(demo_options("sliding")), HasSubstr("attend to later ones"));
  EXPECT_THAT(reason(demo_options("hybrid")), HasSubstr("recurrent"));
  EXPECT_THAT(reason(demo_options("shortconv")), HasSubstr("recurrent"));
  for (const std::string keys : {"q8_0", "bf16"}) {
    LlamaOptions options = demo_options("dense");
    options.keys = keys;
    EXPECT_THAT(reason(options), HasSubstr("f16 or f32")) << keys;
  }
  LlamaOptions floats = demo_options("dense");
  floats.keys = "f32";
  EXPECT_EQ(reason(floats), "");
}

}  // namespace
}  // namespace afterimage
