// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Which replica gets a request.
#include "gateway/fleet/fleet_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace afterimage {
namespace {

/// Estimates do not tell choices apart that differ by less: then the least loaded one is taken.
constexpr double kIndifferent_s = 0.001;
constexpr double kIndifferentShare = 0.02;

/// Distinct media of the links from `begin` on.
double distinct_media(const ContentChain& chain, std::size_t begin) {
  std::set<ContentDigest> seen;
  double unknown = 0;
  for (std::size_t i = begin; i < chain.links.size(); ++i) {
    const ChainLink& link = chain.links[i];
    if (!link.is_media) continue;
    if (link.media == ContentDigest()) {
      ++unknown;
    } else {
      seen.insert(link.media);
    }
  }
  return static_cast<double>(seen.size()) + unknown;
}

double load_of(const Replica& replica) { return (replica.in_flight + 1) / replica.setting.weight; }

}  // namespace

FleetRefusal Fleet::Choice::refusal() const {
  const auto any = [&](std::string_view state) {
    return std::ranges::any_of(route.candidates,
                               [&](const RouteCandidate& one) { return one.state == state; });
  };
  if (any("full")) return FleetRefusal::kFull;
  return any("draining") || any("asleep") || any("ejected") || any("tried")
             ? FleetRefusal::kNone
             : FleetRefusal::kNotServed;
}

std::string_view Fleet::state_of(const Replica& replica, const FleetAsk& ask, Duration now) const {
  if (!ask.model.empty() && !serves_model(replica.setting, ask.model)) return "other-model";
  if (replica.draining) return "draining";
  if (replica.asleep) return "asleep";
  if (replica.health.ejected(now)) return "ejected";
  if (std::ranges::find(ask.avoid, replica.setting.name) != ask.avoid.end()) return "tried";
  // On trial it gets one request at a time.
  if (replica.health.on_trial(now) && (ask.only_healthy || replica.in_flight > 0)) return "ejected";
  return replica.in_flight >= replica.limit ? "full" : "ready";
}

Fleet::Choice Fleet::weigh(const FleetAsk& ask, Duration now) const {
  Choice choice;
  choice.attempt = ask.attempt;
  choice.route.attempt = ask.attempt;
  static const ContentChain kNothing;
  const ContentChain& chain = ask.chain == nullptr ? kNothing : *ask.chain;
  choice.tokens = cost_.tokens_of(chain);
  for (const float tokens : choice.tokens) choice.all_tokens += tokens;
  const double all_media = distinct_media(chain, 0);
  choice.full_cost_s = cost_.compute_s(choice.all_tokens, all_media);
  for (const auto& replica : replicas_) {
    const std::string_view state = state_of(*replica, ask, now);
    Choice::Option option{.replica = replica, .ready = state == "ready"};
    option.resident = replica->residency.find(chain, choice.tokens, now);
    const Resident& resident = option.resident;
    option.uncached_media =
        std::max(0.0, distinct_media(chain, resident.links) - static_cast<double>(resident.media));
    const double rest = std::max(0.0, choice.all_tokens - resident.tokens);
    option.cost_s = cost_.compute_s(rest, option.uncached_media);
    const double compute = replica->wait.compute_s(option.cost_s);
    const double wait = replica->wait.wait_s(replica->load);
    option.total_s = compute + wait;
    choice.route.candidates.push_back({.replica = replica->setting.name,
                                       .state = std::string(state),
                                       .in_flight = replica->in_flight,
                                       .resident_tokens = resident.tokens,
                                       .confirmed_tokens = resident.confirmed_tokens,
                                       .resident_media = resident.media,
                                       .compute_s = compute,
                                       .saved_s = replica->wait.saved_s(cost_.saved_s(
                                           resident.tokens, all_media - option.uncached_media)),
                                       .wait_s = wait});
    choice.options.push_back(std::move(option));
  }
  return choice;
}

void Fleet::pick(Choice& choice) const {
  double best = 1e300;
  std::size_t ready = 0;
  for (const auto& option : choice.options) {
    if (!option.ready) continue;
    ++ready;
    best = std::min(best, option.total_s);
  }
  if (ready == 0) return;
  const double indifferent = kIndifferent_s + kIndifferentShare * choice.full_cost_s;
  const Routing routing = routing_;
  const bool by_content = routing == Routing::kContent && !choice.tokens.empty();
  const Choice::Option* chosen = nullptr;
  const auto better = [&](const Choice::Option& one, const Choice::Option& than) {
    if (routing == Routing::kRoundRobin) {
      return one.replica->turn + one.replica->setting.weight >
             than.replica->turn + than.replica->setting.weight;
    }
    const double a = load_of(*one.replica);
    const double b = load_of(*than.replica);
    if (a != b) return a < b;
    return one.replica->chosen < than.replica->chosen;
  };
  for (const auto& option : choice.options) {
    if (!option.ready || (by_content && option.total_s > best + indifferent)) continue;
    if (chosen == nullptr || better(option, *chosen)) chosen = &option;
  }
  choice.chosen = chosen->replica;
  choice.index = static_cast<std::size_t>(chosen - choice.options.data());
  Route& route = choice.route;
  const RouteCandidate& picked = route.candidates[choice.index];
  route.replica = picked.replica;
  route.starts = choice.chosen->starts;
  const bool others_hold_more = std::ranges::any_of(route.candidates, [&](const auto& other) {
    return (other.state == "ready" || other.state == "full") &&
           other.saved_s > picked.saved_s + indifferent;
  });
  const bool saves = by_content && picked.saved_s > indifferent;
  if (choice.attempt > 1) {
    route.reason = "retry";
  } else if (ready == 1 && !others_hold_more && !saves) {
    route.reason = "only";
  } else if (routing == Routing::kRoundRobin) {
    route.reason = "round-robin";
  } else if (by_content && others_hold_more) {
    route.reason = "spread";
  } else if (saves) {
    route.reason = picked.resident_tokens > 0 ? "prefix" : "media";
  } else {
    route.reason = "least-loaded";
  }
  route.why = fmt::format(
      "of {:.0f} tokens, {:.0f} are expected to be resident at {} ({:.0f} confirmed), and the "
      "encoder outputs of {} other media: saves {:.3f} s; the rest takes {:.3f} s, its queue "
      "{:.3f} s",
      choice.all_tokens, picked.resident_tokens, picked.replica, picked.confirmed_tokens,
      picked.resident_media, picked.saved_s, picked.compute_s, picked.wait_s);
}

/// Smooth weighted round-robin: each takes what its weight gives, and the chosen one pays for all.
void Fleet::take_turns(const Replica& chosen, const Choice& choice) {
  double all = 0;
  for (const auto& option : choice.options) {
    if (!option.ready) continue;
    option.replica->turn += option.replica->setting.weight;
    all += option.replica->setting.weight;
  }
  for (const auto& option : choice.options) {
    if (option.replica.get() != &chosen) continue;
    option.replica->turn -= all;
    option.replica->chosen = ++claims_;
  }
}

}  // namespace afterimage
