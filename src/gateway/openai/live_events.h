// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "afterimage/units.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Makes the event stream of an answer while an engine generates it. StreamRecorder reads these
/// events as the record that record_of() makes of the finished answer.
///
/// Threads  One at a time.
class LiveEvents {
 public:
  /// `operation` is chat or completion.
  LiveEvents(ApiOperation operation, ApiStamp stamp, std::string model);

  /// One event "data: …\n\n" for new text; the first call of a chat puts the role event before it.
  [[nodiscard]] std::string text(std::string_view more);
  /// The last events: the finish reason, the usage if `include_usage`, and [DONE].
  [[nodiscard]] std::string end(const PlainAnswer& answer, bool include_usage);

 private:
  std::string begin();
  [[nodiscard]] std::string event(std::string_view text, std::string_view finish_reason) const;
  [[nodiscard]] nlohmann::ordered_json around(nlohmann::ordered_json choices) const;

  ApiOperation operation_;
  ApiStamp stamp_;
  std::string model_;
  bool begun_ = false;
};

}  // namespace afterimage
