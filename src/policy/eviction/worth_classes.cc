// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What the policy "worth" knows of a run: its conversation, its class and its traits.
#include <algorithm>
#include <bit>
#include <cmath>

#include "policy/eviction/worth.h"

namespace afterimage {
namespace {

// The binary logarithm, clamped.
std::uint64_t octave(std::uint64_t n, int least, int most) {
  return static_cast<std::uint64_t>(
      std::clamp(static_cast<int>(std::bit_width(n)) - 1, least, most));
}

// Sizes repeat after sixteen octaves: no unit is needed, because prompts of one cache hardly differ
// more.
std::uint64_t cyclic_octave(double bytes) {
  return octave(static_cast<std::uint64_t>(bytes), 0, 63) % 16;
}

}  // namespace

// What is known of the current request's conversation, from the run that it continues.
void Worth::follow_conversation() {
  conversation_ = {};
  double since = now_;
  bool continues = false;
  for (const Index taken : taken_) {
    const Run& run = runs_[taken];
    // If entries are long, a request's only own entry may be its last one.
    if ((run.kind != Kind::kOwn && run.kind != Kind::kTip) || !run.continued) continue;
    if (!continues) trust_.continues(run.conversation.bet);
    conversation_ = run.conversation;
    conversation_.bet = {};
    conversation_.evidence = 0;
    ++conversation_.turn;
    since = run.since;
    continues = true;
  }
  Conversation& it = conversation_;
  if (owner_ != EntryLabel()) it.owner = owner_;
  it.gap = now_ - since;
  it.new_bytes = new_bytes_;
  it.bytes = 0;
  for (const Index opened : open_) it.bytes += runs_[opened].bytes;
  if (!continues) it.first_bytes = it.bytes;
  if (request_.kind != TurnKind::kToolResult) {
    ++it.human_turns;
    it.tool_turns = 0;
  } else if (continues) {
    const double gap = std::log2(std::max(it.gap, 1.0));
    it.pace = it.pace == 0 ? gap : (it.pace + gap) / 2;
    ++it.tool_turns;
  }
}

void Worth::classify(Run& run) {
  const Conversation& it = run.conversation;
  const std::uint64_t uses =
      (static_cast<std::uint64_t>(run.kind) * 2 + (run.divided ? 1 : 0)) * (kMaxCountedUses + 1) +
      run.uses;
  const std::uint64_t turn_kind = (uses * 8 + static_cast<std::uint64_t>(run.facts.stop)) * 8 +
                                  static_cast<std::uint64_t>(run.facts.kind);
  const std::array common{uses, turn_kind};

  const std::uint64_t turn = turn_kind * 8 + (it.turn < 4 ? it.turn : it.turn < 8 ? 4 : 5);
  const std::uint64_t output = turn * 16 + octave(run.facts.output_tokens, 5, 12);
  const auto gap = static_cast<std::uint64_t>(it.gap);
  const std::array by_turn{output, output * 16 + (it.turn == 0 ? 0 : 1 + octave(gap, 1, 9) / 2)};

  const std::uint64_t growth =
      (turn_kind * 16 + cyclic_octave(it.new_bytes)) * 8 + std::min(it.human_turns, 7U);
  const std::array by_growth{
      growth, growth * 8 + static_cast<std::uint64_t>(std::clamp(it.pace / 2, 0.0, 7.0))};

  const ReuseModel::Class before = run.reuse_class;
  run.reuse_class = model_.classify({.common = common, .branches = {by_turn, by_growth}},
                                    traits_of(run), it.evidence);
  if (before != kNone) model_.release(before);
}

// A hint concerns all runs of its request, by what is believed of the first run of its own. The last
// entry stands for the request only if it has no other of its own: the next request seldom has it,
// because it is often partly filled.
void Worth::follow_hint() {
  if (request_.hint == ContinuationHint::kNone) return;
  const auto kind = [this](Index run) { return runs_[run].kind; };
  auto own = std::ranges::find(open_, Kind::kOwn, kind);
  if (own == open_.end()) own = std::ranges::find(open_, Kind::kTip, kind);
  if (own == open_.end()) return;
  const double probability = model_.probability(runs_[*own].reuse_class);
  const EntryLabel owner = conversation_.owner;
  const int evidence = trust_.evidence(owner, request_.hint, probability);
  const auto bet = trust_.open(owner, request_.hint, probability, now_);
  for (const Index opened : open_) {
    Run& run = runs_[opened];
    run.conversation.bet = bet;
    run.conversation.evidence = evidence;
    if (evidence != 0) classify(run);
  }
}

// Sizes count in half octaves that repeat after twelve octaves: no unit is needed, because prompts
// of one cache hardly differ more.
ReuseModel::Traits Worth::traits_of(const Run& run) {
  constexpr int kValues = ReuseRegression::kValues;
  const auto steps = [](double value, double per_octave) {
    return value > 0 ? static_cast<int>(std::floor(std::log2(value) * per_octave)) : 0;
  };
  const auto size = [&](double bytes, double per_octave) {
    return static_cast<std::uint8_t>((steps(bytes, per_octave) % kValues + kValues) % kValues);
  };
  const auto upto = [](std::int64_t value, std::int64_t most) {
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, most));
  };
  const auto count = [&](std::uint32_t n, std::uint32_t exact) {
    const auto beyond = static_cast<std::uint32_t>(std::bit_width(n) - std::bit_width(exact));
    return upto(n < exact ? n : exact + beyond, 15);
  };
  const Conversation& it = run.conversation;
  ReuseModel::Traits traits{.kind = static_cast<std::uint8_t>(run.kind)};
  traits.values = {0,  // the same for all
                   static_cast<std::uint8_t>(static_cast<unsigned>(run.facts.stop) * 3 +
                                             static_cast<unsigned>(run.facts.kind)),
                   count(it.turn, 4),
                   upto(steps(run.facts.output_tokens, 1) - 4, 8),
                   it.turn == 0 ? std::uint8_t{0} : upto(steps(std::max(it.gap, 1.0), 1) + 1, 13),
                   size(it.bytes, 2),
                   size(it.new_bytes, 1),
                   size(it.first_bytes, 2),
                   count(it.human_turns, 6),
                   upto(static_cast<std::int64_t>(it.pace * 1.5), 15),
                   count(it.tool_turns, 4),
                   run.uses};
  return traits;
}

}  // namespace afterimage
