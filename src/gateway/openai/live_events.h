// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "gateway/openai/record.h"
#include "gateway/openai/record_format.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// The events of an answer that an engine of this process is still writing, and their record: the
/// one that StreamRecorder would make of the events with their usage, without reading them.
///
/// Threads  One at a time.
class LiveEvents {
 public:
  /// `operation` is chat or completion.
  LiveEvents(ApiOperation operation, const ApiStamp& stamp, std::string_view model);

  /// "data: …\n\n", the role before the first.
  [[nodiscard]] std::string text(std::string_view more);
  /// The finish reason, the usage if it is wanted, and [DONE].
  [[nodiscard]] std::string end(const PlainAnswer& answer, bool include_usage);
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
