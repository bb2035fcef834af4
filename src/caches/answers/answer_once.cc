// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer_once.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/flight.h"
#include "foundation/platform/mutex.h"

namespace afterimage {
/// Ordered, because few flights exist at a time.
struct AnswerFlightKey {
  ScopeKey scope;
  NamespaceId space;
  MatchLevel level;
  std::string form;
  auto operator<=>(const AnswerFlightKey&) const = default;
};

namespace {

using Keys = std::vector<AnswerFlightKey>;

Keys keys_of(Question& question) {
  Keys keys;
  for (const MatchLevel level : kMatchLevels) {
    const auto form = question.form(level);
    if (!form.has_value()) continue;
    keys.push_back({.scope = question.scope().key,
                    .space = question.scope().space,
                    .level = level,
                    .form = std::string(*form)});
  }
  return keys;
}

}  // namespace

/// Guarded by the lock of AnswerOnce.
struct AnswerFlight : Flight, std::enable_shared_from_this<AnswerFlight> {
  void set_leader(Question& leader) {
    question = leader.text();
    forms = keys_of(leader);
  }

  std::string question;  // the leader's exact text
  Keys forms;            // the leader's forms
  Keys keys;             // index keys of the flight: the first leader's forms
  std::shared_ptr<const Answer> answer;
  Duration cost{0};
  std::optional<Duration> ttl;
};

struct AnswerOnce::State final : SingleFlight<AnswerFlight> {
  State(AnswerCache& its_cache, const Clock& its_clock) : clock(its_clock), cache(its_cache) {}

  void forget(AnswerFlight& flight) override AFI_REQUIRES(mutex) {
    for (const AnswerFlightKey& key : flight.keys) by_key.erase(key);
    ++ended;
  }

