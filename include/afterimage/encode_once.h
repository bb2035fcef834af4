// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <variant>

#include "afterimage/clock.h"
#include "afterimage/digest.h"
#include "afterimage/encoder_cache.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"

namespace afterimage {

class EncodeOnce;

/// One encoder output, held by a request. Its tensors stay valid and unchanged while it lives.
class Embeddings {
 public:
  [[nodiscard]] std::span<const TensorView> tensors() const;
  /// False: it did not fit the budget and lives only as long as its current users.
  [[nodiscard]] bool resident() const { return std::holds_alternative<Pin>(held_); }

 private:
  friend class EncodeOnce;
  struct Uncached {
    std::shared_ptr<const EncoderOutput> output;  // shared by all requests of the flight
    TensorViews views;
  };
  explicit Embeddings(Pin pin) : held_(std::move(pin)) {}
  explicit Embeddings(Uncached uncached) : held_(std::move(uncached)) {}

  std::variant<Pin, Uncached> held_;
};

struct EncoderFlight;  // one item being encoded, and its waiters
/// A request's part in a flight; the deleter leaves it.
using EncoderFlightPart = std::unique_ptr<EncoderFlight, std::function<void(EncoderFlight*)>>;

/// The right and duty to encode one item for all its waiters. Move-only. Call publish() or fail();
/// destroying the leader without either passes leadership to a waiter.
class [[nodiscard]] FlightLeader {
 public:
  /// Copies the output into the cache and wakes the waiters. If it does not fit, it is shared with
  /// them and not cached. `facts.cost` is the time that encoding took. kInvalidArgument: a tensor's
  /// bytes do not match its shape and dtype.
  Result<Embeddings> publish(EncoderOutput output, const EncoderEntryFacts& facts) &&;
  /// A permanent error (damaged, unknown or too large file) fails all waiters; after any other, one
  /// of the waiters becomes the leader and tries again.
  void fail(const Error& error) &&;

 private:
  friend class EncodeOnce;
  FlightLeader(EncodeOnce& front, EncoderFlightPart flight, AgentId agent)
      : front_(&front), flight_(std::move(flight)), agent_(agent) {}

  EncodeOnce* front_;
  EncoderFlightPart flight_;
  AgentId agent_;
};

/// Waits for an item that another request is encoding. Move-only.
class [[nodiscard]] FlightWaiter {
 public:
  /// Blocks until the item is encoded (Embeddings), or this waiter becomes the leader because the
  /// previous one gave up (FlightLeader), or the item cannot be encoded (the error), or `stop` is
  /// requested (kCancelled).
  Result<std::variant<Embeddings, FlightLeader>> wait(const std::stop_token& stop = {}) &&;

 private:
  friend class EncodeOnce;
  FlightWaiter(EncodeOnce& front, EncoderFlightPart flight, AgentId agent)
      : front_(&front), flight_(std::move(flight)), agent_(agent) {}

  EncodeOnce* front_;
  EncoderFlightPart flight_;
  AgentId agent_;
};

struct EncodeOnceOptions {
  /// Recompute the checksum of every hit; a damaged entry is dropped, counted and encoded again.
  /// Waiters of a flight get its fresh entry without this check.
  bool verify_hits = true;
  /// The other users of the budget, which evict, too. nullptr: the budget is not shared.
  SharedBudget* shared = nullptr;
};

struct EncodeOnceStats {
  std::uint64_t led = 0;         // encodes started
  std::uint64_t followed = 0;    // requests that waited instead of encoding
  std::uint64_t taken_over = 0;  // flights whose leadership passed to a waiter
  std::uint64_t uncached = 0;    // outputs that did not fit, or came while admission was blocked
  std::uint64_t blocked = 0;     // of these, those that came while admission was blocked
  std::uint64_t corrupt = 0;     // hits whose checksum did not match
};

/// Single flight in front of an encoder cache: concurrent requests for an item share
/// one encode, also when the leader fails, gives up or dies.
///
///     EncodeOnce::Claim claim = front.claim(key);
///     // Embeddings:   a hit.
///     // FlightLeader: encode the item, then publish() it.
///     // FlightWaiter: wait() for the leader.
///
/// A thread must publish what it leads before it waits for another flight; so no two requests can
/// wait for each other.
///
/// Errors   As EncoderCache and the encoder. An output that does not fit is not an error: see
///          Embeddings::resident.
/// Threads  Any. One lock, taken before the cache's, never held while encoding, copying or checking
///          bytes.
/// Source   src/caches/encoder/DESIGN.md.
class EncodeOnce {
 public:
  using Claim = std::variant<Embeddings, FlightLeader, FlightWaiter>;
  using Encode = std::function<Result<EncoderOutput>()>;

  /// `cache` and `clock` outlive this object.
  EncodeOnce(EncoderCache& cache, const Clock& clock, EncodeOnceOptions options = {});
  /// Requires that all Embeddings, leaders and waiters are gone.
  ~EncodeOnce();
  EncodeOnce(const EncodeOnce&) = delete;
  EncodeOnce& operator=(const EncodeOnce&) = delete;

  [[nodiscard]] Claim claim(const EncoderKey& key, AgentId agent = kNoAgent);
  /// Reports to the eviction policy which entries one request used, in order. Call it once per
  /// request, while it holds them.
  void note_request(const RequestFacts& facts, std::span<const Embeddings* const> used);

  /// EncoderCache::note_covered() of each key.
  void note_covered(std::span<const EncoderKey> keys, AgentId agent);

  /// All of the above for one item: returns the cached output, or waits for another request's
  /// encode, or calls encode().
  Result<Embeddings> get_or_encode(const EncoderKey& key, Modality modality, const Encode& encode,
                                   AgentId agent = kNoAgent, const std::stop_token& stop = {});

  /// The cache in front of which it is: for everything besides encoding.
  [[nodiscard]] EncoderCache& cache() const;
  [[nodiscard]] EncodeOnceStats stats() const;

 private:
  friend class FlightLeader;
  friend class FlightWaiter;

  std::optional<Embeddings> find_intact(const EncoderKey& key, AgentId agent);
  Result<Embeddings> publish(EncoderFlight& flight, EncoderOutput output,
                             const EncoderEntryFacts& facts, AgentId agent);
  Result<Pin> store(const EncoderKey& key, const TensorViews& views, const EncoderEntryFacts& facts,
                    AgentId agent);
  FlightLeader lead(EncoderFlight& flight, AgentId agent);
  Result<std::variant<Embeddings, FlightLeader>> wait(EncoderFlight& flight, AgentId agent,
                                                      const std::stop_token& stop);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
