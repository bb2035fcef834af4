// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <string>

#include "afterimage/answer.h"
#include "afterimage/question.h"

namespace afterimage::testing {

/// The n-th scope of one space.
inline ScopeId scope(unsigned n) {
  ScopeId id;
  id.key.bytes[9] = static_cast<std::byte>(n);  // outside the bytes that seed the index's hash
  return id;
}

inline Answer answer(const std::string& text) {
  return {.text = text,
          .finish_reason = "stop",
          .model = "m",
          .prompt_tokens = TokenCount(100),
          .output_tokens = TokenCount(10)};
}

}  // namespace afterimage::testing
