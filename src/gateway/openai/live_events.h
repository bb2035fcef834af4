// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "gateway/openai/record.h"
#include "gateway/openai/record_format.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Makes the event stream and the record of an answer while an engine generates it. The record is
/// the one that StreamRecorder would make by parsing the events with their usage.
///
/// Threads  One at a time.
class LiveEvents {
 public:
  /// `operation` is chat or completion.
  LiveEvents(ApiOperation operation, const ResponseStamp& stamp, std::string_view model);

  /// One event "data: …\n\n" for new text; the first call of a chat puts the role event before it.
  [[nodiscard]] std::string text(std::string_view more);
  /// The last events: the finish reason, the usage if `include_usage`, and [DONE].
  [[nodiscard]] std::string end(const EngineAnswer& answer, bool include_usage);
  /// After end().
  [[nodiscard]] ApiRecord record() const;

 private:
  [[nodiscard]] bool is_chat() const { return parts_.operation == ApiOperation::kChat; }
  std::string begin();
  /// Records the event, and says it. `inner` is JSON; `end` closes what the event opened.
  std::string event(std::string inner, const std::string& end);

  std::string model_;   // as JSON
  std::string sent_;    // what every event begins with, as it is sent
  std::string kept_;    // and as it is recorded: with gaps
  std::string choice_;  // what follows, up to the text
  bool begun_ = false;
  RecordParts parts_;
};

}  // namespace afterimage
