// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "afterimage/request.h"
#include "afterimage/result.h"

namespace afterimage {

/// Limits of what llama.cpp walks through recursively, so that no request costs a thread its stack.
/// DESIGN.md lists the tests.
///
/// Errors   kInvalidArgument: what exceeds which limit.
/// Threads  Any. Cost: one pass.
struct RequestLimits {
  static constexpr std::size_t kDepth = 128;            // of brackets inside each other
  static constexpr std::size_t kGrammarRules = 10'000;  // of a client's grammar
  static constexpr std::size_t kName =
      1'024;  // bytes of a member's or a tool's name, and of a $ref
  static constexpr std::size_t kOptionalMembers = 256;  // of an object that a schema describes
  static constexpr std::size_t kReferences = 256;       // different $refs of a schema
  static constexpr std::size_t kReferenceChain = 32;    // $refs that lead to nothing but a $ref
  static constexpr std::size_t kAnswerDepth = 1'000;  // of brackets inside each other in an answer
  static constexpr std::size_t kRun = 4'000;          // characters that a pattern matches at once
};

/// A client's grammar, in llama.cpp's GBNF.
[[nodiscard]] Result<void> check_grammar(std::string_view grammar);
/// A JSON text with schemas: of a response format, or of tools.
[[nodiscard]] Result<void> check_schemas(std::string_view json);
/// A text that may be JSON: what stands inside strings of a request's JSON.
[[nodiscard]] Result<void> check_depth(std::string_view json);
/// A model's answer, before tool calls are read out of it. kCorruption: it cannot be read.
[[nodiscard]] Result<void> check_answer(std::string_view answer);
/// All that a request brings.
[[nodiscard]] Result<void> check_request(const Request& request);

/// How a model's tokenizer splits a text into words.
enum class WordSplit : unsigned char {
  kByHand,         // without regular expressions
  kByClass,        // std::regex; a match has only letters, digits, blanks or other characters
  kByBlanks,       // std::regex; a match has anything but blanks
  kThroughBlanks,  // std::regex; a match has letters and blanks
};
/// By `tokenizer.ggml.model` and `tokenizer.ggml.pre` of the model's file.
[[nodiscard]] WordSplit word_split_of(std::string_view model, std::string_view pre);
/// std::regex recurses once for each character that it matches.
[[nodiscard]] Result<void> check_runs(std::string_view text, WordSplit split);

}  // namespace afterimage
