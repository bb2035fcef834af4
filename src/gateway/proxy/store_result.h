// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/openai/record.h"

namespace afterimage {

/// Whether the response to a request was stored as an answer; if not, why.
enum class StoreResult : unsigned char {
  kStored,
  kTruncated,     // a token limit ended it, and it may not be kept: see what_may_be_stored()
  kToolCalls,     // it calls tools, and answers.tool_calls is off
  kFinishReason,  // it ended otherwise than by "stop": content_filter, …
  kNoStore,       // the request says no-store
  kBackendError,  // the backend refused it or failed
  kAbandoned,     // all clients left before its end
  kNotRecorded,   // its stream broke off, or it is not an answer of this API
  kTooLarge,      // larger than answers.max_answer
  kNoSpace,       // no room in memory.budget or in the tenant's quota
  kBlocked,       // memory is short, and no cache admits anything
  kInvalidated,   // something it may depend on was invalidated while it was made
};
inline constexpr std::size_t kStoreResults = 12;
/// "stored", "truncated", "tool_calls", …: labels of metrics, words of the admin API.
std::string_view to_string(StoreResult result);
/// Completes "the answer was not stored: …". Of every result but kStored.
std::string_view explain(StoreResult result);

struct StoreRules {
  bool tool_calls = false;      // answers.tool_calls
  bool cache_truncated = true;  // answers.cache_truncated
  bool limit_is_known = false;  // the token limit is part of the request's identity
};
/// kStored: a record that ended like this may be stored. Truncated answers and those that call
/// tools are then stored for the very same request only (AnswerFacts::keep_partial).
[[nodiscard]] StoreResult what_may_be_stored(const ApiRecord& record, const StoreRules& rules);

/// Why there is no record of a response with this status; 0: the backend failed before a head.
[[nodiscard]] StoreResult result_without_record(const Error& error, unsigned status);
/// Why the cache did not take an answer.
[[nodiscard]] StoreResult result_of_insert(const Error& error);

}  // namespace afterimage
