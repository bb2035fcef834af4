// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/engine_choice.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "foundation/platform/testing/manual_wall_clock.h"
#include "gateway/openai/live_events.h"
#include "gateway/openai/record.h"

namespace afterimage {
namespace {

/// Reads a text of so many bytes as content, and no longer one.
class ShortFormat final : public AnswerFormat {
 public:
  explicit ShortFormat(std::size_t most) : most_(most) {}
  Result<AnswerMessage> read(std::string_view text, bool /*is_whole*/) const override {
    if (text.size() > most_) return fail(ErrorCode::kCorruption, "it is too long");
    return AnswerMessage{.content = std::string(text), .reasoning = {}, .tool_calls = {}};
  }

 private:
  std::size_t most_;
};

/// The content of an answer in these pieces.
std::string content_of(std::size_t most, std::initializer_list<std::string_view> pieces) {
  const testing::ManualWallClock clock;
  IdGenerator ids(clock);
  LiveEvents events(ApiOperation::kChat, ids.answer(ApiOperation::kChat), "m", "f");
  EngineChoice choice(0, events, ids);
  choice.set_format(std::make_shared<const ShortFormat>(most));
  Completion done;
  done.ended = true;
  OpenEvents sent;
  for (const std::string_view piece : pieces) {
    sent += choice.add(piece);
    done.text += piece;
  }
  sent += choice.finish(done);
  static_cast<void>(events.end({.model = "m"}, TokenCount(0), false));
  return events.record().text();
}

TEST(EngineChoice, SendsWhatItReads) { EXPECT_EQ(content_of(9, {"ab", "cd", "e"}), "abcde"); }

// What followed a text that could not be read was lost without a word.
TEST(EngineChoice, SendsATextThatCannotBeReadAsItIs) {
  EXPECT_EQ(content_of(3, {"ab", "cd", "e"}), "abcde");
  EXPECT_EQ(content_of(0, {"ab", "cd"}), "abcd");
}

}  // namespace
}  // namespace afterimage
