// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Reads the `cache` object of a body. nullopt: there is none.
///
/// Errors   kInvalidArgument, naming the member.
/// Threads  Any.
[[nodiscard]] Result<std::optional<ApiCacheDirectives>> read_cache_field(const JsonValue& cache);

}  // namespace afterimage
