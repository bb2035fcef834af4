// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/clock.h"
#include "gateway/proxy/reasons.h"

namespace afterimage {

/// An error of the gateway's own, instead of a response.
struct Refusal {
  unsigned status;
  std::string message;
  std::string_view type;
  Reason code;
  std::optional<Duration> retry_after = std::nullopt;
  bool is_final = false;  // clients are told not to ask again
};

/// The request is at fault.
inline Refusal refused(unsigned status, Reason code, std::string message) {
  return {.status = status,
          .message = std::move(message),
          .type = "invalid_request_error",
          .code = code};
}

}  // namespace afterimage
