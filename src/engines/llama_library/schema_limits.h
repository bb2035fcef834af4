// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/request.h"
#include "foundation/json/json_text.h"

/// What the grammars that llama.cpp's library "common" makes of JSON schemas do not enforce
/// (json-schema.cpp and json-schema-to-grammar.cpp; loaded_model_test.cc compares the patterns).
namespace afterimage {

/// The keywords of the schema and of those within it that its grammar leaves out.
[[nodiscard]] std::set<std::string> unenforced_keywords(const JsonValue& schema);

/// Whether the grammar enforces a "pattern"; otherwise it accepts any text.
[[nodiscard]] bool enforces_pattern(std::string_view pattern);

/// How a chat template has models write the arguments of a call.
enum class CallArguments : unsigned char {
  kJson,        // as JSON, whose grammar the parameters' schema makes
  kTaggedText,  // each in tags of its own: a text is not constrained, the rest is
  kFree,        // nothing is constrained
};

/// As Engine::unenforced().
[[nodiscard]] std::vector<std::string> unenforced_rules(const AnswerRules& rules,
                                                        CallArguments arguments);

}  // namespace afterimage
