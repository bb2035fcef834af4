// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/prompt_rows.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "engines/reference/tokenizer.h"

namespace afterimage {
namespace {

constexpr std::size_t kWidth = 32;

std::vector<float> counting(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i);
  return numbers;
}
const std::vector<float> kNumbers = counting(1000);

TensorView tensor(DType dtype, const Shape& shape) {
  const auto bytes = std::as_bytes(std::span(kNumbers));
  return TensorView::over(dtype, shape, bytes.first(tensor_bytes(dtype, shape)->value())).value();
}

struct Given {
  Sequence prompt;
  std::vector<TensorViews> views;
};

// "a", three placeholders of an image, "b", five of another.
Given two_images() {
  Given given;
  const auto place = [&given](char text, std::uint32_t length) {
    given.prompt.tokens.push_back(static_cast<TokenId>(text));
    given.prompt.spans.push_back(
        {.offset = TokenCount(static_cast<std::uint32_t>(given.prompt.tokens.size())),
         .length = TokenCount(length)});
    given.prompt.tokens.insert(given.prompt.tokens.end(), length, placeholder(Modality::kImage));
    given.views.push_back({tensor(DType::kF32, {length, kWidth})});
  };
  place('a', 3);
  place('b', 5);
  return given;
}

Result<PromptRows> rows_of(const Given& given, std::size_t planes = 0) {
  return PromptRows::of(given.prompt, given.views, kWidth, planes);
}

TEST(PromptRows, MediaRowsAreAtTheirSpans) {
  const PromptRows rows = rows_of(two_images()).value();
  ASSERT_EQ(rows.size(), 10U);
  EXPECT_EQ(rows.rows()[0].token, TokenId('a'));
  EXPECT_EQ(rows.rows()[0].media, nullptr);
  EXPECT_EQ(rows.rows()[1].media[1], 1.0F);
  EXPECT_EQ(rows.rows()[3].media[0], 2.0F * kWidth);
  EXPECT_EQ(rows.rows()[4].media, nullptr);
  EXPECT_EQ(rows.rows()[9].media[0], 4.0F * kWidth);
  EXPECT_EQ(rows.rows()[9].planes[0], nullptr);
}

TEST(PromptRows, ImagesHavePlanesAndAudioHasNone) {
  Given given = two_images();
  given.views[0].push_back(given.views[0][0]);
  given.prompt.spans[1].modality = Modality::kAudio;
  for (std::size_t i = 5; i < 10; ++i) given.prompt.tokens[i] = placeholder(Modality::kAudio);
  const PromptRows rows = rows_of(given, 1).value();
  EXPECT_EQ(rows.rows()[2].planes[0][0], 1.0F * kWidth);
  EXPECT_EQ(rows.rows()[2].planes[1], nullptr);
  EXPECT_EQ(rows.rows()[6].planes[0], nullptr);
}

TEST(PromptRows, CoveredSpansNeedNoEmbeddings) {
  const auto rows = [](const Given& given, std::uint32_t covered) {
    return PromptRows::of(given.prompt, given.views, kWidth, 0, TokenCount(covered));
  };
  Given given = two_images();
  given.views[0].clear();
  EXPECT_FALSE(rows(given, 3).has_value()) << "one of its rows is still to be computed";
  EXPECT_EQ(rows(given, 4)->rows()[8].media[0], 3.0F * kWidth);
  given.views[1].clear();
  EXPECT_FALSE(rows(given, 9).has_value());
  EXPECT_TRUE(rows(given, 10).has_value());
}

TEST(PromptRows, RejectsMismatchedInputByName) {
  const struct {
    const char* named;
    std::function<void(Given&)> spoil;
  } kCases[] = {
      {"1 embeddings for 2", [&](auto& g) { g.views.pop_back(); }},
      {"span 1", [&](auto& g) { g.views[1].clear(); }},
      {"span 1", [&](auto& g) { g.views[1].push_back(g.views[1][0]); }},
      {"[4, 32]", [&](auto& g) { g.views[1] = {tensor(DType::kF32, {4, 32})}; }},
      {"[5, 31]", [&](auto& g) { g.views[1] = {tensor(DType::kF32, {5, 31})}; }},
      {"[160]", [&](auto& g) { g.views[1] = {tensor(DType::kF32, {160})}; }},
      {"f16", [&](auto& g) { g.views[1] = {tensor(DType::kF16, {5, 32})}; }},
      {"266", [&](auto& g) { g.prompt.tokens[0] = TokenId(266); }},
      {"-1", [&](auto& g) { g.prompt.tokens[0] = TokenId(-1); }},
      {"outside every span", [&](auto& g) { g.prompt.tokens[0] = token(SpecialToken::kImage); }},
      {"span 0", [&](auto& g) { g.prompt.spans[0].modality = Modality::kAudio; }},
      {"span", [&](auto& g) { g.prompt.spans[1].length = TokenCount(1000); }},
  };
  for (const auto& c : kCases) {
    Given given = two_images();
    c.spoil(given);
    const auto refused = rows_of(given);
    ASSERT_FALSE(refused.has_value()) << c.named;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find(c.named), std::string::npos) << refused.error().message;
  }
}

TEST(PromptRows, EmbeddingsMayBeUnaligned) {
  Given given = two_images();
  const auto bytes = given.views[0][0].bytes();
  std::vector<std::byte> odd(bytes.size() + 1);
  std::ranges::copy(bytes, odd.begin() + 1);
  const Shape shape = given.views[0][0].shape();
  given.views[0][0] = TensorView::over(DType::kF32, shape, std::span(odd).subspan(1)).value();
  EXPECT_EQ(rows_of(given)->rows()[3].media[0], 2.0F * kWidth);
}

}  // namespace
}  // namespace afterimage
