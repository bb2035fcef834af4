// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// An engine as clients see it.
struct ServedEngine {
  const Engine& engine;
  const EngineSettings& settings;
  GenerateOptions defaults;  // where a request chooses nothing
};

/// What clients of llama-server use besides the OpenAI API.
///
///   POST /tokenize        {"content", "add_special", "parse_special", "with_pieces"} → {"tokens"}
///   POST /detokenize      {"tokens"} → {"content"}
///   POST /apply-template  a chat → {"prompt"}
///   POST /v1/chat/completions/input_tokens  a chat → {"input_tokens"}
///   GET  /props           the model's name and file, context, lanes, defaults and chat template
///   GET  /slots           the lanes, and how many of them have a request
///
/// Errors   kInvalidArgument, naming the field; kNotFound: another path or method; kUnsupported:
///          the engine has no tokenizer for clients, except for counting a chat's tokens.
/// Threads  Any.
/// Source   tools/server/README.md of llama.cpp.
[[nodiscard]] Result<std::string> engine_helper(const ServedEngine& served, std::string_view method,
                                                std::string_view path, const std::string& body);

[[nodiscard]] bool is_engine_helper(std::string_view path);

}  // namespace afterimage
