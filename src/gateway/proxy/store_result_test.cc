// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/store_result.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace afterimage {
namespace {

ApiRecord record(const std::string& finish, const std::string& message = R"("content":"x")") {
  return ApiRecord::of_body(
             ApiOperation::kChat,
             R"({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[)"
             R"({"index":0,"message":{"role":"assistant",)" +
                 message + R"(},"finish_reason":")" + finish + R"("}]})")
      .value();
}

TEST(StoreResult, EveryResultHasItsOwnNameAndReason) {
  std::set<std::string_view> names;
  std::set<std::string_view> reasons;
  for (std::size_t i = 0; i < kStoreResults; ++i) {
    names.insert(to_string(static_cast<StoreResult>(i)));
    if (i > 0) reasons.insert(explain(static_cast<StoreResult>(i)));
  }
  EXPECT_EQ(names.size(), kStoreResults);
  EXPECT_EQ(reasons.size(), kStoreResults - 1);
}

TEST(StoreResult, DependsOnHowTheAnswerEnded) {
  const StoreRules kDefaults{.tool_calls = false, .cache_truncated = true, .limit_is_known = true};
  const StoreRules kOff{.tool_calls = false, .cache_truncated = false, .limit_is_known = true};
  const StoreRules kNoLimit{.tool_calls = true, .cache_truncated = true, .limit_is_known = false};
  const ApiRecord calls = record("tool_calls", R"("content":null,"tool_calls":[{"id":"1"}])");
  const struct {
    const char* name;
    ApiRecord answer;
    StoreRules rules;
    StoreResult expected;
  } kCases[] = {
      {"whole", record("stop"), kOff, StoreResult::kStored},
      {"truncated", record("length"), kDefaults, StoreResult::kStored},
      {"truncated, switched off", record("length"), kOff, StoreResult::kTruncated},
      {"truncated, by a limit nobody names", record("length"), kNoLimit, StoreResult::kTruncated},
      {"filtered", record("content_filter"), kDefaults, StoreResult::kFinishReason},
      {"calls tools", calls, kDefaults, StoreResult::kToolCalls},
      {"calls tools, switched on", calls, kNoLimit, StoreResult::kStored},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(what_may_be_stored(c.answer, c.rules), c.expected) << c.name;
  }
}

TEST(StoreResult, SaysWhyThereIsNoRecordAndWhyTheCacheRefused) {
  EXPECT_EQ(result_without_record({ErrorCode::kCancelled, ""}, 0), StoreResult::kAbandoned);
  EXPECT_EQ(result_without_record({ErrorCode::kUnavailable, ""}, 0), StoreResult::kBackendError);
  EXPECT_EQ(result_without_record({ErrorCode::kInvalidArgument, ""}, 500),
            StoreResult::kBackendError);
  EXPECT_EQ(result_without_record({ErrorCode::kInvalidArgument, ""}, 200),
            StoreResult::kNotRecorded);
  EXPECT_EQ(result_without_record({ErrorCode::kLimitExceeded, ""}, 200), StoreResult::kTooLarge);
  EXPECT_EQ(result_of_insert({ErrorCode::kNoSpace, ""}), StoreResult::kNoSpace);
  EXPECT_EQ(result_of_insert({ErrorCode::kUnavailable, ""}), StoreResult::kBlocked);
  EXPECT_EQ(result_of_insert({ErrorCode::kCancelled, ""}), StoreResult::kInvalidated);
}

}  // namespace
}  // namespace afterimage
