// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/answer_once.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/check.h"
#include "foundation/platform/flight.h"

namespace afterimage {
/// Few are in the air at a time.
struct AnswerFlightKey {
  ScopeKey scope;
  NamespaceId space;
  TextRung rung;
  std::string form;
  auto operator<=>(const AnswerFlightKey&) const = default;
};

namespace {

using Keys = std::vector<AnswerFlightKey>;

Keys keys_of(Question& question) {
  Keys keys;
  for (const TextRung rung : kTextRungs) {
    const auto form = question.form(rung);
    if (!form.has_value()) continue;
    keys.push_back({.scope = question.scope().key,
                    .space = question.scope().space,
                    .rung = rung,
                    .form = std::string(*form)});
  }
  return keys;
}

}  // namespace

/// Guarded by the front's lock.
struct AnswerFlight : Flight {
  void be_led_by(Question& leader) {
    question = leader.text();
    forms = keys_of(leader);
  }

  std::string question;  // of whoever leads, in its own words
  Keys forms;            // and those
  Keys keys;             // under which the flight is found: of whoever led first
  std::shared_ptr<const Answer> answer;
  Duration cost{0};
  std::optional<Duration> ttl;
};

struct AnswerOnce::Flights {
  void forget(const AnswerFlight& flight) {
    for (const AnswerFlightKey& key : flight.keys) by_key.erase(key);
    ++landed;
  }

