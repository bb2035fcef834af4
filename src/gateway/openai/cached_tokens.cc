// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/cached_tokens.h"

#include <map>
#include <string>
#include <string_view>

namespace afterimage {
namespace {

using Fields = std::map<std::string, std::string>;

/// A field of the body, as canonical JSON.
bool is_on(const Fields& fields, std::string_view name) {
  const auto found = fields.find(std::string(name));
  return found != fields.end() && found->second != "null" && found->second != "false";
}

bool has_several_choices(const Fields& sampling) {
  const auto is_several = [&](std::string_view name) {
    return is_on(sampling, name) && sampling.at(std::string(name)) != "1";
  };
  return is_several("n") || is_several("best_of");
}

bool asks_for_the_prompts_probabilities(const Scope& scope) {
  if (is_on(scope.other, "/prompt_logprobs")) return true;
  return is_on(scope.other, "/echo") &&
         (is_on(scope.sampling, "logprobs") || is_on(scope.sampling, "top_logprobs"));
}

}  // namespace

bool tells_what_was_cached(const ApiRequest& request) {
  return !has_several_choices(request.scope.sampling) &&
         !asks_for_the_prompts_probabilities(request.scope);
}

}  // namespace afterimage
