// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {

/// kInvalidArgument: what a file says is not what it should say.
inline std::unexpected<Error> malformed(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace afterimage