  std::map<AnswerFlightKey, std::shared_ptr<AnswerFlight>> by_key;
  std::uint64_t landed = 0;  // how many have left the air
};

AnswerLeader::AnswerLeader(AnswerOnce& front, std::shared_ptr<AnswerFlight> flight,
                           Question question, std::vector<MatchStep> looked)
    : front_(&front),
      flight_(std::move(flight)),
      question_(std::move(question)),
      looked_(std::move(looked)) {}

AnswerLeader::AnswerLeader(AnswerLeader&& other) noexcept
    : front_(other.front_),
      flight_(std::move(other.flight_)),
      question_(std::move(other.question_)),
      looked_(std::move(other.looked_)) {}

AnswerLeader& AnswerLeader::operator=(AnswerLeader other) noexcept {
  std::swap(front_, other.front_);
  std::swap(flight_, other.flight_);
  std::swap(question_, other.question_);
  std::swap(looked_, other.looked_);
  return *this;
}

AnswerLeader::~AnswerLeader() {
  if (flight_ == nullptr) return;
  const MutexLock lock(front_->mutex_);
  front_->abandon(*flight_);
}

Result<bool> AnswerLeader::publish(const Answer& answer, const AnswerFacts& facts) && {
  AFI_CHECK(flight_ != nullptr);
  return front_->publish(*std::exchange(flight_, nullptr), question_, answer, facts);
}

void AnswerLeader::fail(const Error& error) && {
  AFI_CHECK(flight_ != nullptr);
  front_->fail(*std::exchange(flight_, nullptr), error);
}

AnswerWaiter::AnswerWaiter(AnswerOnce& front, std::shared_ptr<AnswerFlight> flight,
                           Question question, Keys admits, AnswerLookup looked)
    : front_(&front),
      flight_(std::move(flight)),
      question_(std::move(question)),
      admits_(std::move(admits)),
      looked_(std::move(looked)),
      began_(front.clock_.now()) {}

AnswerWaiter::AnswerWaiter(AnswerWaiter&& other) noexcept
    : front_(other.front_),
      flight_(std::move(other.flight_)),
      question_(std::move(other.question_)),
      admits_(std::move(other.admits_)),
      looked_(std::move(other.looked_)),
      began_(other.began_) {}

AnswerWaiter& AnswerWaiter::operator=(AnswerWaiter other) noexcept {
  std::swap(front_, other.front_);
  std::swap(flight_, other.flight_);
  std::swap(question_, other.question_);
  std::swap(admits_, other.admits_);
  std::swap(looked_, other.looked_);
  std::swap(began_, other.began_);
  return *this;
}

AnswerWaiter::~AnswerWaiter() {
  if (flight_ != nullptr) front_->leave(*flight_);
}

Result<std::variant<AnswerLookup, AnswerLeader>> AnswerWaiter::wait(
    const std::stop_token& stop) && {
  AFI_CHECK(flight_ != nullptr);
  return front_->wait(std::move(*this), stop);
}

AnswerOnce::AnswerOnce(AnswerCache& cache, const Clock& clock)
    : clock_(clock), cache_(cache), flights_(std::make_unique<Flights>()) {}

AnswerOnce::~AnswerOnce() { AFI_CHECK(flights_->by_key.empty()); }

AnswerOnce::Claim AnswerOnce::claim(Question& question, const LookupRules& rules) {
  std::uint64_t landed = 0;
  {
    const MutexLock lock(mutex_);
    landed = flights_->landed;
  }
  AnswerLookup looked = cache_.find(question, rules);
  if (looked.answer.has_value()) return looked;
  Keys admits = keys_of(question);
  const Keys keys = admits;
  std::erase_if(
      admits, [&](const AnswerFlightKey& key) { return key.rung > question.ceiling(rules.serve); });

  const MutexLock lock(mutex_);
  for (const AnswerFlightKey& key : admits) {
    const auto it = flights_->by_key.find(key);
    if (it == flights_->by_key.end()) continue;
    const std::shared_ptr<AnswerFlight> flight = it->second;
    if (flight->take_over()) {
      flight->be_led_by(question);
      ++stats_.taken_over;
      return AnswerLeader(*this, flight, question, std::move(looked.steps));
    }
    flight->join();
    ++stats_.followed;
    return AnswerWaiter(*this, flight, question, std::move(admits), std::move(looked));
  }
  if (flights_->landed != landed) {  // its answer may have come while nobody held the lock
    looked = cache_.find(question, rules);
    if (looked.answer.has_value()) return looked;
  }
  auto flight = std::make_shared<AnswerFlight>();
  flight->be_led_by(question);
  for (const AnswerFlightKey& key : keys) {
    if (flights_->by_key.try_emplace(key, flight).second) flight->keys.push_back(key);
  }
  ++stats_.led;
  return AnswerLeader(*this, std::move(flight), question, std::move(looked.steps));
}

Result<std::variant<AnswerLookup, AnswerLeader>> AnswerOnce::wait(AnswerWaiter mine,
                                                                  const std::stop_token& stop) {
  using Outcome = std::variant<AnswerLookup, AnswerLeader>;
  AnswerFlight& flight = *mine.flight_;
  while (true) {
    flight.wait(mutex_, stop);
    const MutexLock lock(mutex_);
    switch (flight.state()) {
      case Flight::State::kLanded: {
        AnswerLookup& looked = mine.looked_;
        const auto same = std::ranges::find_first_of(mine.admits_, flight.forms);
        if (same == mine.admits_.end()) return Outcome(std::move(looked));
        looked.answer = *flight.answer;
        looked.saved = flight.cost;
        looked.left = flight.ttl;
        looked.steps.push_back({.rung = same->rung,
                                .verdict = Verdict::kJoined,
                                .candidate = flight.question,
                                .took = clock_.now() - mine.began_});
        ++stats_.joined;
        return Outcome(std::move(looked));
      }
      case Flight::State::kFailed:
        return std::unexpected(flight.error());
      case Flight::State::kOrphaned:
        AFI_CHECK(flight.take_over());
        flight.be_led_by(mine.question_);
        ++stats_.taken_over;
        return Outcome(AnswerLeader(*this, mine.flight_, std::move(mine.question_),
                                    std::move(mine.looked_.steps)));
      case Flight::State::kLed:  // another has taken over, or `stop`
        if (!stop.stop_requested()) continue;
        return afterimage::fail(ErrorCode::kCancelled, "the request was cancelled while it waited");
    }
  }
}

Result<bool> AnswerOnce::publish(AnswerFlight& flight, Question& question, const Answer& answer,
                                 const AnswerFacts& facts) {
  const auto kept = cache_.insert(question, answer, facts);
  const MutexLock lock(mutex_);
  const bool no_room = !kept.has_value() && (kept.error().code == ErrorCode::kNoSpace ||
                                             kept.error().code == ErrorCode::kUnavailable);
  if (!kept.has_value() && !no_room) {
    abandon(flight);
    return std::unexpected(kept.error());
  }
  flight.answer = std::make_shared<const Answer>(answer);
  if (!is_whole(answer)) {
    std::erase_if(flight.forms, [](const auto& form) { return form.rung != TextRung::kExact; });
  }
  flight.cost = facts.cost;
  flight.ttl = facts.ttl;
  flights_->forget(flight);
  flight.land();
  if (!kept.has_value()) ++stats_.unkept;
  return kept.has_value();
}

void AnswerOnce::fail(AnswerFlight& flight, const Error& error) {
  const MutexLock lock(mutex_);
  if (!is_permanent(error.code)) return abandon(flight);
  flights_->forget(flight);
  flight.fail(error);
}

void AnswerOnce::abandon(AnswerFlight& flight) {
  if (flight.awaited()) return flight.orphan();
  flights_->forget(flight);
}

void AnswerOnce::leave(AnswerFlight& flight) {
  const MutexLock lock(mutex_);
  if (flight.leave() && flight.state() == Flight::State::kOrphaned) flights_->forget(flight);
}

Result<AnswerLookup> AnswerOnce::get_or_answer(Question& question, const LookupRules& rules,
                                               const Generate& generate,
                                               const std::stop_token& stop) {
  const auto lead = [&](AnswerLeader turn) -> Result<AnswerLookup> {
    const Duration began = clock_.now();
    AnswerLookup own{.answer = std::nullopt, .steps = turn.looked()};
    auto generated = generate();
    if (!generated.has_value()) {
      std::move(turn).fail(generated.error());
      return std::unexpected(generated.error());
    }
    generated->facts.cost = clock_.now() - began;
    if (is_whole(generated->answer) || generated->facts.keep_partial) {
      AFI_TRY([[maybe_unused]] const bool kept,
              std::move(turn).publish(generated->answer, generated->facts));
    }
    own.answer = std::move(generated->answer);
    return own;
  };
  while (true) {
    Claim mine = claim(question, rules);
    if (auto* there = std::get_if<AnswerLookup>(&mine)) return std::move(*there);
    if (auto* turn = std::get_if<AnswerLeader>(&mine)) return lead(std::move(*turn));
    AFI_TRY(auto waited, std::get<AnswerWaiter>(std::move(mine)).wait(stop));
    if (auto* turn = std::get_if<AnswerLeader>(&waited)) return lead(std::move(*turn));
    AnswerLookup& there = std::get<AnswerLookup>(waited);
    if (there.answer.has_value()) return std::move(there);
  }
}

AnswerOnceStats AnswerOnce::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace afterimage
