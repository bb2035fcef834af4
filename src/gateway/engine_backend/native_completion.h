// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/reuse.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// A request for NativeCompletion, read.
struct NativeRequest {
  struct Prompt {
    std::vector<TokenId> tokens;
    std::string text;
  };
  ApiRequest fields;  // as OpenAI's API has them
  std::vector<Prompt> prompts;
  bool is_list = false;  // one result for each prompt, in a list
  bool returns_tokens = false;
  std::vector<std::string> response_fields;  // empty: all
  GenerateOptions options;

  /// In tokens.
  [[nodiscard]] std::size_t longest_prompt() const;
};

/// POST /completion, llama-server's own form of a completion, for clients that were written for it:
/// prompts of text, tokens or both, "n_predict", "n_probs", "ignore_eos", "response_fields", timings.
/// Its answers are not cached; what the engine computes for them is.
struct NativeCompletion {
  const Engine& engine;
  Reuse& reuse;
  GenerateOptions defaults;
  std::string model;  // the name in the response
  Namespace space;    // of the tenant

  /// Reads the body of a request.
  ///
  /// Errors   kInvalidArgument, kUnsupported: a field, by name.
  /// Threads  Any.
  /// Source   tools/server/README.md of llama.cpp.
  [[nodiscard]] Result<NativeRequest> read(const std::string& body) const;
  /// The body of the response. A client that asks for a stream gets its events through `send`, and
  /// the body is empty. Errors as serve().
  [[nodiscard]] Result<std::string> answer(const NativeRequest& asked,
                                           const std::function<void(const std::string&)>& send,
                                           const std::stop_token& stop) const;
};

}  // namespace afterimage
