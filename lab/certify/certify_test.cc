// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/certify/certify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "afterimage/identity.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"
#include "runtime/engine_api/key_rotation.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

std::unique_ptr<ReferenceEngine> engine_of(std::size_t layers, bool mrope = true) {
  ReferenceOptions options = testing::tiny_full();
  options.decoder.layers.assign(layers, FullAttention{});
  return ReferenceEngine::create(mrope ? options.with_mrope() : options).value();
}

/// Six wide pictures, shown one, two or three at a time.
Workload workload() {
  Workload made;
  std::vector<MediaItem> pictures;
  for (std::uint32_t i = 0; i < 6; ++i) {
    pictures.push_back(testing::media_item(
        Modality::kImage, testing::make_png(testing::make_picture(48, 24, i + 1))));
  }
  for (std::size_t i = 0; i < 24; ++i) {
    Request request{.id = RequestId("r" + std::to_string(i))};
    request.messages = {{.role = Role::kSystem, .parts = {std::string("You see.")}},
                        {.role = Role::kUser, .parts = {}}};
    for (std::size_t k = 0; k <= i % 3; ++k) {
      request.messages[1].parts.emplace_back(pictures[(i + 2 * k) % pictures.size()]);
    }
    request.messages[1].parts.emplace_back("Question " + std::to_string(i));
    made.requests.push_back(std::move(request));
  }
  return made;
}

CertifyOptions options() {
  return {.recomputed = {0, 1, 2},
          .max_tokens = TokenCount(8),
          .limits = {.tokens = 0.05, .divergence = 1e-10}};
}

CertifyReport certified(const Engine& engine, const Workload& asked = workload(),
                        const CertifyOptions& how = options()) {
  auto report = certify(engine, asked, how);
  EXPECT_TRUE(report.has_value()) << to_string(report.error());
  return *std::move(report);
}

// One layer: moving is exact but for the last bits, so the certificate is given.
TEST(Certify, CertifiesAModelWhereMovingIsExact) {
  for (const bool mrope : {false, true}) {
    const auto engine = engine_of(1, mrope);
    const CertifyReport report = certified(*engine);
    ASSERT_TRUE(report.certificate.has_value()) << to_text(report);
    EXPECT_EQ(report.rotation, mrope ? "M-RoPE" : "RoPE");
    EXPECT_EQ(report.certificate->recomputed, TokenCount(0));
    EXPECT_EQ(report.certificate->origin, kv_origin(engine->identity(), *engine->kv_layout()));
    EXPECT_EQ(report.certificate->tokens.requests, 24U);
    EXPECT_EQ(report.certificate->tokens.other, 0U);
    const auto read = parse_certificate(write_certificate(*report.certificate));
    EXPECT_EQ(read.value(), *report.certificate);
  }
}

// Keys that keep their old places are the blind reuse that others do.
TEST(Certify, ShowsWhatReuseWithoutRotationLoses) {
  const CertifyReport report = certified(*engine_of(1));
  ASSERT_EQ(report.columns.size(), 5U);
  EXPECT_EQ(report.columns[0].tokens.other, 0U);
  EXPECT_EQ(report.columns[0].computed, report.columns[0].image_tokens);
  EXPECT_GT(report.columns[1].tokens.other, 0U);
  EXPECT_EQ(report.columns[1].computed, 0U);
  EXPECT_GT(report.columns[1].tokens.divergence, 100 * report.columns[2].tokens.divergence);
  EXPECT_EQ(report.columns[3].computed, 48U) << "one token of each image";
}

TEST(Certify, RefusesAModelThatLosesTooMuch) {
  const CertifyReport report = certified(*engine_of(4));
  EXPECT_FALSE(report.certificate.has_value());
  EXPECT_TRUE(report.verdict.starts_with("Refused. The best column is turned")) << report.verdict;
  EXPECT_NE(report.verdict.find("may at most"), std::string::npos) << report.verdict;
}

