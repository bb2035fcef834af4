// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <llama-common/chat.h>

#include <set>
#include <string>
#include <vector>

#include "engines/llama_library/loaded_chat.h"

/// Included by loaded_chat.cc and loaded_sampler.cc only.
namespace afterimage {

struct ChatFormat::State {
  common_chat_parser_params parser;
  std::string grammar;   // GBNF; empty: any text
  bool is_lazy = false;  // the grammar applies from the first trigger on
  std::vector<std::string> trigger_patterns;
  std::vector<llama_token> trigger_tokens;
  std::vector<llama_token> prefill;  // of the answer, at the end of the prompt; the grammar has it
  std::set<llama_token> preserved;   // control tokens that belong to an answer's text
  std::vector<std::string> stops;
  std::string begun_content;  // of a message that the answer continues
  std::string begun_reasoning;
};

}  // namespace afterimage
