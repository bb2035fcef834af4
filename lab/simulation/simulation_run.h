// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <queue>
#include <span>
#include <tuple>
#include <vector>

#include "afterimage/clock.h"
#include "lab/simulation/node.h"
#include "lab/simulation/remote_shards.h"
#include "lab/simulation/simulation.h"

/// The implementation of simulate(), private to this component. simulation.cc has the event loop
/// and the counters, prompt_steps.cc and image_steps.cc the steps of a request.
namespace afterimage {

class SimulationRun {
 public:
  SimulationRun(const ClusterOptions& options, Traffic& traffic,
                const SimulationProgress& progress);
  SimulationResult run();

 private:
  using Index = std::uint32_t;

  enum class EventKind : unsigned char {
    kPrefixLoaded,  // a request's KV is loaded and the images it needs are known
    kImageLoaded,   // one of its images was loaded
    kImageMissed,   // the remote tier lacks the image
    kEncoded,       // everything it had to encode is encoded
    kPrefilled,     // its first token is out
    kStored,        // a transfer to the remote tier arrived
    kShardReplaced,
  };
  struct Event {
    Duration at{0};
    std::uint64_t number = 0;  // ties are broken by order of scheduling
    EventKind what = EventKind::kPrefilled;
    Index of = 0;     // a request or a transfer
    Index image = 0;  // index in the request
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tie(a.at, a.number) > std::tie(b.at, b.number);
    }
  };

  /// Places of LoadOrCompute, in order of distance.
  static constexpr std::size_t kDisk = 0;
  static constexpr std::size_t kRemote = 1;

  enum class From : unsigned char { kMemory, kAwaited, kDisk, kRemote, kComputed };
  /// One load in progress.
  struct Load {
    Bytes bytes;
    Duration took{0};
    std::size_t place = kDisk;
  };
  enum class Stage : unsigned char { kLookingUp, kToEncode, kEncoding, kAvailable };
  struct ImageState {
    bool needed = false;
    bool declined = false;
    bool leased = false;  // holds the lease: no other node encodes it meanwhile
    From from = From::kMemory;
    Stage stage = Stage::kLookingUp;
    Load load;
    LoadChoice choice;
  };
  /// One request in flight.
  struct RequestState {
    SimulatedRequest request;
    std::uint64_t number = 0;
    bool counted = false;
    bool waited = false;  // waited for another request's prefix
    Index node = 0;
    std::size_t in_memory = 0;  // pieces of the prompt found in memory, from the first
    std::size_t declined = 0;   // pieces available in a tier but computed
    LoadChoice choice;          // for the pieces after those in memory
    std::vector<Load> loads;    // loads of those pieces, from the first
    std::uint32_t covered = 0;  // tokens covered by all of these
    std::vector<ImageState> images;
    Index pending_own = 0;     // loads and look-ups that must finish before encoding starts
    Index pending_others = 0;  // images that other requests are computing or loading
    bool encodes = false;
    bool prefills = false;
    Duration computing{0};
    std::vector<std::uint64_t> flight_keys;  // keys of pieces that other requests may wait for
  };
  /// Something a request computes or loads, and the requests that wait for it.
  struct Flight {
    std::vector<std::pair<Index, Index>> waiting;  // requests and their images
  };
  struct Transfer {
    std::vector<ShelfEntry> entries;
    Index node = 0;
    RequestFacts facts;
  };
  static constexpr Index kWholeRequest = ~Index{0};

  // simulation.cc
  void schedule(Duration at, EventKind what, Index of, Index image = 0);
  void handle(const Event& event);
  Index open_request();
  void close_request(Index at);
  void change_shards(std::uint64_t number);
  void count(const RequestState& state);
  void start_counting();
  [[nodiscard]] ByteCounts bytes() const;
  void finish();
  SimulatedNode& node(const RequestState& state) { return *nodes_[state.node]; }
  [[nodiscard]] Duration now() const { return clock_.now(); }
  Index start_flight(SimulatedNode& node, std::uint64_t key);
  std::vector<std::pair<Index, Index>> end_flight(SimulatedNode& node, std::uint64_t key);

  // prompt_course.cc
  void arrive(Index at);
  bool wait_for_prefix(Index at);
  void load_prefix(Index at);
  std::vector<LoadStep> steps_of(const RequestState& state);
  Duration load_steps(RequestState& state, std::span<const LoadStep> steps, Duration ready);
  void prefix_loaded(Index at);
  void note_loads(RequestState& state);
  void look_up_image(Index at, Index image);
  bool load_image_from_disk(Index at, Index image);
  bool look_up_remote(Index at, Index image);
  void load_image_from_remote(Index at, Index image);
  void image_loaded(Index at, Index image);
  void image_missed(Index at, Index image);
  void image_available(Index at, Index image);
  void proceed(Index at);
  void encoded(Index at);
  void prefill(Index at);
  void prefilled(Index at);
  void store_prompt(RequestState& state);
  void write_to_disk(SimulatedNode& node, std::uint64_t key, Bytes bytes);
  void send(Index node, std::vector<ShelfEntry> entries, const RequestFacts& facts);
  void stored(Index at);
  [[nodiscard]] bool keeps_kv() const { return options_.node.kv_bytes > Bytes(0); }
  [[nodiscard]] bool weighs_loads() const { return options_.node.measured_loads; }
  [[nodiscard]] Bytes kv_bytes(std::uint32_t tokens) const {
    return Bytes(options_.node.kv_bytes.value() * tokens);
  }
  [[nodiscard]] Bytes image_bytes(const TrafficImage& image) const {
    return Bytes(options_.node.encoder_bytes.value() * image.tokens);
  }
  /// The request's facts for the policies, at the current time.
  [[nodiscard]] RequestFacts facts(const RequestState& state) const;
  [[nodiscard]] bool reaches_remote() const {
    return remote_.reachable() && options_.node.network > 0;
  }
  [[nodiscard]] Duration encoding(const TrafficImage& image) const;
  [[nodiscard]] Duration prefilling(std::uint32_t first, std::uint32_t tokens) const;

  const ClusterOptions options_;
  Traffic& traffic_;
  const SimulationProgress& progress_;
  ManualClock clock_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  RemoteShards remote_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::uint64_t scheduled_ = 0;
  std::vector<RequestState> requests_;
  std::vector<Index> free_requests_;
  std::vector<Flight> flights_;
  std::vector<Index> free_flights_;
  std::vector<Transfer> transfers_;
  std::vector<Index> free_transfers_;
  /// Images being encoded under a lease, and the requests on other nodes that wait for them.
  boost::unordered_flat_map<std::uint64_t, std::vector<std::pair<Index, Index>>> leases_;

  std::uint64_t answered_ = 0;
  std::uint64_t warm_ = 0;    // requests that are not counted
  std::uint64_t window_ = 1;  // requests per window
  Duration counted_from_{0};
  ByteCounts before_;  // at the start of counting
  std::vector<Duration> worked_before_;
  SimulationResult result_;
};

}  // namespace afterimage
