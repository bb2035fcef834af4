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

/// The events of an answer that is still being made, by the piece: what StreamRecorder reads as the
/// record that record_of() makes of the whole.
///
/// Threads  One at a time.
class LiveEvents {
 public:
  /// `operation` is chat or completion.
  LiveEvents(ApiOperation operation, ApiStamp stamp, std::string model);

  /// "data: …\n\n", the role before the first.
  [[nodiscard]] std::string text(std::string_view more);
  /// The finish reason, the usage if it is wanted, and [DONE].
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
