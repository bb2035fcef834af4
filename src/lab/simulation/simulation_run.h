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

/// The inside of simulate(); the room's own. simulation.cc has the clock and the counts,
/// prompt_course.cc and image_course.cc what a request goes through.
namespace afterimage {

class SimulationRun {
 public:
  SimulationRun(const ClusterOptions& options, Traffic& traffic,
                const SimulationProgress& progress);
  SimulationResult run();

 private:
  using Index = std::uint32_t;

  enum class Happening : unsigned char {
    kPrefixLoaded,  // of a request: what it loads of KV is here, and which images it needs is known
    kImageLoaded,   // of one of its images
    kImageMissed,   // the remote tier does not have it
    kEncoded,       // all that it had to encode
    kPrefilled,     // its first token is there
    kStored,        // what was sent to the remote tier is there
    kShardReplaced,
  };
  struct Event {
    Duration at{0};
    std::uint64_t number = 0;  // ties: in the order in which they were foreseen
    Happening what = Happening::kPrefilled;
    Index of = 0;     // a course or a sending
    Index image = 0;  // of the course's request
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tie(a.at, a.number) > std::tie(b.at, b.number);
    }
  };

  /// Places of LoadOrCompute.
  static constexpr std::size_t kDisk = 0;
  static constexpr std::size_t kRemote = 1;

  enum class From : unsigned char { kMemory, kAwaited, kDisk, kRemote, kComputed };
  /// One load under way.
  struct Load {
    Bytes bytes;
    Duration took{0};
    std::size_t place = kDisk;
  };
  enum class Stage : unsigned char { kLooking, kToEncode, kEncoding, kHere };
  struct ImageCourse {
    bool needed = false;
    bool declined = false;
    bool leased = false;  // no other node encodes it while we do
    From from = From::kMemory;
    Stage stage = Stage::kLooking;
    Load load;
    LoadChoice choice;
  };
  /// One request on its way.
  struct Course {
    SimulatedRequest request;
    std::uint64_t number = 0;
    bool counted = false;
    bool waited = false;  // for another's prefix
    Index node = 0;
    std::size_t in_memory = 0;  // pieces, from the first
    std::size_t declined = 0;   // pieces that were there and are computed
    LoadChoice choice;          // about the pieces behind those in memory
    std::vector<Load> loads;    // of these, from the first
    std::uint32_t covered = 0;  // tokens of all these
    std::vector<ImageCourse> images;
    Index own = 0;     // loads and questions that are to be answered before it encodes
    Index others = 0;  // images that others are making
    bool encodes = false;
    bool prefills = false;
    Duration computing{0};
    std::vector<std::uint64_t> makes;  // keys of pieces that others may wait for
  };
  /// What some course makes, and who waits for it.
  struct Flight {
    std::vector<std::pair<Index, Index>> waiting;  // courses and images
  };
  struct Sending {
    std::vector<ShelfEntry> entries;
    Index node = 0;
    RequestFacts facts;
  };
  static constexpr Index kWholeCourse = ~Index{0};

  // simulation.cc
  void schedule(Duration at, Happening what, Index of, Index image = 0);
  void happen(const Event& event);
  Index open_course();
  void close_course(Index at);
  void change_shards(std::uint64_t number);
  void count(const Course& course);
  void mark();
  [[nodiscard]] ByteCounts bytes() const;
  void finish();
  SimulatedNode& node(const Course& course) { return *nodes_[course.node]; }
  [[nodiscard]] Duration now() const { return clock_.now(); }
  Index fly(SimulatedNode& node, std::uint64_t key);
  std::vector<std::pair<Index, Index>> land(SimulatedNode& node, std::uint64_t key);

  // prompt_course.cc
  void arrive(Index at);
  bool wait_for_prefix(Index at);
  void load_prefix(Index at);
  std::vector<LoadStep> steps_of(const Course& course);
  Duration load_steps(Course& course, std::span<const LoadStep> steps, Duration ready);
  void prefix_loaded(Index at);
  void note_loads(Course& course);
  void look_for_image(Index at, Index image);
  bool load_image_from_disk(Index at, Index image);
  bool ask_remote(Index at, Index image);
  void load_image_from_remote(Index at, Index image);
  void image_loaded(Index at, Index image);
  void image_missed(Index at, Index image);
  void image_here(Index at, Index image);
  void go_on(Index at);
  void encoded(Index at);
  void prefill(Index at);
  void prefilled(Index at);
  void keep_prompt(Course& course);
  void write_to_disk(SimulatedNode& node, std::uint64_t key, Bytes bytes);
  void send(Index node, std::vector<ShelfEntry> entries, const RequestFacts& facts);
  void stored(Index at);
  [[nodiscard]] bool keeps_kv() const { return options_.node.kv_bytes > Bytes(0); }
  [[nodiscard]] bool weighs() const { return options_.node.measured_loads; }
  [[nodiscard]] Bytes kv_bytes(std::uint32_t tokens) const {
    return Bytes(options_.node.kv_bytes.value() * tokens);
  }
  [[nodiscard]] Bytes image_bytes(const TrafficImage& image) const {
    return Bytes(options_.node.encoder_bytes.value() * image.tokens);
  }
  /// A request's, as policies are told of it now.
  [[nodiscard]] RequestFacts facts(const Course& course) const;
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
  std::uint64_t foreseen_ = 0;
  std::vector<Course> courses_;
  std::vector<Index> free_courses_;
  std::vector<Flight> flights_;
  std::vector<Index> free_flights_;
  std::vector<Sending> sendings_;
  std::vector<Index> free_sendings_;
  /// Images that some node encodes and will send, and who waits for them there.
  boost::unordered_flat_map<std::uint64_t, std::vector<std::pair<Index, Index>>> leases_;

  std::uint64_t answered_ = 0;
  std::uint64_t warm_ = 0;    // requests that are not counted
  std::uint64_t window_ = 1;  // requests of one
  Duration counted_from_{0};
  ByteCounts before_;  // when counting began
  std::vector<Duration> worked_before_;
  SimulationResult result_;
};

}  // namespace afterimage