  const Clock& clock;
  AnswerCache& cache;
  std::map<AnswerFlightKey, std::shared_ptr<AnswerFlight>> by_key AFI_GUARDED_BY(mutex);
  std::uint64_t ended AFI_GUARDED_BY(mutex) = 0;  // flights that have ended
  AnswerOnceStats stats AFI_GUARDED_BY(mutex);
};

Result<bool> AnswerLeader::publish(const Answer& answer, const AnswerFacts& facts,
                                   const Insert& insert) && {
  AFI_CHECK(flight_ != nullptr);
  auto published = front_->publish(*flight_, question_, answer, facts, insert);
  flight_.reset();
  return published;
}

void AnswerLeader::fail(const Error& error) && {
  AFI_CHECK(flight_ != nullptr);
  front_->state_->fail(*flight_, error);
  flight_.reset();
}

AnswerWaiter::AnswerWaiter(AnswerOnce& front, AnswerFlightPart flight, Question question,
                           Keys admits, AnswerLookup looked)
    : front_(&front),
      flight_(std::move(flight)),
      question_(std::move(question)),
      admits_(std::move(admits)),
      looked_(std::move(looked)),
      began_(front.state_->clock.now()) {}

AnswerWaiter::AnswerWaiter(AnswerWaiter&&) noexcept = default;
AnswerWaiter& AnswerWaiter::operator=(AnswerWaiter&&) noexcept = default;
AnswerWaiter::~AnswerWaiter() = default;

Result<std::variant<AnswerLookup, AnswerLeader>> AnswerWaiter::wait(
    const std::stop_token& stop) && {
  AFI_CHECK(flight_ != nullptr);
  return front_->wait(std::move(*this), stop);
}

AnswerOnce::AnswerOnce(AnswerCache& cache, const Clock& clock)
    : state_(std::make_unique<State>(cache, clock)) {}

AnswerOnce::~AnswerOnce() { AFI_CHECK(state_->by_key.empty()); }

AnswerOnce::Claim AnswerOnce::claim(Question& question, const LookupRules& rules) {
  std::uint64_t ended = 0;
  {
    const MutexLock lock(state_->mutex);
    ended = state_->ended;
  }
  AnswerLookup looked = state_->cache.find(question, rules);
  if (looked.answer.has_value()) return looked;
  Keys admits = keys_of(question);
  const Keys keys = admits;
  std::erase_if(admits, [&](const AnswerFlightKey& key) {
    return key.level > question.ceiling(rules.serve);
  });

  const MutexLock lock(state_->mutex);
  for (const AnswerFlightKey& key : admits) {
    const auto it = state_->by_key.find(key);
    if (it == state_->by_key.end()) continue;
    const std::shared_ptr<AnswerFlight> flight = it->second;
    if (flight->take_over()) {
      flight->set_leader(question);
      ++state_->stats.taken_over;
      return AnswerLeader(*this, state_->part_in(flight, FlightRole::kLeader), question,
                          std::move(looked.steps));
    }
    flight->join();
    ++state_->stats.followed;
    return AnswerWaiter(*this, state_->part_in(flight, FlightRole::kWaiter), question,
                        std::move(admits), std::move(looked));
  }
  if (state_->ended != ended) {  // the answer may have been cached between look-up and lock
    looked = state_->cache.find(question, rules);
    if (looked.answer.has_value()) return looked;
  }
  const auto flight = std::make_shared<AnswerFlight>();
  flight->set_leader(question);
  for (const AnswerFlightKey& key : keys) {
    if (state_->by_key.try_emplace(key, flight).second) flight->keys.push_back(key);
  }
  ++state_->stats.led;
  return AnswerLeader(*this, state_->part_in(flight, FlightRole::kLeader), question,
                      std::move(looked.steps));
}

Result<std::variant<AnswerLookup, AnswerLeader>> AnswerOnce::wait(AnswerWaiter waiter,
                                                                  const std::stop_token& stop) {
  using Outcome = std::variant<AnswerLookup, AnswerLeader>;
  AnswerFlight& flight = *waiter.flight_;
  AFI_TRY(const bool leads, state_->wait_or_lead(flight, stop));
  const MutexLock lock(state_->mutex);
  if (leads) {
    flight.set_leader(waiter.question_);
    ++state_->stats.taken_over;
    return Outcome(AnswerLeader(*this,
                                state_->part_in(flight.shared_from_this(), FlightRole::kLeader),
                                std::move(waiter.question_), std::move(waiter.looked_.steps)));
  }
  AnswerLookup& looked = waiter.looked_;
  const auto same = std::ranges::find_first_of(waiter.admits_, flight.forms);
  if (same == waiter.admits_.end()) return Outcome(std::move(looked));
  looked.answer = *flight.answer;
  looked.saved = flight.cost;
  looked.left = flight.ttl;
  looked.steps.push_back({.level = same->level,
                          .verdict = Verdict::kJoined,
                          .candidate = flight.question,
                          .took = state_->clock.now() - waiter.began_});
  ++state_->stats.joined;
  return Outcome(std::move(looked));
}

Result<bool> AnswerOnce::publish(AnswerFlight& flight, Question& question, const Answer& answer,
                                 const AnswerFacts& facts, const AnswerLeader::Insert& insert) {
  const auto kept = insert ? insert(question) : state_->cache.insert(question, answer, facts);
  const MutexLock lock(state_->mutex);
  const bool no_room = !kept.has_value() && (kept.error().code == ErrorCode::kNoSpace ||
                                             kept.error().code == ErrorCode::kUnavailable);
  if (!kept.has_value() && !no_room) return std::unexpected(kept.error());
  flight.answer = std::make_shared<const Answer>(answer);
  if (!is_whole(answer)) {
    std::erase_if(flight.forms, [](const auto& form) { return form.level != MatchLevel::kExact; });
  }
  flight.cost = facts.cost;
  flight.ttl = facts.ttl;
  state_->land(flight);
  if (!kept.has_value()) ++state_->stats.not_cached;
  return kept.has_value();
}

Result<AnswerLookup> AnswerOnce::get_or_answer(Question& question, const LookupRules& rules,
                                               const Generate& generate,
                                               const std::stop_token& stop) {
  const auto lead = [&](AnswerLeader leader) -> Result<AnswerLookup> {
    const Duration began = state_->clock.now();
    AnswerLookup own{.answer = std::nullopt, .steps = leader.looked()};
    auto generated = generate();
    if (!generated.has_value()) {
      std::move(leader).fail(generated.error());
      return std::unexpected(generated.error());
    }
    generated->facts.cost = state_->clock.now() - began;
    if (is_whole(generated->answer) || generated->facts.keep_partial) {
      AFI_TRY([[maybe_unused]] const bool kept,
              std::move(leader).publish(generated->answer, generated->facts));
    }
    own.answer = std::move(generated->answer);
    return own;
  };
  while (true) {
    Claim claimed = claim(question, rules);
    if (auto* hit = std::get_if<AnswerLookup>(&claimed)) return std::move(*hit);
    if (auto* leader = std::get_if<AnswerLeader>(&claimed)) return lead(std::move(*leader));
    AFI_TRY(auto waited, std::get<AnswerWaiter>(std::move(claimed)).wait(stop));
    if (auto* leader = std::get_if<AnswerLeader>(&waited)) return lead(std::move(*leader));
    AnswerLookup& joined = std::get<AnswerLookup>(waited);
    if (joined.answer.has_value()) return std::move(joined);
  }
}

AnswerOnceStats AnswerOnce::stats() const {
  const MutexLock lock(state_->mutex);
  return state_->stats;
}

}  // namespace afterimage
