// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/store_result.h"

#include <string>

namespace afterimage {

StoreResult what_may_be_stored(const ApiRecord& record, const StoreRules& rules) {
  if (record.calls_tools())
    return rules.tool_calls ? StoreResult::kStored : StoreResult::kToolCalls;
  const std::string reason = record.finish_reason();
  if (reason == "stop") return StoreResult::kStored;
  if (rules.is_draw && (reason == "length" || reason == "content_filter")) {
    return StoreResult::kStored;
  }
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
