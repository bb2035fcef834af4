// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "gateway/openai/request.h"
#include "gateway/prompts/divergence.h"

namespace afterimage {

/// The text around the place where a prompt parts from an earlier one. Of the new prompt: nobody has the
/// text of the earlier one.
struct PromptExample {
  static constexpr std::size_t kBefore = 80;  // bytes at most, whole characters
  static constexpr std::size_t kAfter = 120;

  std::string before;
  std::string after;  // what changed, and how it goes on
};

/// nullopt: the place is not in a text of this prompt, as of a part that was removed, or of a picture.
///
/// Cost     Linear in the number of parts.
/// Threads  Any.
[[nodiscard]] std::optional<PromptExample> example_of(const ApiRequest& request,
                                                      const PromptDivergence& divergence);

}  // namespace afterimage
