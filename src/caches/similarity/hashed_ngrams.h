// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "caches/similarity/embedder.h"

namespace afterimage {

/// Texts by their words, pairs of words, and pieces of words, each hashed to a place with a sign.
/// Built in, learns nothing, knows no synonyms and no languages: rewordings that share words are
/// near each other, and so are questions that differ in the one word that matters.
///
/// Shape    Letters of ASCII in lower case; words weigh 1, pairs of neighbours 0.5, pieces of 3 to
/// 5
///          bytes share 1 a word. What several features add to one place is summed.
/// Errors   kUnsupported: a picture.
/// Cost     Some microseconds for a dozen words.
/// Source   src/vectors/DESIGN.md. What is computed is part of name(): a change gets a new one.
class HashedNgrams final : public Embedder {
 public:
  /// kInvalidArgument: fewer than 16 or more than 65,536 dimensions.
  static Result<HashedNgrams> create(std::size_t dimensions = 512);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return dimensions_; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override;

 private:
  explicit HashedNgrams(std::size_t dimensions);

  std::size_t dimensions_;
  std::string name_;
};

}  // namespace afterimage
