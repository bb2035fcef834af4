// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes have an exact form; looser forms are stable when folded again, and no form is longer
// than its expanded contractions.
#include <cstdint>
#include <string_view>

#include "afterimage/question.h"
#include "afterimage/result.h"
#include "caches/language/canonical_text.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const MatchLevel level : kMatchLevels) {
    const auto form = fold_text(text, level);
    AFI_CHECK(level != MatchLevel::kExact || form == text);
    if (!form.has_value()) continue;
    AFI_CHECK(form->size() <= 2 * size);
    AFI_CHECK(fold_text(*form, level) == form);
  }
  const auto canonical = fold_text(text, MatchLevel::kCanonical);
  if (canonical.has_value()) {
    AFI_CHECK(fold_text(*canonical, MatchLevel::kNear) == fold_text(text, MatchLevel::kNear));
  }
  return 0;
}
