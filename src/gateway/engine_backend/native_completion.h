// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "afterimage/engine.h"
#include "afterimage/reuse.h"

namespace afterimage {

/// POST /completion, llama-server's own form of a completion, for clients that were written for it:
/// prompts of text, tokens or both, "n_predict", "n_probs", "ignore_eos", "response_fields", timings.
/// Its answers are not cached; what the engine computes for them is.
struct NativeCompletion {
  const Engine& engine;
  Reuse& reuse;
  GenerateOptions defaults;
  std::string model;  // the name in the response
  TenantId tenant;

  /// The body of the response to `body`. A client that asks for a stream gets its events through
  /// `send`, and the body is empty.
  ///
  /// Errors   kInvalidArgument, kUnsupported: a field, by name; those of serve().
  /// Threads  Any.
  /// Source   tools/server/README.md of llama.cpp.
  [[nodiscard]] Result<std::string> answer(const std::string& body,
                                           const std::function<void(const std::string&)>& send,
                                           const std::stop_token& stop) const;
};

}  // namespace afterimage
