// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// Reads two questions at once and scores how surely they have the same answer: a cross-encoder.
/// Slower than vectors and more exact, so it is asked only about neighbours that no veto forbids.
///
/// Shape    A score is any finite number; more is surer. Models differ in their scales.
/// Errors   kUnavailable, kTimeout: a remote model did not answer. kCorruption: a response without
///          valid scores.
/// Threads  Any.
class Verifier {
 public:
  virtual ~Verifier() = default;

  /// Model and version. Evidence under different names is never mixed.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// One score per candidate, in order.
  [[nodiscard]] virtual Result<std::vector<float>> score(
      std::string_view question, std::span<const std::string_view> candidates) = 0;
};

}  // namespace afterimage
