// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "gateway/openai/live_events.h"

namespace afterimage::testing {

/// The record of a chat or completion answer as a server of this API would send it. Preconditions:
/// not an embedding, and a finish reason. Bytes of the text that are not UTF-8 are replaced.
[[nodiscard]] inline ApiRecord record_of(ApiOperation operation, const Answer& answer) {
  AFI_CHECK(!answer.finish_reason.empty());
  LiveEvents events(operation, {}, answer.model);
  if (!answer.text.empty()) static_cast<void>(events.add({.content = answer.text}));
  static_cast<void>(events.end(answer, TokenCount(0), false));
  return events.record();
}

}  // namespace afterimage::testing
