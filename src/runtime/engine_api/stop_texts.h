// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

/// Finds the first stop text in a text that arrives in pieces, and holds back what may be its
/// beginning.
/// Cost     A comparison with each stop text for each byte held back.
/// Threads  One at a time.
class StopTexts {
 public:
  /// Empty stop texts are ignored.
  explicit StopTexts(std::vector<std::string> stops);

  /// What `piece` releases: all text before the first stop text, or what cannot begin one.
  [[nodiscard]] std::string add(std::string_view piece);
  /// The text held back, which did not become a stop text.
  [[nodiscard]] std::string finish();
  /// Whether a stop text was found; add() then releases no more.
  [[nodiscard]] bool found() const { return found_; }

 private:
  [[nodiscard]] bool may_begin_one(std::string_view text) const;

  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace afterimage
