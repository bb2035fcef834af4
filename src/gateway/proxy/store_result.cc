// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/store_result.h"

#include <array>
#include <string>

#include "afterimage/check.h"

namespace afterimage {

std::string_view to_string(StoreResult result) {
  constexpr std::array<std::string_view, kStoreResults> kNames{
      "stored",    "truncated",    "tool_calls", "finish_reason", "no_store", "backend_error",
      "abandoned", "not_recorded", "too_large",  "no_space",      "blocked",  "invalidated"};
  return kNames[static_cast<std::size_t>(result)];
}

std::string_view explain(StoreResult result) {
  switch (result) {
    case StoreResult::kStored:
      break;
    case StoreResult::kTruncated:
      return "a token limit truncated it, and answers.cache_truncated is off or the request names "
             "no max_tokens";
    case StoreResult::kToolCalls:
      return "it calls tools, and answers.tool_calls is off";
    case StoreResult::kFinishReason:
      return "it did not end with finish_reason stop";
    case StoreResult::kNoStore:
      return "the request said no-store";
    case StoreResult::kBackendError:
      return "the model's server answered with an error";
    case StoreResult::kAbandoned:
      return "all clients left before its end, and answers.finish_abandoned is off";
    case StoreResult::kNotRecorded:
      return "it broke off, or is not an answer of this API";
    case StoreResult::kTooLarge:
      return "it is larger than answers.max_answer";
    case StoreResult::kNoSpace:
      return "it did not fit into memory.budget or the tenant's quota";
    case StoreResult::kBlocked:
      return "memory was short";
    case StoreResult::kInvalidated:
      return "something was invalidated while it was made";
  }
  AFI_CHECK(false);
}

StoreResult what_may_be_stored(const ApiRecord& record, const StoreRules& rules) {
  if (record.calls_tools())
    return rules.tool_calls ? StoreResult::kStored : StoreResult::kToolCalls;
  const std::string reason = record.finish_reason();
  if (reason == "stop") return StoreResult::kStored;
  if (reason != "length") return StoreResult::kFinishReason;
  return rules.cache_truncated && rules.limit_is_known ? StoreResult::kStored
                                                       : StoreResult::kTruncated;
}

StoreResult result_without_record(const Error& error, unsigned status) {
  if (error.code == ErrorCode::kCancelled) return StoreResult::kAbandoned;
  if (status != 200) return StoreResult::kBackendError;
  return error.code == ErrorCode::kLimitExceeded ? StoreResult::kTooLarge
                                                 : StoreResult::kNotRecorded;
}

StoreResult result_of_insert(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return StoreResult::kInvalidated;
  return error.code == ErrorCode::kUnavailable ? StoreResult::kBlocked : StoreResult::kNoSpace;
}

}  // namespace afterimage
