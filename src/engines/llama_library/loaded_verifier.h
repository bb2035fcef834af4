// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

struct LoadedEncoder;

/// A model of libllama that reads two texts at once and gives them a score: a reranker.
///
/// Shape    A logit, as `llama-server --reranking` gives it. The texts are joined as there, so both
///          give the same score.
/// Errors   kNotFound, kCorruption: no model; kUnsupported: not a reranker; kInvalidArgument: the
///          texts are longer than the model's context, and a score of their beginnings says nothing
///          of their ends; kUnavailable: the library failed.
/// Threads  Any; pairs are computed one after the other.
class LoadedVerifier {
 public:
  /// `threads`: of the computation; 0: one per core.
  static Result<std::unique_ptr<LoadedVerifier>> open(const std::string& path,
                                                      std::uint32_t threads);
  ~LoadedVerifier();
  LoadedVerifier(const LoadedVerifier&) = delete;
  LoadedVerifier& operator=(const LoadedVerifier&) = delete;

  /// Of the file's content: see content_name().
  [[nodiscard]] const std::string& name() const;
  /// The lowest float, if the model has no token for a word of either: it would read all such words alike.
  [[nodiscard]] Result<float> score(std::string_view query, std::string_view document);

 private:
  explicit LoadedVerifier(std::unique_ptr<LoadedEncoder> encoder);
  std::unique_ptr<LoadedEncoder> encoder_;
};

}  // namespace afterimage
