// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/kv.h"
#include "afterimage/result.h"
#include "caches/prefix/resume_point.h"

namespace afterimage {

/// How a query diverges from the cached sequences.
enum class Divergence : unsigned char {
  kNothing,  // the whole query is cached
  kUnknownNamespace,
  kEndOfCache,  // the cached sequence ends here
  kToken,       // the cached sequence continues with another token
  kMedia,       // the cached media differs here: other item, none, or another offset
};

/// "nothing", "unknown_namespace", "end_of_cache", "token", "media".
std::string_view to_string(Divergence divergence);

/// Why a request resumes where it does. to_string() writes it for a person.
struct PrefixExplanation {
  TokenCount length{};
  TokenCount matched{};
  Divergence divergence = Divergence::kNothing;  // at position `matched`
  std::optional<TokenId> asked;                  // the query's token at that position, if any
  std::optional<std::size_t> span;               // the query's media item at that position, if any
  ResumePoint point;
  std::vector<KvKind> kinds;      // of the layout's groups
  std::size_t media_covered = 0;  // media items of the query that need no encoder
  std::size_t media = 0;
};

std::string to_string(const PrefixExplanation& explanation);

}  // namespace afterimage