// A model may lose little in some tokens and much in what it is for.
TEST(Certify, CountsRightAnswersByHops) {
  const auto engine = engine_of(4);
  Workload asked = workload();
  // What the model says is right, so that every change is a loss.
  for (const Request& request : asked.requests) {
    GenerateOptions generate{.max_tokens = TokenCount(8)};
    std::vector<ContentDigest> contents;
    std::vector<EncoderOutput> outputs;
    for (const MediaItem* item : media_of(request)) {
      contents.push_back(content_digest(*item));
      outputs.push_back(engine->encode(*item).value());
    }
    std::vector<TensorViews> views;
    for (const auto& output : outputs) views.push_back(views_of(output).value());
    asked.expected[request.id] =
        engine->generate(engine->prepare(request, contents).value(), views, generate).value().text;
  }
  const CertifyReport report = certified(*engine, asked);
  ASSERT_EQ(report.columns[0].tasks.size(), 2U);
  EXPECT_EQ(report.columns[0].tasks[0].name, "single-hop");
  EXPECT_EQ(report.columns[0].tasks[0].asked, 8U);
  EXPECT_EQ(report.columns[0].tasks[0].right, 8U);
  EXPECT_EQ(report.columns[0].tasks[1].asked, 16U);
  std::uint64_t lost = 0;
  for (const TaskLoss& task : report.columns[2].tasks) lost += task.lost;
  EXPECT_EQ(lost, report.columns[2].tokens.other);
  EXPECT_GT(lost, 0U);
  // All answers of the model where moving is exact are kept, but 24 questions exclude little.
  CertifyOptions loose = options();
  loose.limits = {.tokens = 1, .divergence = 1e6, .single_hop = 0.001, .multi_hop = 1};
  EXPECT_NE(certified(*engine, asked, loose).verdict.find("points of single-hop answers"),
            std::string::npos);
}

TEST(Certify, SaysWhyAModelCannotBeCertified) {
  const auto sliding = ReferenceEngine::create(ReferenceOptions::tiny()).value();
  const auto refused = certify(*sliding, workload(), options());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("sliding"), std::string::npos) << refused.error().message;
  Workload text;
  text.requests.push_back({.id = RequestId("r")});
  text.requests[0].messages = {{.role = Role::kUser, .parts = {std::string("Hi.")}}};
  EXPECT_EQ(certify(*engine_of(1), text, options()).error().code, ErrorCode::kInvalidArgument);
}

TEST(Certify, PrintsATable) {
  const CertifyReport report = certified(*engine_of(1));
  const std::string text = to_text(report);
  for (const char* const word : {"recompute", "as it was", "turned, 2 computed", "Certified"}) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_NE(to_markdown(report).find("| turned, 1 computed |"), std::string::npos);
  EXPECT_NE(to_json(report).find("\"certified\": true"), std::string::npos);
}

// Mutations: an engine whose rotation is wrong in one way. Its rows are turned beforehand so that the
// good engine's rotation makes them what the wrong one would.

using Wrong = std::function<void(const KeyRotation&, const TokenPlace& steps, std::int32_t row,
                                 std::int32_t column, std::span<std::byte> bytes)>;

class WrongRotation final : public testing::ForwardingEngine {
 public:
  WrongRotation(const Engine& good, Wrong wrong)
      : ForwardingEngine(good), wrong_(std::move(wrong)) {}

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<MovedMedia> moved(use.moved.begin(), use.moved.end());
    for (MovedMedia& item : moved) {
      const MediaSpan& span = prompt.spans[item.span];
      const TokenPlace to = place_of(prompt, span.offset);
      TokenPlace steps{};
      for (std::size_t axis = 0; axis < 3; ++axis) steps[axis] = to[axis] - item.from[axis];
      if (steps == TokenPlace{}) continue;  // "as it was": no rotation to get wrong
      const auto columns = static_cast<std::int32_t>(std::max(span.columns, 1U));
      const std::size_t row = kv_layout()->groups[0].row_bytes.value();
      for (KvRows& piece : item.rows[0]) {
        auto& own = bytes.emplace_back(piece.bytes.begin(), piece.bytes.end());
        for (std::uint32_t i = 0; i < piece.count.value(); ++i) {
          const auto token = static_cast<std::int32_t>((piece.first + TokenCount(i)).value());
          wrong_(*key_rotation(), steps, token / columns, token % columns,
                 std::span(own).subspan(i * row, row));
        }
        piece.bytes = own;
      }
    }
    KvUse wrong = use;
    wrong.moved = moved;
    return ForwardingEngine::run(prompt, embeddings, options, wrong);
  }

 private:
  Wrong wrong_;
};

TokenPlace times(const TokenPlace& steps, std::int32_t factor) {
  return {steps[0] * factor, steps[1] * factor, steps[2] * factor};
}

