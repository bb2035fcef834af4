// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "afterimage/question.h"

namespace afterimage {

/// Is notified of every question whose answer is removed or replaced. Called under the cache's
/// lock: it must not call back.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  virtual void answer_removed(const ScopeId& scope, std::string_view question) = 0;
};

}  // namespace afterimage
