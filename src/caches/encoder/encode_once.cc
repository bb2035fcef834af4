// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encode_once.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <utility>

#include "afterimage/result.h"
#include "foundation/platform/flight.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {

/// Guarded by the lock of EncodeOnce.
struct EncoderFlight : Flight, std::enable_shared_from_this<EncoderFlight> {
  explicit EncoderFlight(const EncoderKey& of) : key(of) {}

  const EncoderKey key;
  std::optional<Pin> kept;  // pins the entry until the last waiter has taken it
  std::shared_ptr<const EncoderOutput> uncached;

  [[nodiscard]] bool leave(FlightRole role) {
    const bool last = Flight::leave(role);
    if (!awaited()) kept.reset();
    return last;
  }
};

struct EncodeOnce::State final : SingleFlight<EncoderFlight> {
  State(EncoderCache& its_cache, const Clock& its_clock, EncodeOnceOptions its_options)
      : clock(its_clock), options(its_options), cache(its_cache) {}
  void forget(EncoderFlight& flight) override AFI_REQUIRES(mutex) { by_key.erase(flight.key); }

  const Clock& clock;
  const EncodeOnceOptions options;
  EncoderCache& cache;
  boost::unordered_flat_map<EncoderKey, std::shared_ptr<EncoderFlight>, DigestHash> by_key
      AFI_GUARDED_BY(mutex);
  EncodeOnceStats stats AFI_GUARDED_BY(mutex);
};

std::span<const TensorView> Embeddings::tensors() const {
  if (const Pin* pin = std::get_if<Pin>(&held_)) return (*pin)->tensors();
  return std::get<Uncached>(held_).views;
}

Result<Embeddings> FlightLeader::publish(EncoderOutput output, const EncoderEntryFacts& facts) && {
  AFI_CHECK(flight_ != nullptr);
  auto published = front_->publish(*flight_, std::move(output), facts, agent_);
  flight_.reset();
  return published;
}

void FlightLeader::fail(const Error& error) && {
  AFI_CHECK(flight_ != nullptr);
  front_->state_->fail(*flight_, error);
  flight_.reset();
}

// The waiter leaves the flight after the pin is taken: the entry is held until then.
Result<std::variant<Embeddings, FlightLeader>> FlightWaiter::wait(const std::stop_token& stop) && {
  AFI_CHECK(flight_ != nullptr);
  const EncoderFlightPart part = std::move(flight_);
  return front_->wait(*part, agent_, stop);
}

EncodeOnce::EncodeOnce(EncoderCache& cache, const Clock& clock, EncodeOnceOptions options)
    : state_(std::make_unique<State>(cache, clock, options)) {}

EncodeOnce::~EncodeOnce() { AFI_CHECK(state_->by_key.empty()); }

EncodeOnce::Claim EncodeOnce::claim(const EncoderKey& key, AgentId agent) {
  if (auto found = find_intact(key, agent)) return *std::move(found);
  const MutexLock lock(state_->mutex);
  // Check again: it may have been published since the lock was released.
  if (state_->cache.info(key).has_value()) {
    if (auto pin = state_->cache.find(key, agent)) return Embeddings(*std::move(pin));
  }
  auto& flight = state_->by_key[key];
  if (flight == nullptr) {
    flight = std::make_shared<EncoderFlight>(key);
    ++state_->stats.led;
    return lead(*flight, agent);
  }
  if (flight->take_over()) {
    ++state_->stats.taken_over;
    return lead(*flight, agent);
  }
  flight->join();
  ++state_->stats.followed;
  return FlightWaiter(*this, state_->part_in(flight, FlightRole::kWaiter), agent);
}

void EncodeOnce::note_request(const RequestFacts& facts, std::span<const Embeddings* const> used) {
  std::vector<SlotId> slots;
  for (const Embeddings* embeddings : used) {
    if (const Pin* pin = std::get_if<Pin>(&embeddings->held_)) slots.push_back(pin->slot());
  }
  if (!slots.empty()) state_->cache.note_request(facts, slots);
}

std::optional<Embeddings> EncodeOnce::find_intact(const EncoderKey& key, AgentId agent) {
  auto pin = state_->cache.find(key, agent);
  if (!pin.has_value()) return std::nullopt;
  if (!state_->options.verify_hits || (*pin)->intact()) return Embeddings(*std::move(pin));
  state_->cache.discard_damaged(pin->slot());
  const MutexLock lock(state_->mutex);
  ++state_->stats.corrupt;
  return std::nullopt;  // releases the pin on the damaged entry
}

