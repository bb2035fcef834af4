// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "afterimage/engine.h"

namespace afterimage {
namespace {

/// Rows of two bytes, all `fill`.
Tensor rows(std::uint64_t count, unsigned fill, DType dtype = DType::kU8) {
  const std::size_t size = 2 * count * size_of(dtype).value();
  return {.dtype = dtype,
          .shape = Shape{count, 2},
          .bytes = std::vector<std::byte>(size, static_cast<std::byte>(fill))};
}

Result<EncoderOutput> joined(const std::vector<EncoderOutput>& parts) {
  std::vector<TensorViews> views;
  for (const EncoderOutput& part : parts) views.push_back(views_of(part).value());
  return join_parts(views);
}

TEST(JoinParts, PutsTheRowsOfEachTensorInOrder) {
  const auto whole = joined({{rows(1, 1), rows(2, 7)}, {rows(3, 2), rows(1, 8)}});
  ASSERT_TRUE(whole.has_value()) << to_string(whole.error());
  ASSERT_EQ(whole->size(), 2U);
  EXPECT_EQ((*whole)[0].shape, (Shape{4, 2}));
  EXPECT_EQ((*whole)[1].shape, (Shape{3, 2}));
  std::vector<std::byte> first(8, std::byte(2));
  first[0] = first[1] = std::byte(1);
  EXPECT_EQ((*whole)[0].bytes, first);
  std::vector<std::byte> second(6, std::byte(7));
  second[4] = second[5] = std::byte(8);
  EXPECT_EQ((*whole)[1].bytes, second);
}

TEST(JoinParts, OnePartIsTheWhole) {
  const EncoderOutput part{rows(3, 5)};
  const auto whole = joined({part});
  EXPECT_EQ((*whole)[0].bytes, part[0].bytes);
  EXPECT_EQ((*whole)[0].shape, part[0].shape);
}

TEST(JoinParts, RefusesPartsThatDoNotFit) {
  Tensor wider = rows(1, 1);
  wider.shape = Shape{1, 1, 2};
  const Tensor scalar{.dtype = DType::kU8, .shape = Shape{}, .bytes = {std::byte(1)}};
  const struct {
    const char* name;
    std::vector<EncoderOutput> parts;
  } kCases[] = {
      {"no parts", {}},
      {"no tensors", {{}}},
      {"a tensor too few", {{rows(1, 1), rows(1, 1)}, {rows(1, 1)}}},
      {"a tensor too many", {{rows(1, 1)}, {rows(1, 1), rows(1, 1)}}},
      {"another dtype", {{rows(1, 1)}, {rows(1, 1, DType::kI8)}}},
      {"another rank", {{rows(1, 1)}, {wider}}},
      {"a scalar", {{scalar}}},
      {"a scalar after rows", {{rows(1, 1)}, {scalar}}},
  };
  for (const auto& c : kCases) {
    const auto refused = joined(c.parts);
    ASSERT_FALSE(refused.has_value()) << c.name;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorruption) << c.name;
  }
}

/// An engine as those written before parts existed.
class PlainEngine final : public Engine {
 public:
  [[nodiscard]] const ModelIdentity& identity() const override { return identity_; }
  [[nodiscard]] PreprocessRecipe recipe(Modality /*modality*/) const override { return {}; }
  Result<Sequence> prepare(const Request& /*request*/,
                           std::span<const ContentDigest> /*contents*/) const override {
    return Sequence();
  }
  Result<EncoderOutput> encode(const MediaItem& /*item*/) const override {
    return EncoderOutput{rows(1, 1)};
  }
  Result<Completion> generate(const Sequence& /*prompt*/,
                              std::span<const TensorViews> /*embeddings*/,
                              const GenerateOptions& /*options*/) const override {
    return Completion();
  }

 private:
  ModelIdentity identity_;
};

TEST(Split, AnEngineSplitsNothingUnlessItSaysSo) {
  const PlainEngine engine;
  EXPECT_EQ(engine.split(MediaItem()).value(), nullptr);
  const PartToEncode part;
  int refused = 0;
  engine.encode_parts({&part, 1}, [&](std::vector<Encoded> some) {
    for (const Encoded& one : some) {
      refused +=
          one.output.has_value() || one.output.error().code != ErrorCode::kUnsupported ? 0 : 1;
    }
  });
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace afterimage
