// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "engines/llama_library/library.h"

namespace afterimage {

/// A model of libllama that reads texts and generates none: what LoadedEmbedder and LoadedVerifier
/// have in common.
struct LoadedEncoder {
  std::string name;  // of the file's content: see content_name()
  OwnedWeights model;
  OwnedContext context;
  const llama_vocab* vocabulary = nullptr;
  WordSplit word_split = WordSplit::kByHand;
  std::size_t most = 0;  // tokens of a text
  std::mutex computing;

  /// Errors   kNotFound, kCorruption: no model; kUnavailable: no memory.
  static Result<std::unique_ptr<LoadedEncoder>> open(const std::string& path,
                                                     std::uint32_t threads);

  [[nodiscard]] enum llama_pooling_type pooling() const {
    return llama_pooling_type(context.get());
  }
  /// `special`: with the tokens that begin and end a text. kInvalidArgument: see check_runs().
  [[nodiscard]] Result<std::vector<llama_token>> tokens_of(std::string_view text,
                                                           bool special) const;
  /// Whether the model has a token for each part of the text. What it lacks is one and the same token,
  /// whatever was written.
  [[nodiscard]] bool knows(std::span<const llama_token> tokens) const;
  /// The first `count` numbers that the model gives to these tokens, of which there are at least one
  /// and at most `most`. kUnavailable: the library failed. Waits for other calls.
  [[nodiscard]] Result<std::vector<float>> run(std::vector<llama_token> tokens, std::size_t count);
};

}  // namespace afterimage
