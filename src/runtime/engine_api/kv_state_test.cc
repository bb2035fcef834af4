// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "afterimage/engine.h"

namespace afterimage {
namespace {

// One group of each kind, in blocks of 4 tokens.
KvLayout layout() {
  return {.groups = {{.kind = KvKind::kFull, .layers = 2, .row_bytes = Bytes(8)},
                     {.kind = KvKind::kSliding, .window = TokenCount(5), .row_bytes = Bytes(4)},
                     {.kind = KvKind::kShared, .owner = 0},
                     {.kind = KvKind::kRecurrent, .state_bytes = Bytes(16)}},
          .alignment = TokenCount(4)};
}

ModelIdentity identity() {
  return {.model = "m", .weights_epoch = "1", .encoder = "e", .adapter = "", .chat_template = "t"};
}

Tensor rows(std::uint64_t count, std::uint64_t size) {
  return {
      .dtype = DType::kU8, .shape = {count, size}, .bytes = std::vector<std::byte>(count * size)};
}

// Twelve tokens; [3, 7) is an unsplittable image.
Sequence prompt() {
  Sequence sequence;
  sequence.tokens.resize(12);
  sequence.spans = {{.offset = TokenCount(3), .length = TokenCount(4), .splittable = false}};
  return sequence;
}

KvSnapshot snapshot(std::uint32_t at) {
  return {.at = TokenCount(at),
          .groups = {Tensor{}, rows(std::min(at, 5U), 4), Tensor{}, rows(1, 16)}};
}

// A state of 8 tokens whose full rows come in two slices.
struct Owned {
  Tensor first = rows(3, 8), rest = rows(5, 8), window = rows(5, 4), recurrent = rows(1, 16);
  KvState state{.origin = kv_origin(identity(), layout()),
                .covered = TokenCount(8),
                .groups = {{first.view().value(), rest.view().value()},
                           {window.view().value()},
                           {},
                           {recurrent.view().value()}}};
};

Result<void> check(const KvState& state) {
  return check_state(state, layout(), kv_origin(identity(), layout()), prompt());
}

// From tests/golden/identity_vectors.py.
TEST(KvOrigin, IsTheSameOnEveryMachine) {
  EXPECT_EQ(kv_origin(identity(), layout()).hex(),
            "403c74d241b732f803fe2c2cc362c319cf2b90fb8972ea3d642a26ab554dae24");
}

TEST(KvOrigin, EveryFieldMatters) {
  std::set<KvOrigin> seen{kv_origin(identity(), layout())};
  const std::function<void(ModelIdentity&)> kOtherModels[] = {
      [](auto& i) { i.model += "x"; },         [](auto& i) { i.weights_epoch += "x"; },
      [](auto& i) { i.encoder += "x"; },       [](auto& i) { i.adapter += "x"; },
      [](auto& i) { i.chat_template += "x"; }, [](auto& i) { i.kv_dtype = DType::kF16; }};
  for (const auto& change : kOtherModels) {
    ModelIdentity other = identity();
    change(other);
    EXPECT_TRUE(seen.insert(kv_origin(other, layout())).second);
  }
  const std::function<void(KvLayout&)> kOtherLayouts[] = {
      [](auto& l) { l.alignment = TokenCount(1); },
      [](auto& l) { l.groups.pop_back(); },
      [](auto& l) { l.groups[0].kind = KvKind::kSliding; },
      [](auto& l) { l.groups[0].layers = 1; },
      [](auto& l) { l.groups[0].row_bytes = Bytes(9); },
      [](auto& l) { l.groups[1].window = TokenCount(6); },
      [](auto& l) { l.groups[2].owner = 1; },
      [](auto& l) { l.groups[3].state_bytes = Bytes(17); }};
  for (const auto& change : kOtherLayouts) {
    KvLayout other = layout();
    change(other);
    EXPECT_TRUE(seen.insert(kv_origin(identity(), other)).second);
  }
}

TEST(KvState, RowCountFollowsTheKind) {
  const struct {
    std::uint32_t covered;
    std::uint64_t expected[4];
  } kCases[] = {{0, {0, 0, 0, 1}}, {4, {4, 4, 0, 1}}, {5, {5, 5, 0, 1}}, {6, {6, 5, 0, 1}}};
  for (const auto& c : kCases) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(rows_at(layout().groups[i], TokenCount(c.covered)), c.expected[i]) << c.covered;
    }
  }
}

TEST(KvState, AcceptsAValidState) {
  const Owned good;
  const auto checked = check(good.state);
  EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
}

