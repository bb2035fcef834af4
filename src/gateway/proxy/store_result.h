// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/result.h"
#include "gateway/openai/record.h"
#include "gateway/proxy/reasons.h"

namespace afterimage {

struct StoreRules {
  bool tool_calls = false;      // answers.tool_calls
  bool cache_truncated = true;  // answers.cache_truncated
  bool limit_is_known = false;  // the token limit is part of the request's identity
  /// However the model ended it, it is stored: without those that a limit or a filter ended, stored
  /// draws would not be distributed as the model's answers.
  bool is_draw = false;
};
/// kStored: a record that ended like this may be stored. Truncated answers and those that call
/// tools are then stored for the very same request only (AnswerFacts::keep_partial).
[[nodiscard]] StoreResult what_may_be_stored(const ApiRecord& record, const StoreRules& rules);

/// Why there is no record of a response with this status; 0: the backend failed before a head.
[[nodiscard]] StoreResult result_without_record(const Error& error, unsigned status);
/// Why the cache did not take an answer.
[[nodiscard]] StoreResult result_of_insert(const Error& error);

}  // namespace afterimage