TEST(CertifyMutations, EachWrongRotationIsRefused) {
  const std::vector<std::pair<std::string, Wrong>> kMutations{
      {"off by one", [](const auto& rotation, const auto&, auto, auto,
                        auto bytes) { rotate_keys(rotation, 0, {1, 1, 1}, bytes); }},
      {"off by one along one axis", [](const auto& rotation, const auto&, auto, auto,
                                       auto bytes) { rotate_keys(rotation, 0, {0, 1, 0}, bytes); }},
      {"sign", [](const auto& rotation, const auto& steps, auto, auto,
                  auto bytes) { rotate_keys(rotation, 0, times(steps, -2), bytes); }},
      {"row and column swapped",
       [](const auto& rotation, const auto&, auto row, auto column, auto bytes) {
         rotate_keys(rotation, 0, {0, column - row, row - column}, bytes);
       }},
      {"time only", [](const auto& rotation, const auto& steps, auto, auto,
                       auto bytes) { rotate_keys(rotation, 0, {0, -steps[1], -steps[2]}, bytes); }},
      {"time not", [](const auto& rotation, const auto& steps, auto, auto,
                      auto bytes) { rotate_keys(rotation, 0, {-steps[0], 0, 0}, bytes); }},
      {"other pairs",
       [](const auto& rotation, const auto& steps, auto, auto, auto bytes) {
         KeyRotation other = rotation;
         other.pairs = KeyRotation::Pairs::kNeighbours;
         rotate_keys(other, 0, steps, bytes);
         rotate_keys(rotation, 0, times(steps, -1), bytes);
       }},
      {"values too",
       [](const auto& rotation, const auto& steps, auto, auto, auto bytes) {
         KeyRotation values = rotation;
         for (KeyRotation::Keys& keys : values.keys) {
           keys.at += std::uint64_t{keys.heads} * rotation.head_size * sizeof(float);
         }
         rotate_keys(values, 0, steps, bytes);
       }},
  };
  const auto engine = engine_of(1);
  for (const auto& [name, wrong] : kMutations) {
    const WrongRotation mutated(*engine, wrong);
    const CertifyReport report = certified(mutated);
    EXPECT_FALSE(report.certificate.has_value()) << name << "\n" << to_text(report);
  }
  const WrongRotation same(*engine, [](const auto&, const auto&, auto, auto, auto) {});
  EXPECT_TRUE(certified(same).certificate.has_value()) << "the mutations are the difference";
}

/// Declares another rotation than its keys have.
class WrongDeclaration final : public testing::ForwardingEngine {
 public:
  WrongDeclaration(const Engine& good, KeyRotation wrong)
      : ForwardingEngine(good), wrong_(std::move(wrong)) {}
  [[nodiscard]] const KeyRotation* key_rotation() const override { return &wrong_; }

 private:
  KeyRotation wrong_;
};

/// Says that every image begins one place later.
class WrongPlaces final : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  [[nodiscard]] TokenPlace place_of(const Sequence& prompt, TokenCount at) const override {
    const TokenPlace good = ForwardingEngine::place_of(prompt, at);
    return at == prompt.spans.front().offset ? TokenPlace{good[0] + 1, good[1] + 1, good[2] + 1}
                                             : good;
  }
};

// Also of a model that hides them behind other layers, and whatever loss the operator allows.
TEST(CertifyMutations, AWrongDeclarationIsRefusedWhateverIsAllowed) {
  const auto engine = engine_of(4);
  CertifyOptions loose = options();
  loose.limits = {.tokens = 1, .divergence = 1e6, .single_hop = 1, .multi_hop = 1};
  EXPECT_TRUE(certified(*engine, workload(), loose).certificate.has_value());
  EXPECT_LT(certified(*engine, workload(), loose).key_difference, 1e-5);
  const KeyRotation good = *engine->key_rotation();
  const std::vector<std::pair<std::string, std::function<void(KeyRotation&)>>> kMutations{
      {"sign",
       [](KeyRotation& r) {
         for (float& step : r.radians) step = -step;
       }},
      {"pairs", [](KeyRotation& r) { r.pairs = KeyRotation::Pairs::kNeighbours; }},
      {"order", [](KeyRotation& r) { std::ranges::reverse(r.radians); }},
      {"one pair", [](KeyRotation& r) { r.radians[0] = 0; }},
      {"half as far",
       [](KeyRotation& r) {
         for (float& step : r.radians) step /= 2;
       }},
      {"values", [](KeyRotation& r) { r.keys.front().at += 32 * sizeof(float); }},
  };
  for (const auto& [name, change] : kMutations) {
    KeyRotation wrong = good;
    change(wrong);
    const CertifyReport report = certified(WrongDeclaration(*engine, wrong), workload(), loose);
    EXPECT_FALSE(report.certificate.has_value()) << name;
    EXPECT_NE(report.verdict.find("rotation is wrong"), std::string::npos) << report.verdict;
  }
  EXPECT_FALSE(certified(WrongPlaces(*engine), workload(), loose).certificate.has_value());
}

}  // namespace
}  // namespace afterimage
