// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "afterimage/answer_cache.h"
#include "caches/answers/testing/questions.h"

namespace afterimage::testing {

/// Facts that the filters below select.
inline AnswerFacts named_facts() { return {.tags = {"doc:1"}, .owner = TenantId("ann")}; }

struct FilterCase {
  const char* name;
  AnswerFilter filter;
  bool whole_scope = false;  // selects everything in scope(1), whatever its facts
};

/// One filter of each kind. Each selects the first answer of a cache, if it is in scope(1), has
/// named_facts(), contains `words` in its question and is older than `age`.
inline std::vector<FilterCase> filters_of_each_kind(const std::string& words, Duration age) {
  return {{"all", {}, true},
          {"a space", {.space = scope(1).space}, true},
          {"a scope", {.scope = scope(1).key}, true},
          {"a tag", {.tag = named_facts().tags.front()}},
          {"an owner", {.owner = named_facts().owner}},
          {"words", {.words = words}},
          {"what is older", {.older_than = age}},
          {"an entry", {.entry = AnswerEntryId{1}}}};
}

}  // namespace afterimage::testing