// Cases that need an alignment above 1; the others are in tests/conformance/engine_conformance.h.
TEST(KvState, RejectsAPositionOffTheAlignment) {
  Owned state;
  state.state.covered = TokenCount(9);
  const auto refused = check(state.state);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("multiples of 4"), std::string::npos);
  const KvWanted wanted{.snapshots = {TokenCount(9)}};
  EXPECT_EQ(check_wanted(wanted, layout(), prompt(), TokenCount(8)).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(KvState, ErrorNamesTheGroupAndTheDefect) {
  Owned state;
  state.state.groups[1].clear();
  const auto refused = check(state.state);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_EQ(refused.error().message,
            "a state of 8 tokens: group 1 (sliding) has 0 rows; it must have 5");
}

TEST(KvCapture, EndOfRunIsRoundedDownToTheAlignment) {
  KvCapture capture{.covered = TokenCount(14),
                    .rows_from = TokenCount(8),
                    .rows_to = TokenCount(12),
                    .rows = {rows(4, 8), Tensor{}, Tensor{}, Tensor{}},
                    .snapshots = {snapshot(8), snapshot(12)}};
  const KvWanted wanted{
      .rows_from = TokenCount(8), .rows_to = kEndOfRun, .snapshots = {TokenCount(8), kEndOfRun}};
  const auto checked = check_capture(capture, wanted, layout());
  EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  capture.rows_to = TokenCount(14);
  EXPECT_EQ(check_capture(capture, wanted, layout()).error().code, ErrorCode::kCorruption);
}

TEST(KvCapture, RejectsACaptureThatDiffersFromTheRequest) {
  const KvCapture good{.covered = TokenCount(12),
                       .rows_to = TokenCount(8),
                       .rows = {rows(8, 8), Tensor{}, Tensor{}, Tensor{}},
                       .snapshots = {snapshot(4), snapshot(8)}};
  const KvWanted wanted{.rows_to = TokenCount(8), .snapshots = {TokenCount(4), TokenCount(8)}};
  EXPECT_TRUE(check_capture(good, wanted, layout()).has_value());
  const struct {
    const char* name;
    std::function<void(KvCapture&)> change;
  } kCases[] = {
      {"rows of less", [](auto& c) { c.rows_to = TokenCount(7); }},
      {"rows from later", [](auto& c) { c.rows_from = TokenCount(1); }},
      {"fewer rows", [](auto& c) { c.rows[0] = rows(7, 8); }},
      {"narrower rows", [](auto& c) { c.rows[0] = rows(8, 7); }},
      {"no rows", [](auto& c) { c.rows[0] = Tensor{}; }},
      {"rows that are not there", [](auto& c) { c.rows[0].bytes.clear(); }},
      {"rows where none belong", [](auto& c) { c.rows[2] = rows(8, 8); }},
      {"no groups", [](auto& c) { c.rows.clear(); }},
      {"more than is covered", [](auto& c) { c.covered = TokenCount(7); }},
      {"a snapshot less", [](auto& c) { c.snapshots.pop_back(); }},
      {"a snapshot more", [](auto& c) { c.snapshots.push_back(snapshot(12)); }},
      {"a snapshot elsewhere", [](auto& c) { c.snapshots[0] = snapshot(5); }},
      {"a snapshot without groups", [](auto& c) { c.snapshots[0].groups.clear(); }},
      {"a window one short", [](auto& c) { c.snapshots[1].groups[1] = rows(4, 4); }},
      {"a state that is missing", [](auto& c) { c.snapshots[0].groups[3] = Tensor{}; }},
      {"two states", [](auto& c) { c.snapshots[0].groups[3] = rows(2, 16); }},
  };
  for (const auto& c : kCases) {
    KvCapture capture = good;
    c.change(capture);
    const auto refused = check_capture(capture, wanted, layout());
    ASSERT_FALSE(refused.has_value()) << c.name;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorruption) << c.name;
  }
}

// Returns whatever report a test wants and computes nothing.
class ScriptedEngine : public Engine {
 public:
  ScriptedEngine(const KvLayout* layout, Generation report)
      : layout_(layout), report_(std::move(report)) {}
  [[nodiscard]] const ModelIdentity& identity() const override { return identity_; }
  [[nodiscard]] PreprocessRecipe recipe(Modality) const override { return {}; }
  Result<Sequence> prepare(const Request&, std::span<const ContentDigest>) const override {
    return Sequence{};
  }
  Result<EncoderOutput> encode(const MediaItem&) const override { return EncoderOutput{}; }
  Result<Completion> generate(const Sequence&, std::span<const TensorViews>,
                              const GenerateOptions&) const override {
    return report_.completion;
  }
  [[nodiscard]] const KvLayout* kv_layout() const override { return layout_; }

 protected:
  Result<Generation> run(const Sequence&, std::span<const TensorViews>, const GenerateOptions&,
                         const KvUse&) const override {
    return report_;
  }

 private:
  ModelIdentity identity_ = afterimage::identity();
  const KvLayout* layout_;
  Generation report_;
};

Generation consistent_report() {
  Generation generation;
  generation.completion.prefilled = TokenCount(4);
  generation.completion.resumed_from = TokenCount(8);
  generation.kv.covered = TokenCount(12);
  generation.kv.rows.resize(4);
  return generation;
}

TEST(GenerateFrom, ChecksTheEnginesReport) {
  const Owned from;
  const KvLayout expected_layout = layout();
  const KvUse use{.resume_from = &from.state};
  const auto fine =
      ScriptedEngine(&expected_layout, consistent_report()).generate_from(prompt(), {}, {}, use);
  ASSERT_TRUE(fine.has_value()) << to_string(fine.error());
  EXPECT_EQ(fine->kv.origin, from.state.origin);
  const std::function<void(Generation&)> kFaults[] = {
      [](auto& g) { g.completion.resumed_from = TokenCount(0); },
      [](auto& g) { g.completion.prefilled = TokenCount(3); },
      [](auto& g) { g.completion.prefilled = TokenCount(12); },
      [](auto& g) { g.kv.covered = TokenCount(11); },
      [](auto& g) { g.kv.covered = TokenCount(13); },
      [](auto& g) { g.kv.rows.clear(); }};
  for (const auto& change : kFaults) {
    Generation report = consistent_report();
    change(report);
    const auto refused =
        ScriptedEngine(&expected_layout, report).generate_from(prompt(), {}, {}, use);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  }
}

TEST(GenerateFrom, UnsupportedWithoutAKvLayout) {
  const ScriptedEngine engine(nullptr, {});
  EXPECT_EQ(engine.generate_from(prompt(), {}, {}, {}).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace afterimage
