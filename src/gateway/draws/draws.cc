// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/draws/draws.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "afterimage/result.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

constexpr double kShareOfNewest = 1.0 / 16;  // in the means of weigh()

ScopeKey scope_of(const Draw& draw) {
  FieldWriter fields("afterimage/draw/1");
  fields.bytes("request", draw.request.bytes).number("serial", draw.serial);
  return {sha256(fields.message())};
}

double moved(double mean, double value) {
  return mean == 0 ? value : mean + kShareOfNewest * (value - mean);
}

}  // namespace

SampledRequestId sampled_request_id(const Question& question, std::string_view form,
                                    std::string_view sharers) {
  FieldWriter fields("afterimage/sampled-request/1");
  fields.bytes("space", question.scope().space.bytes)
      .bytes("scope", question.scope().key.bytes)
      .text("question", question.text())
      .text("form", form)
      .text("sharers", sharers);
  return {sha256(fields.message())};
}

Question question_of(const Draw& draw, const Question& asked) {
  return {
      ScopeId{.space = asked.scope().space, .key = scope_of(draw), .loosest = MatchLevel::kExact},
      asked.text()};
}

bool Draws::may_serve(const Kept& kept, const DrawRules& rules, Duration now) {
  if (rules.fresh || (!kept.is_stored && !rules.may_wait)) return false;
  if (kept.had.size() >= RequesterFilter::kCapacity) return false;
  // From when it was asked for: when the model was done depends on what it said.
  if (now - kept.started > rules.max_age.value_or(Duration::max())) return false;
  const Duration left = kept.expires.has_value() ? *kept.expires - now : Duration::max();
  return left > Duration(0) && left >= rules.min_fresh.value_or(Duration(0));
}

std::optional<std::size_t> Draws::choose(const Request& request, const RequesterId& who,
                                         const DrawRules& rules, Duration now, bool& had_others) {
  for (std::size_t place = 0; place < request.draws.size(); ++place) {
    const Kept& kept = request.draws[place];
    if (kept.was_had_by(who)) {
      had_others = true;
    } else if (may_serve(kept, rules, now)) {
      return place;
    }
  }
  return std::nullopt;
}

DrawClaim Draws::claim(const SampledRequestId& request, const RequesterId& who,
                       const DrawRules& rules, Duration now) {
  const MutexLock lock(mutex_);
  DrawClaim claimed;
  auto known = requests_.find(request);
  if (known != requests_.end()) {
    by_use_.splice(by_use_.end(), by_use_, known->second.used);
    std::vector<Kept>& draws = known->second.draws;
    for (std::size_t place = draws.size(); place-- > 0;) {
      const Kept& kept = draws[place];
      const bool is_full = kept.had.size() >= RequesterFilter::kCapacity;
      const bool is_over = kept.expires.has_value() && *kept.expires <= now;
      if (!kept.is_stored || (!is_full && !is_over)) continue;
      claimed.retired.push_back(kept.draw);
      by_scope_.erase(scope_of(kept.draw));
      draws.erase(draws.begin() + static_cast<std::ptrdiff_t>(place));
    }
    if (const auto place = choose(known->second, who, rules, now, claimed.had_others)) {
      Kept& kept = draws[*place];
      if (kept.is_stored) {
        AFI_CHECK(kept.had.add(who));
      } else {
        kept.waiting.insert(who);
      }
      claimed.draw = kept.draw;
      claimed.is_stored = kept.is_stored;
      return claimed;
    }
  }
  const std::size_t kept_now = known == requests_.end() ? 0 : known->second.draws.size();
  if (!rules.may_start || !rules.may_wait || kept_now >= rules.most) {
    if (known != requests_.end() && kept_now == 0) remove(known);
    return claimed;
  }
  if (known == requests_.end()) {
    if (requests_.size() >= capacity_) remove(requests_.find(by_use_.front()));
    known = requests_.emplace(request, Request()).first;
    known->second.used = by_use_.insert(by_use_.end(), request);
  }
  Kept kept{
      .draw = {.request = request, .serial = ++last_serial_, .number = ++known->second.last_number},
      .started = now};
  if (rules.ttl.has_value() && *rules.ttl < Duration::max() - now) kept.expires = now + *rules.ttl;
  kept.waiting.insert(who);
  by_scope_.emplace(scope_of(kept.draw), kept.draw);
  claimed.draw = kept.draw;
  claimed.is_new = true;
  known->second.draws.push_back(std::move(kept));
  return claimed;
}

