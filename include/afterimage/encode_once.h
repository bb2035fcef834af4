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

/// One encoder output in the hands of a request. Stays valid and unchanged while this object lives.
class Embeddings {
 public:
  [[nodiscard]] std::span<const TensorView> tensors() const;
  /// False: it did not fit the budget and lives only as long as those who use it now.
  [[nodiscard]] bool resident() const { return std::holds_alternative<Pin>(held_); }

 private:
  friend class EncodeOnce;
  struct Uncached {
    std::shared_ptr<const EncoderOutput> output;  // shared by the requests that waited for it
    TensorViews views;
  };
  explicit Embeddings(Pin pin) : held_(std::move(pin)) {}
  explicit Embeddings(Uncached uncached) : held_(std::move(uncached)) {}

  std::variant<Pin, Uncached> held_;
};

struct EncoderFlight;  // one item being encoded, and those who wait for it

/// The duty to encode one item for everybody who waits for it. Move-only. Publish the output or say
/// why there is none; letting go of a Turn without either hands it to one who waits.
class [[nodiscard]] FlightLeader {
 public:
  FlightLeader(FlightLeader&& other) noexcept;
  FlightLeader& operator=(FlightLeader other) noexcept;
  ~FlightLeader();

  /// Copies the output into the cache and wakes those who wait. If it does not fit, it is shared
  /// with them and not kept. `cost` is what encoding took. kInvalidArgument if a tensor is not what
  /// it claims to be.
  Result<Embeddings> publish(EncoderOutput output, const EncoderEntryFacts& facts) &&;
  /// An error that would meet everybody (the file is damaged, unknown, too large) is everybody's;
  /// after any other, one of those who wait tries again.
  void fail(const Error& error) &&;

 private:
  friend class EncodeOnce;
  FlightLeader(EncodeOnce& front, std::shared_ptr<EncoderFlight> flight, AgentId agent)
      : front_(&front), flight_(std::move(flight)), agent_(agent) {}

  EncodeOnce* front_;
  std::shared_ptr<EncoderFlight> flight_;
  AgentId agent_;
};

/// A place in the queue for an item that somebody else is encoding. Move-only.
class [[nodiscard]] FlightWaiter {
 public:
  FlightWaiter(FlightWaiter&& other) noexcept;
  FlightWaiter& operator=(FlightWaiter other) noexcept;
  ~FlightWaiter();

  /// Blocks until the item is there, or the one who encodes gave up and it is our turn, or the item
  /// cannot be encoded (the error), or `stop` is requested (kCancelled).
  Result<std::variant<Embeddings, FlightLeader>> wait(std::stop_token stop = {}) &&;

 private:
  friend class EncodeOnce;
  FlightWaiter(EncodeOnce& front, std::shared_ptr<EncoderFlight> flight, AgentId agent)
      : front_(&front), flight_(std::move(flight)), agent_(agent) {}

  EncodeOnce* front_;
  std::shared_ptr<EncoderFlight> flight_;
  AgentId agent_;
};

struct EncodeOnceOptions {
  /// Recompute the checksum of what is found; a damaged entry is dropped, counted and encoded
  /// again. Those who waited for an encode get the fresh entry without that.
  bool verify_hits = true;
  /// With whom the budget is shared: they make room, too. nullptr: with nobody.
  SharedBudget* shared = nullptr;
};

struct EncodeOnceStats {
  std::uint64_t led = 0;         // encodes begun
  std::uint64_t followed = 0;    // requests that waited instead of encoding
  std::uint64_t taken_over = 0;  // turns that passed to one who waited
  std::uint64_t uncached = 0;    // outputs that did not fit, or came while admission was blocked
  std::uint64_t blocked = 0;     // of them, the latter
  std::uint64_t corrupt = 0;     // hits whose bytes were not intact
};

/// The encoder cache for many threads: an item is encoded once, however many ask for it at the same
/// time, also when the one who encodes fails, gives up or dies.
///
///   Claim claim = front.claim(key);   // Embeddings: there. Turn: encode and publish. Ticket:
///   wait.
///
/// A thread that holds a Turn publishes it before it waits on a Ticket; so no two can wait for each
/// other.
///
/// Errors   As EncoderCache and the encoder say. No room is not an error: see Embeddings::resident.
/// Threads  Any. One lock, never held while encoding, copying or checking bytes.
/// Source   src/encoder/DESIGN.md.
class EncodeOnce final : public BudgetClient, private PinOwner {
 public:
  using Claim = std::variant<Embeddings, FlightLeader, FlightWaiter>;
  using Encode = std::function<Result<EncoderOutput>()>;

  /// `cache` and `clock` outlive the front, and nobody else touches `cache` while it stands.
  EncodeOnce(EncoderCache& cache, const Clock& clock, EncodeOnceOptions options = {});
  /// Nobody holds embeddings, a turn or a ticket any more.
  ~EncodeOnce() override;

  [[nodiscard]] Claim claim(const EncoderKey& key, AgentId agent = kNoAgent);
  /// One request used these, in this order: the eviction policy is told. Once a request, while it
  /// holds them.
  void note_request(const RequestFacts& facts, std::span<const Embeddings* const> used);

  /// The whole of it for one item: what is cached, or what somebody else is encoding, or encode().
  Result<Embeddings> get_or_encode(const EncoderKey& key, Modality modality, const Encode& encode,
                                   AgentId agent = kNoAgent, std::stop_token stop = {});

  bool erase(const EncoderKey& key);
  void clear();
  [[nodiscard]] std::optional<NextToLeave> eviction_candidate() override;
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override;
  /// While it is blocked, outputs are served uncached.
  void block_admission(bool blocked) override;
  [[nodiscard]] std::optional<EncoderEntryInfo> info(const EncoderKey& key) const;
  [[nodiscard]] EncoderCacheStats cache_stats() const;
  [[nodiscard]] EncodeOnceStats stats() const;
  void check_invariants() const;

 private:
  friend class FlightLeader;
  friend class FlightWaiter;

  void unpin(SlotId slot) override;
  [[nodiscard]] Embeddings hold(Pin pin);
  std::optional<Embeddings> find_intact(const EncoderKey& key, AgentId agent);
  Result<Embeddings> publish(EncoderFlight& flight, EncoderOutput output,
                             const EncoderEntryFacts& facts, AgentId agent);
  Result<Pin> store(const EncoderKey& key, const TensorViews& views, const EncoderEntryFacts& facts,
                    AgentId agent);
  void fail(EncoderFlight& flight, const Error& error);
  void leave(EncoderFlight& flight);
  Result<std::variant<Embeddings, FlightLeader>> wait(const std::shared_ptr<EncoderFlight>& flight,
                                                      AgentId agent, const std::stop_token& stop);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
