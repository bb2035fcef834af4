// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/question.h"
#include "afterimage/request.h"
#include "afterimage/result.h"

namespace afterimage {

/// The question's text, and the messages with a QuestionSlot in its place.
struct SplitRequest {
  std::string question;
  std::vector<ScopeMessage> messages;
};

/// Splits a request into question (the last text of the last message) and the rest. `contents` are
/// the digests of the request's media in order.
///
/// Errors   kInvalidArgument: the last message is not the user's or has no text, or the number of
///          digests and media differ. Such a request is not cached.
/// Threads  Any.
[[nodiscard]] Result<SplitRequest> split_request(const Request& request,
                                                 std::span<const ContentDigest> contents);

}  // namespace afterimage
