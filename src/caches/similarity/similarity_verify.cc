// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Which of the proposals is judged.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "caches/similarity/similarity.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {

std::string_view to_string(Verification verification) {
  constexpr std::array<std::string_view, 4> kNames{"", "accepted", "refused", "unavailable"};
  return kNames[static_cast<std::size_t>(verification)];
}

std::string SimilarityLevel::verified_by() const {
  std::string name;
  if (options_.verifier != nullptr) {
    name = fmt::format("{} at {}{}", options_.verifier->name(), options_.verifier_threshold,
                       options_.verifier_overrules_vetoes ? ", overrules vetoes" : "");
  }
  if (options_.may_differ.empty()) return name;
  const std::string words = fmt::format("{}", fmt::join(options_.may_differ, " "));
  name += ", differs in " + to_hex(sha256(std::as_bytes(std::span(words)))).substr(0, 16);
  if (options_.verifier != nullptr) return name;
  // The evidence of all cosines counts together, so it is about those from these.
  for (const SimilarityLayer& layer : options_.layers) {
    name += fmt::format(" from {}", layer.threshold);
  }
  return name;
}

bool SimilarityLevel::forbids(const std::vector<Veto>& vetoes) const {
  const bool overruled = options_.verifier != nullptr && options_.verifier_overrules_vetoes;
  if (!overruled) return !vetoes.empty();
  // Many models read neither case nor accents.
  constexpr std::array kUnread{Veto::kCase, Veto::kAccent, Veto::kWord};
  return std::ranges::find_first_of(vetoes, kUnread) != vetoes.end();
}

void SimilarityLevel::find_vetoes(const Question& question,
                                  std::vector<Proposal>& proposals) const {
  std::size_t same = proposals.size();
  if (!options_.may_differ.empty()) {
    const auto others = std::ranges::stable_partition(proposals, [&](const Proposal& proposal) {
      return differ_only_in(options_.may_differ, question.text(), proposal.candidate);
    });
    same = static_cast<std::size_t>(others.begin() - proposals.begin());
    proposals.resize(std::min(proposals.size(), options_.nearest));
  }
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    Proposal& proposal = proposals[i];
    if (options_.vetoes) proposal.vetoes = vetoes(question.text(), proposal.candidate);
    if (options_.may_differ.empty()) continue;
    // It may differ, or kWord says so; but not alone, because it is what is asked then.
    if (!differ_by_a_question_word(question.text(), proposal.candidate)) {
      std::erase(proposal.vetoes, Veto::kQuestionWord);
    }
    if (i >= same) proposal.vetoes.push_back(Veto::kWord);
  }
}

/// Vectors rank another thing in the same phrase before the same thing in another phrase.
void SimilarityLevel::same_words_first(const Question& question, std::vector<Proposal>& proposals) {
  const auto words = content_words(question.text());
  std::ranges::stable_partition(proposals, [&](const Proposal& proposal) {
    return content_words(proposal.candidate) == words;
  });
}

std::optional<std::size_t> SimilarityLevel::choose(const Question& question,
                                                   SimilarityLookup& found) {
  find_vetoes(question, found.proposals);
  if (options_.may_differ.empty()) same_words_first(question, found.proposals);
  bool any = false;
  for (std::size_t i = 0; i < found.proposals.size(); ++i) {
    if (forbids(found.proposals[i].vetoes)) continue;
    if (options_.verifier == nullptr) return i;
    any = true;
  }
  return any ? verify(question, found) : std::nullopt;
}

/// The surest of the proposals that it may read; of equally sure ones the most similar.
std::optional<std::size_t> SimilarityLevel::verify(const Question& question,
                                                   SimilarityLookup& found) {
  std::vector<std::size_t> asked;
  std::vector<std::string_view> candidates;
  for (std::size_t i = 0; i < found.proposals.size(); ++i) {
    if (forbids(found.proposals[i].vetoes)) continue;
    asked.push_back(i);
    candidates.push_back(found.proposals[i].candidate);
  }
  const Duration began = clock_.now();
  const auto scores = options_.verifier->score(question.text(), candidates);
  found.verified_in = clock_.now() - began;
  if (!scores.has_value() || scores->size() != asked.size()) {
    found.verification = Verification::kUnavailable;
    found.verifier_error = scores.has_value() ? "not one score for each" : scores.error().message;
    return std::nullopt;
  }
  std::optional<std::size_t> surest;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const float score = (*scores)[i];
    found.proposals[asked[i]].score = score;
    // A score that is no number is not at least the threshold.
    if (!(score >= options_.verifier_threshold)) continue;
    if (!surest.has_value() || score > *found.proposals[*surest].score) surest = asked[i];
  }
  found.verification = surest.has_value() ? Verification::kAccepted : Verification::kRefused;
  return surest;
}

}  // namespace afterimage