DrawClaim Draws::peek(const SampledRequestId& request, const RequesterId& who,
                      const DrawRules& rules, Duration now) const {
  const MutexLock lock(mutex_);
  DrawClaim found;
  const auto known = requests_.find(request);
  if (known == requests_.end()) return found;
  const auto place = choose(known->second, who, rules, now, found.had_others);
  if (!place.has_value()) return found;
  found.draw = known->second.draws[*place].draw;
  found.is_stored = known->second.draws[*place].is_stored;
  return found;
}

std::optional<std::size_t> Draws::place_of(const Draw& draw) const {
  const auto known = requests_.find(draw.request);
  if (known == requests_.end()) return std::nullopt;
  const std::vector<Kept>& draws = known->second.draws;
  const auto kept =
      std::ranges::find(draws, draw.serial, [](const Kept& one) { return one.draw.serial; });
  if (kept == draws.end()) return std::nullopt;
  return static_cast<std::size_t>(kept - draws.begin());
}

bool Draws::holds(const Draw& draw) const {
  const MutexLock lock(mutex_);
  return place_of(draw).has_value();
}

bool Draws::stored(const Draw& draw) {
  const MutexLock lock(mutex_);
  const auto place = place_of(draw);
  if (!place.has_value()) return false;
  Kept& kept = requests_.at(draw.request).draws[*place];
  kept.is_stored = true;
  bool remembers_all = true;
  for (const RequesterId& who : kept.waiting) remembers_all = kept.had.add(who) && remembers_all;
  kept.waiting.clear();
  if (!remembers_all) remove(draw);
  return remembers_all;
}

void Draws::leave(const Draw& draw, const RequesterId& who) {
  const MutexLock lock(mutex_);
  const auto place = place_of(draw);
  if (place.has_value()) requests_.at(draw.request).draws[*place].waiting.erase(who);
}

void Draws::drop(const Draw& draw) {
  const MutexLock lock(mutex_);
  remove(draw);
}

void Draws::answer_removed(const ScopeId& scope, std::string_view /*question*/) {
  const MutexLock lock(mutex_);
  const auto gone = by_scope_.find(scope.key);
  if (gone != by_scope_.end()) remove(Draw(gone->second));
}

void Draws::remove(const Draw& draw) {
  const auto place = place_of(draw);
  if (!place.has_value()) return;
  by_scope_.erase(scope_of(draw));
  const auto request = requests_.find(draw.request);
  std::vector<Kept>& draws = request->second.draws;
  draws.erase(draws.begin() + static_cast<std::ptrdiff_t>(*place));
  if (draws.empty()) remove(request);
}

void Draws::remove(Requests::iterator request) {
  for (const Kept& kept : request->second.draws) by_scope_.erase(scope_of(kept.draw));
  by_use_.erase(request->second.used);
  requests_.erase(request);
}

EntryFacts Draws::weigh(Bytes bytes, Duration cost) {
  const auto size = static_cast<double>(bytes.value());
  const auto ns = static_cast<double>(cost.count());
  const MutexLock lock(mutex_);
  if (mean_bytes_ == 0) {
    mean_bytes_ = size;
    mean_cost_ns_ = ns;
  }
  const EntryFacts before{
      .bytes = Bytes(static_cast<std::uint64_t>(mean_bytes_)),
      .cost = Duration(static_cast<Duration::rep>(mean_cost_ns_)),
  };
  mean_bytes_ = moved(mean_bytes_, size);
  mean_cost_ns_ = moved(mean_cost_ns_, ns);
  return before;
}

std::size_t Draws::requests() const {
  const MutexLock lock(mutex_);
  return requests_.size();
}

void Draws::check_invariants() const {
  const MutexLock lock(mutex_);
  std::size_t draws = 0;
  for (const auto& [id, request] : requests_) {
    AFI_CHECK(*request.used == id && !request.draws.empty());
    std::uint64_t before = 0;
    for (const Kept& kept : request.draws) {
      ++draws;
      AFI_CHECK(kept.draw.serial > before && kept.draw.serial <= last_serial_);
      before = kept.draw.serial;
      AFI_CHECK(kept.draw.request == id && kept.draw.number <= request.last_number);
      AFI_CHECK(kept.waiting.empty() || !kept.is_stored);
      AFI_CHECK(by_scope_.at(scope_of(kept.draw)) == kept.draw);
    }
  }
  AFI_CHECK(draws == by_scope_.size() && by_use_.size() == requests_.size());
  AFI_CHECK(requests_.size() <= capacity_);
}

}  // namespace afterimage
