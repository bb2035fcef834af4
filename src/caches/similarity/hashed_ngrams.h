// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "caches/similarity/embedder.h"

namespace afterimage {

/// Text embedder by feature hashing of words, word pairs and character n-grams. Built in, needs no
/// model; knows no synonyms or languages: rewordings that share words are similar, but so are
/// questions that differ in the one word that matters.
///
/// Shape    ASCII letters in lower case; words weigh 1, adjacent pairs 0.5, the n-grams of 3 to 5
///          bytes share 1 per word. Features that hash to one dimension are summed with signs.
/// Errors   kUnsupported: an image.
/// Cost     Some microseconds for a dozen words.
/// Source   src/caches/similarity/DESIGN.md. name() identifies the values: changed values need a
///          new name.
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
