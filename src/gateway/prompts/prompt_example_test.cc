// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_example.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

const PartPlace kSystem{.kind = PartKind::kSystem};

ApiRequest asks(const std::string& system) {
  const std::string body = R"({"model":"m","messages":[{"role":"system","content":)" + system +
                           R"(},{"role":"user","content":"Go on."}]})";
  return read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value();
}
std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

TEST(PromptExample, IsTheTextOnBothSidesOfThePlace) {
  const auto example =
      example_of(asks(in_quotes("Today: 10:15:02. Rules.")), {.part = kSystem, .offset = 13});
  ASSERT_TRUE(example.has_value());
  EXPECT_EQ(example->before, "Today: 10:15:");
  EXPECT_EQ(example->after, "02. Rules.");
}

TEST(PromptExample, IsBoundedInWholeCharacters) {
  for (std::size_t shift = 0; shift < 3; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 200; ++i) text += "日";
    for (std::size_t offset = 300; offset < 303; ++offset) {
      const auto example = example_of(asks(in_quotes(text)), {.part = kSystem, .offset = offset});
      ASSERT_TRUE(example.has_value());
      for (const std::string& side : {example->before, example->after}) {
        ASSERT_EQ(side.size() % 3, 0U) << shift << " " << offset;
        for (std::size_t i = 0; i < side.size(); i += 3) EXPECT_EQ(side.substr(i, 3), "日");
      }
      EXPECT_GT(example->before.size(), PromptExample::kBefore - 6);
      EXPECT_LE(example->before.size(), PromptExample::kBefore);
      EXPECT_GT(example->after.size(), PromptExample::kAfter - 6);
      EXPECT_LE(example->after.size(), PromptExample::kAfter + 2);
    }
  }
}

TEST(PromptExample, GoesOverThePiecesOfAMessage) {
  const ApiRequest request =
      asks(R"([{"type":"text","text":"It is "},{"type":"text","text":"10:15"}])");
  const auto example = example_of(request, {.part = kSystem, .offset = 6});
  ASSERT_TRUE(example.has_value());
  EXPECT_EQ(example->before, "It is ");
  EXPECT_EQ(example->after, "10:15");
}

TEST(PromptExample, APartThatMovedIsShownFromItsBeginning) {
  const auto example =
      example_of(asks(in_quotes("Rules.")), {.part = kSystem, .change = PartChange::kReordered});
  ASSERT_TRUE(example.has_value());
  EXPECT_EQ(example->after, "Rules.");
}

TEST(PromptExample, ThereIsNoneOfWhatIsNotInThePrompt) {
  const ApiRequest request = asks(in_quotes("Rules."));
  EXPECT_FALSE(example_of(request, {}).has_value());
  EXPECT_FALSE(example_of(request, {.part = kSystem, .change = PartChange::kRemoved}).has_value());
  EXPECT_FALSE(example_of(request, {.part = PartPlace{.kind = PartKind::kMedia}}).has_value());
  EXPECT_FALSE(example_of(request, {.part = PartPlace{.kind = PartKind::kModel}}).has_value());
  EXPECT_FALSE(example_of(request, {.part = kSystem, .offset = 600}).has_value());
}

}  // namespace
}  // namespace afterimage
