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

// Any bytes will do: these checks read none.
std::vector<KvRows> rows(std::uint32_t first, std::uint32_t count, std::size_t size) {
  static const std::vector<std::byte> kBytes(256);
  return {{.first = TokenCount(first),
           .count = TokenCount(count),
           .bytes = std::span(kBytes).first(count * size)}};
}

// Twelve tokens; [3, 7) is an unsplittable image.
Sequence prompt() {
  Sequence sequence;
  sequence.tokens.resize(12);
  sequence.spans = {{.offset = TokenCount(3), .length = TokenCount(4), .splittable = false}};
  return sequence;
}

KvSnapshot snapshot(std::uint32_t at) {
  const std::uint32_t window = std::min(at, 5U);
  return {.at = TokenCount(at), .groups = {{}, rows(at - window, window, 4), {}, rows(0, 1, 16)}};
}

// Of 8 tokens; its full rows lie in two pieces.
KvSlice slice_of_8() {
  std::vector<KvRows> full = rows(0, 3, 8);
  full.push_back(rows(3, 5, 8).front());
  return {.origin = kv_origin(identity(), layout()),
          .end = TokenCount(8),
          .rows = {full, {}, {}, {}},
          .snapshots = {snapshot(8)}};
}

Result<void> check(const KvSlice& slice) {
  return check_resume(slice, layout(), kv_origin(identity(), layout()), prompt());
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

TEST(KvResume, RowCountFollowsTheKind) {
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

TEST(KvResume, AcceptsAValidSlice) {
  const KvSlice good = slice_of_8();
  const auto checked = check(good);
  EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  EXPECT_EQ(rows_to_restore(good, layout(), 0).size(), 2U);
  EXPECT_EQ(rows_to_restore(good, layout(), 1).front().first, TokenCount(3));
  EXPECT_TRUE(rows_to_restore(good, layout(), 2).empty());
  EXPECT_EQ(rows_to_restore(good, layout(), 3).front().bytes.size(), 16U);
}

TEST(KvResume, IgnoresEarlierSnapshots) {
  KvSlice slice = slice_of_8();
  slice.snapshots.insert(slice.snapshots.begin(), snapshot(4));
  EXPECT_TRUE(check(slice).has_value());
  slice.snapshots.pop_back();
  EXPECT_EQ(check(slice).error().code, ErrorCode::kCorruption) << "none at the end";
}

// Cases that need an alignment above 1; the others are in tests/conformance/engine_conformance.h.
TEST(KvResume, RejectsAPositionOffTheAlignment) {
  KvSlice slice = slice_of_8();
  slice.end = TokenCount(9);
  const auto refused = check(slice);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("multiples of 4"), std::string::npos);
  const KvWanted wanted{.snapshots = {TokenCount(9)}};
  EXPECT_EQ(check_wanted(wanted, layout(), prompt(), TokenCount(8)).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(KvResume, ErrorNamesTheGroupAndTheDefect) {
  KvSlice slice = slice_of_8();
  slice.snapshots.clear();
  auto refused = check(slice);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_EQ(refused.error().message,
            "a state of 8 tokens: group 1 (sliding) has 0 rows; it must have 5");
  slice.snapshots = {snapshot(8)};
  slice.snapshots[0].groups[1] = rows(2, 6, 4);  // more than the window, which a cache may store
  EXPECT_TRUE(check_slice(slice, layout()).has_value());
  refused = check(slice);
  EXPECT_EQ(refused.error().message,
            "a state of 8 tokens: group 1 (sliding) has 6 rows; it must have 5");
}

TEST(KvCapture, EndOfRunIsRoundedDownToTheAlignment) {
  const TokenCount covered(14);
  KvSlice capture{.begin = TokenCount(8),
                  .end = TokenCount(12),
                  .rows = {rows(8, 4, 8), {}, {}, {}},
                  .snapshots = {snapshot(8), snapshot(12)}};
  const KvWanted wanted{
      .rows_from = TokenCount(8), .rows_to = kEndOfRun, .snapshots = {TokenCount(8), kEndOfRun}};
  const auto checked = check_capture(capture, wanted, covered, layout());
  EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  capture.end = covered;
  EXPECT_EQ(check_capture(capture, wanted, covered, layout()).error().code, ErrorCode::kCorruption);
}

TEST(KvCapture, RejectsACaptureThatDiffersFromTheRequest) {
  const TokenCount covered(12);
  const KvSlice good{.end = TokenCount(8),
                     .rows = {rows(0, 8, 8), {}, {}, {}},
                     .snapshots = {snapshot(4), snapshot(8)}};
  const KvWanted wanted{.rows_to = TokenCount(8), .snapshots = {TokenCount(4), TokenCount(8)}};
  EXPECT_TRUE(check_capture(good, wanted, covered, layout()).has_value());
  EXPECT_FALSE(check_capture(good, wanted, TokenCount(7), layout()).has_value());
  const struct {
    const char* name;
    std::function<void(KvSlice&)> change;
  } kCases[] = {
      {"rows of less", [](auto& c) { c.end = TokenCount(7); }},
      {"rows from later", [](auto& c) { c.begin = TokenCount(1); }},
      {"fewer rows", [](auto& c) { c.rows[0] = rows(0, 7, 8); }},
      {"narrower rows", [](auto& c) { c.rows[0] = rows(0, 8, 7); }},
      {"no rows", [](auto& c) { c.rows[0].clear(); }},
      {"rows that are not there", [](auto& c) { c.rows[0][0].bytes = {}; }},
      {"rows where none belong", [](auto& c) { c.rows[2] = rows(0, 8, 8); }},
      {"no groups", [](auto& c) { c.rows.clear(); }},
      {"a snapshot less", [](auto& c) { c.snapshots.pop_back(); }},
      {"a snapshot more", [](auto& c) { c.snapshots.push_back(snapshot(12)); }},
      {"a snapshot elsewhere", [](auto& c) { c.snapshots[0] = snapshot(5); }},
      {"a snapshot without groups", [](auto& c) { c.snapshots[0].groups.clear(); }},
      {"a window one short", [](auto& c) { c.snapshots[1].groups[1] = rows(4, 4, 4); }},
      {"a state that is missing", [](auto& c) { c.snapshots[0].groups[3].clear(); }},
      {"two states", [](auto& c) { c.snapshots[0].groups[3] = rows(0, 2, 16); }},
  };
  for (const auto& c : kCases) {
    KvSlice capture = good;
    c.change(capture);
    const auto refused = check_capture(capture, wanted, covered, layout());
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
  generation.covered = TokenCount(12);
  generation.kv.rows.resize(4);
  return generation;
}

TEST(GenerateFrom, ChecksTheEnginesReport) {
  const KvSlice from = slice_of_8();
  const KvLayout expected_layout = layout();
  const KvUse use{.resume_from = &from};
  const auto fine =
      ScriptedEngine(&expected_layout, consistent_report()).generate_from(prompt(), {}, {}, use);
  ASSERT_TRUE(fine.has_value()) << to_string(fine.error());
  EXPECT_EQ(fine->kv.origin, from.origin);
  const std::function<void(Generation&)> kFaults[] = {
      [](auto& g) { g.completion.resumed_from = TokenCount(0); },
      [](auto& g) { g.completion.prefilled = TokenCount(3); },
      [](auto& g) { g.completion.prefilled = TokenCount(12); },
      [](auto& g) { g.covered = TokenCount(11); },
      [](auto& g) { g.covered = TokenCount(13); },
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
