// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer.h"
#include "caches/language/canonical_text.h"

namespace afterimage {

std::optional<std::string_view> Question::form(MatchLevel level) {
  if (level == MatchLevel::kExact) return text();
  Form& form = forms_[static_cast<std::size_t>(level)];
  if (form.state == FormState::kNotMade) {
    const auto folded = fold_text(text(), level, form.text);
    const bool is_same = folded.has_value() && folded->data() == text().data();
    form.state = !folded.has_value() ? FormState::kNone
                 : is_same           ? FormState::kSame
                                     : FormState::kOwn;
  }
  if (form.state == FormState::kNone) return std::nullopt;
  return form.state == FormState::kSame ? std::string_view(text()) : form.text;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kServed:
      return "served";
    case Verdict::kJoined:
      return "joined";
    case Verdict::kMissed:
      return "missed";
    case Verdict::kNotAllowed:
      return "not_allowed";
    case Verdict::kTooOld:
      return "too_old";
    case Verdict::kExpired:
      return "expired";
    case Verdict::kDamaged:
      return "damaged";
    case Verdict::kInsufficientEvidence:
      return "unsure";
    case Verdict::kExplored:
      return "explored";
  }
  return "unknown";
}

}  // namespace afterimage
