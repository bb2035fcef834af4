// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

struct LoadedEncoder;

/// A model of libllama that makes vectors of texts: BERT's family, such as MiniLM, BGE and E5.
///
/// Shape    One vector of length 1 for each text, pooled as the model's file says; a zero vector, which
///          is like no other, for a text with a word that the model has no token for. Of a text longer
///          than the model's context only the beginning counts, as in the libraries that the models
///          come from. Each text is computed alone, so a vector depends on nothing else.
/// Errors   kNotFound, kCorruption: no model; kUnsupported: it makes no vectors; kInvalidArgument: see
///          check_runs(); kUnavailable: the library failed.
/// Threads  Any; texts are computed one after the other.
class LoadedEmbedder {
 public:
  /// `threads`: of the computation; 0: one per core.
  static Result<std::unique_ptr<LoadedEmbedder>> open(const std::string& path,
                                                      std::uint32_t threads);
  ~LoadedEmbedder();
  LoadedEmbedder(const LoadedEmbedder&) = delete;
  LoadedEmbedder& operator=(const LoadedEmbedder&) = delete;

  /// Of the file's content: see content_name().
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::size_t dimensions() const;
  [[nodiscard]] Result<std::vector<float>> embed(std::string_view text);

 private:
  explicit LoadedEmbedder(std::unique_ptr<LoadedEncoder> encoder);
  std::unique_ptr<LoadedEncoder> encoder_;
};

}  // namespace afterimage
