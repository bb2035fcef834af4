// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer.h"
#include "caches/language/canonical_text.h"

namespace afterimage {

namespace {

std::size_t place_of(MatchLevel level) { return static_cast<std::size_t>(level); }

}  // namespace

std::optional<std::string_view> Question::form(MatchLevel level) {
  if (level == MatchLevel::kExact) return text();
  Form& form = forms_[place_of(level)];
  if (form.state == FormState::kNotMade) make_form(level);
  if (form.state == FormState::kNone) return std::nullopt;
  return form.state == FormState::kSame ? std::string_view(text()) : form.text;
}

void Question::make_form(MatchLevel level) {
  Form& form = forms_[place_of(level)];
  std::optional<std::string_view> folded;
  if (level == MatchLevel::kCanonical) {
    const auto canonical = canonical_form(text(), form.text);
    if (canonical.has_value()) folded = canonical->text;
    // Most prompts are no questions: their words are looked at once.
    if (!canonical.has_value() || !canonical->may_have_near) {
      forms_[place_of(MatchLevel::kNear)].state = FormState::kNone;
    }
  } else {
    folded = fold_text(text(), level, form.text);
  }
  const bool is_same = folded.has_value() && folded->data() == text().data();
  form.state = !folded.has_value() ? FormState::kNone
               : is_same           ? FormState::kSame
                                   : FormState::kOwn;
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
