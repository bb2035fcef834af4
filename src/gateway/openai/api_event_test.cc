// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/api_event.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

using End = ApiEvent::End;

std::string chunk(const std::string& reason, const std::string& text = "word") {
  return R"({"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":")" + text +
         R"("},"finish_reason":)" + reason + "}]}";
}

TEST(ApiEvent, TellsWithoutParsingThatAnAnswerGoesOn) {
  const struct {
    const char* what;
    std::string name;
    std::string data;
    bool goes_on;
    End end;
  } kCases[] = {
      {"a word", "", chunk("null"), true, End::kAwaited},
      {"with blanks", "", R"({"choices": [{"finish_reason" : null}]})", true, End::kAwaited},
      {"usage", "", R"({"choices":[],"usage":{"prompt_tokens":1}})", true, End::kNothing},
      {"the last one", "", chunk(R"("stop")"), false, End::kFinished},
      {"the first of two choices", "",
       R"({"choices":[{"finish_reason":null},{"finish_reason":"stop"}]})", false, End::kFinished},
      {"an error", "", R"({"error":{"message":"no"}})", false, End::kFailed},
      {"an error by its object", "", R"({"object":"error"})", false, End::kFailed},
      {"an error by its name", "error", "{}", false, End::kFailed},
      {"an error in escapes", "", R"({"\u0065rror":{"message":"no"}})", false, End::kFailed},
      {"a reason in escapes", "", R"({"choices":[{"finish_reaso\u006e":"stop"}]})", false,
       End::kFinished},
      {"a text about reasons", "", chunk("null", R"(\"finish_reason\":\"stop\")"), true,
       End::kAwaited},
      {"a text about errors", "", chunk("null", R"(the \"error\" field)"), true, End::kAwaited},
      {"no JSON", "", "word", true, End::kNothing},
  };
  for (const auto& c : kCases) {
    JsonReader reader;
    ApiEvent event(c.name, c.data, reader);
    EXPECT_EQ(event.surely_goes_on(), c.goes_on) << c.what;
    EXPECT_FALSE(event.is_parsed()) << c.what;
    EXPECT_EQ(event.end(), c.end) << c.what;
  }
}

}  // namespace
}  // namespace afterimage
