// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <vector>

#include "testing/forwarding_engine.h"

namespace afterimage::testing {

/// Each byte is a token; 256 is the control token "<s>".
class ByteTokenizer final : public Tokenizer {
 public:
  Result<std::vector<TokenId>> tokenize(std::string_view text, Options options) const override {
    std::vector<TokenId> tokens;
    if (options.add_special) tokens.push_back(kStart);
    if (options.parse_special && text.starts_with("<s>")) {
      tokens.push_back(kStart);
      text.remove_prefix(3);
    }
    for (const char c : text) tokens.push_back(TokenId(static_cast<unsigned char>(c)));
    return tokens;
  }
  Result<std::string> bytes_of(TokenId token) const override {
    if (token == kStart) return "<s>";
    if (token > kStart) return fail(ErrorCode::kInvalidArgument, "it is not a token");
    return std::string(1, static_cast<char>(token));
  }
  Result<std::string> prompt_of(const Request& request) const override {
    std::string text;
    for (const Message& message : request.messages) {
      text += "<" + std::string(to_string(message.role)) + ">" +
              std::get<std::string>(message.parts.front());
    }
    return text;
  }
  const std::string& chat_template() const override { return template_; }
  TokenCount context() const override { return TokenCount(77); }
  std::vector<TokenId> end_tokens() const override { return {kStart}; }

 private:
  static constexpr TokenId kStart{256};
  std::string template_ = "{{ it }}";
};

/// With a tokenizer for clients, two lanes, and embeddings: how often each of three bytes occurs.
class TokenizingEngine final : public ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  const Tokenizer* tokenizer() const override { return &tokenizer_; }
  EngineLoad load() const override { return {.lanes = 2, .busy = 1}; }
  Result<std::vector<float>> embed(std::span<const TokenId> tokens) const override {
    if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "there are no tokens");
    std::vector<float> counts(3);
    for (const TokenId token : tokens) counts[static_cast<std::size_t>(token) % 3] += 1;
    return counts;
  }

 private:
  ByteTokenizer tokenizer_;
};

}  // namespace afterimage::testing