Result<Pin> EncodeOnce::store(const EncoderKey& key, const TensorViews& views,
                              const EncoderEntryFacts& facts, AgentId agent) {
  const Bytes needed = Payload::bytes_needed(views);
  if (state_->options.shared != nullptr) state_->options.shared->make_room(needed);
  auto reservation = state_->cache.make_room(needed);
  if (!reservation.has_value() && reservation.error().code == ErrorCode::kUnavailable) {
    const MutexLock lock(state_->mutex);
    ++state_->stats.blocked;
  }
  AFI_TRY(Reservation room, std::move(reservation));
  AFI_TRY(Payload payload, Payload::copy_of(views, std::move(room)));
  EncoderEntryFacts stored = facts;
  stored.stored_at = state_->clock.now();
  return state_->cache.insert(key, std::move(payload), stored, agent);
}

Result<Embeddings> EncodeOnce::publish(EncoderFlight& flight, EncoderOutput output,
                                       const EncoderEntryFacts& facts, AgentId agent) {
  auto views = views_of(output);
  if (!views.has_value()) {
    state_->fail(flight, views.error());
    return std::unexpected(views.error());
  }
  auto pin = store(flight.key, *views, facts, agent);
  const MutexLock lock(state_->mutex);
  state_->land(flight);
  if (pin.has_value()) {
    if (flight.awaited()) flight.kept = state_->cache.add_pin(pin->slot());
    return Embeddings(*std::move(pin));
  }
  ++state_->stats.uncached;
  flight.uncached = std::make_shared<const EncoderOutput>(std::move(output));
  return Embeddings(Embeddings::Uncached{flight.uncached, views_of(*flight.uncached).value()});
}

FlightLeader EncodeOnce::lead(EncoderFlight& flight, AgentId agent) {
  return {*this, state_->part_in(flight.shared_from_this(), FlightRole::kLeader), agent};
}

Result<std::variant<Embeddings, FlightLeader>> EncodeOnce::wait(EncoderFlight& flight,
                                                                AgentId agent,
                                                                const std::stop_token& stop) {
  using Outcome = std::variant<Embeddings, FlightLeader>;
  AFI_TRY(const bool leads, state_->wait_or_lead(flight, stop));
  const MutexLock lock(state_->mutex);
  if (leads) {
    ++state_->stats.taken_over;
    return Outcome(lead(flight, agent));
  }
  if (flight.uncached == nullptr) {
    return Outcome(Embeddings(state_->cache.hit(flight.kept->slot(), agent)));
  }
  return Outcome(
      Embeddings(Embeddings::Uncached{flight.uncached, views_of(*flight.uncached).value()}));
}

Result<Embeddings> EncodeOnce::get_or_encode(const EncoderKey& key, Modality modality,
                                             const Encode& encode, AgentId agent,
                                             const std::stop_token& stop) {
  const auto lead = [&](FlightLeader leader) -> Result<Embeddings> {
    const Duration began = state_->clock.now();
    auto output = encode();
    if (!output.has_value()) {
      std::move(leader).fail(output.error());
      return std::unexpected(output.error());
    }
    const EncoderEntryFacts facts{.modality = modality, .cost = state_->clock.now() - began};
    return std::move(leader).publish(*std::move(output), facts);
  };
  Claim claimed = claim(key, agent);
  if (Embeddings* embeddings = std::get_if<Embeddings>(&claimed)) return std::move(*embeddings);
  if (FlightLeader* leader = std::get_if<FlightLeader>(&claimed)) return lead(std::move(*leader));
  AFI_TRY(auto waited, std::get<FlightWaiter>(std::move(claimed)).wait(stop));
  if (Embeddings* embeddings = std::get_if<Embeddings>(&waited)) return std::move(*embeddings);
  return lead(std::get<FlightLeader>(std::move(waited)));
}

void EncodeOnce::note_covered(std::span<const EncoderKey> keys, AgentId agent) {
  for (const EncoderKey& key : keys) state_->cache.note_covered(key, agent);
}

EncoderCache& EncodeOnce::cache() const { return state_->cache; }

EncodeOnceStats EncodeOnce::stats() const {
  const MutexLock lock(state_->mutex);
  return state_->stats;
}

}  // namespace afterimage
