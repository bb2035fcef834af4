// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/simulation.h"

#include <algorithm>

#include "afterimage/result.h"
#include "lab/simulation/simulation_run.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kWindows = 60;
constexpr double kRecovered = 0.95;  // of the share saved before

/// Time from the loss until the end of the first window that saves nearly as much as before.
std::optional<Duration> recovery(const std::vector<SimulationWindow>& windows, Duration lost_at) {
  double before = 0;
  std::size_t counted = 0;
  std::size_t next = 0;
  for (; next < windows.size() && windows[next].until <= lost_at; ++next) {
    if (next * 4 < kWindows) continue;  // caches are still filling
    before += windows[next].saved_share();
    ++counted;
  }
  if (counted == 0) return std::nullopt;
  before /= static_cast<double>(counted);
  for (++next; next < windows.size(); ++next) {
    if (windows[next].saved_share() >= kRecovered * before) return windows[next].until - lost_at;
  }
  return std::nullopt;
}

}  // namespace

SimulationRun::SimulationRun(const ClusterOptions& options, Traffic& traffic,
                             const SimulationProgress& progress)
    : options_(options), traffic_(traffic), progress_(progress), remote_(options.remote) {
  for (std::uint32_t i = 0; i < options.nodes; ++i) {
    nodes_.push_back(std::make_unique<SimulatedNode>(options.node, clock_));
  }
  const auto requests = static_cast<double>(traffic.requests());
  warm_ = static_cast<std::uint64_t>(options.warm_up * requests);
  window_ = std::max<std::uint64_t>(1, (traffic.requests() + kWindows - 1) / kWindows);
  worked_before_.resize(nodes_.size());
  result_.options = options;
}

SimulationResult SimulationRun::run() {
  SimulatedRequest request;
  std::uint64_t number = 0;
  bool more = traffic_.next(request);
  while (more || !events_.empty()) {
    if (more && (events_.empty() || request.facts.now <= events_.top().at)) {
      clock_.advance(std::max(request.facts.now - now(), Duration(0)));
      if (number == warm_) start_counting();
      change_shards(number);
      const Index at = open_request();
      std::swap(requests_[at].request, request);
      requests_[at].number = number;
      requests_[at].counted = number >= warm_;
      ++number;
      arrive(at);
      more = traffic_.next(request);
    } else {
      const Event event = events_.top();
      events_.pop();
      clock_.advance(event.at - now());
      handle(event);
    }
  }
  finish();
  return std::move(result_);
}

void SimulationRun::handle(const Event& event) {
  switch (event.what) {
    case EventKind::kPrefixLoaded:
      return prefix_loaded(event.of);
    case EventKind::kImageLoaded:
      return image_loaded(event.of, event.image);
    case EventKind::kImageMissed:
      return image_missed(event.of, event.image);
    case EventKind::kEncoded:
      return encoded(event.of);
    case EventKind::kPrefilled:
      return prefilled(event.of);
    case EventKind::kStored:
      return stored(event.of);
    case EventKind::kShardReplaced:
      return remote_.replace();
  }
}

void SimulationRun::schedule(Duration at, EventKind what, Index of, Index image) {
  events_.push(
      {.at = std::max(at, now()), .number = scheduled_++, .what = what, .of = of, .image = image});
}

SimulationRun::Index SimulationRun::open_request() {
  if (free_requests_.empty()) {
    requests_.emplace_back();
    return static_cast<Index>(requests_.size() - 1);
  }
  const Index at = free_requests_.back();
  free_requests_.pop_back();
  return at;
}

void SimulationRun::close_request(Index at) {
  RequestState& old = requests_[at];
  RequestState fresh;  // reuses the old one's allocations
  fresh.request = std::move(old.request);
  fresh.loads = std::move(old.loads);
  fresh.images = std::move(old.images);
  fresh.flight_keys = std::move(old.flight_keys);
  fresh.loads.clear();
  fresh.images.clear();
  fresh.flight_keys.clear();
  old = std::move(fresh);
  free_requests_.push_back(at);
}

SimulationRun::Index SimulationRun::start_flight(SimulatedNode& node, std::uint64_t key) {
  if (free_flights_.empty()) {
    free_flights_.push_back(static_cast<Index>(flights_.size()));
    flights_.emplace_back();
  }
  const Index flight = free_flights_.back();
  free_flights_.pop_back();
  node.flights.emplace(key, flight);
  return flight;
}

std::vector<std::pair<SimulationRun::Index, SimulationRun::Index>> SimulationRun::end_flight(
    SimulatedNode& node, std::uint64_t key) {
  const auto it = node.flights.find(key);
  AFI_CHECK(it != node.flights.end());
  auto waiting = std::exchange(flights_[it->second].waiting, {});
  free_flights_.push_back(it->second);
  node.flights.erase(it);
  return waiting;
}

void SimulationRun::change_shards(std::uint64_t number) {
  const auto requests = static_cast<double>(traffic_.requests());
  const auto is_at = [&](const std::optional<double>& part) {
    return part.has_value() && number == static_cast<std::uint64_t>(*part * requests);
  };
  if (is_at(options_.remote.add_at)) remote_.add();
  if (!is_at(options_.remote.lose_at)) return;
  const PolicyShelf& lost = remote_.all().front()->shelf;
  result_.lost_entries = lost.entries();
  result_.lost_bytes = lost.resident();
  for (const auto& shard : remote_.all()) {
    result_.remote_entries_then += shard->shelf.entries();
    result_.shard_memory = std::max(result_.shard_memory, shard->memory.peak());
  }
  result_.lost_at = now();
  remote_.lose();
  schedule(now() + options_.remote.replaced_after, EventKind::kShardReplaced, 0);
}

void SimulationRun::count(const RequestState& state) {
  const std::size_t at = answered_ / window_;
  if (at >= result_.windows.size()) result_.windows.resize(at + 1);
  SimulationWindow& window = result_.windows[at];
  const Duration took = now() - state.request.facts.now;
  ++window.requests;
  window.until = now();
  window.latest = std::max(window.latest, took);
  window.compute_seconds += in_seconds(state.computing);

  ImageCounts images;
  Duration all_encoding{0};
  for (std::size_t i = 0; i < state.images.size(); ++i) {
    all_encoding += encoding(state.request.images[i]);
    const ImageState& image = state.images[i];
    if (!image.needed) {
      ++images.covered;
      continue;
    }
    ++images.lookups;
    images.memory += image.from == From::kMemory ? 1 : 0;
    images.awaited += image.from == From::kAwaited ? 1 : 0;
    images.disk += image.from == From::kDisk ? 1 : 0;
    images.remote += image.from == From::kRemote ? 1 : 0;
    images.computed += image.from == From::kComputed ? 1 : 0;
    images.declined += image.from == From::kComputed && image.declined ? 1 : 0;
  }
  window.images += images.covered + images.lookups;
  window.images_saved += images.covered + images.lookups - images.computed;
  window.images_remote += images.remote;
  ++answered_;
  if (progress_ && answered_ % 65'536 == 0) progress_(answered_, traffic_.requests());
  if (!state.counted) return;

  ++result_.requests;
  result_.first_token.add(took);
  result_.compute_seconds += in_seconds(state.computing);
  result_.compute_seconds_saved +=
      in_seconds(all_encoding + prefilling(0, state.request.input_tokens)) -
      in_seconds(state.computing);
  ImageCounts& sum = result_.images;
  sum.covered += images.covered;
  sum.lookups += images.lookups;
  sum.memory += images.memory;
  sum.awaited += images.awaited;
  sum.disk += images.disk;
  sum.remote += images.remote;
  sum.computed += images.computed;
  sum.declined += images.declined;

  KvCounts& kv = result_.kv;
  const auto& pieces = state.request.prompt;
  std::uint64_t cached_tokens = 0;
  for (std::size_t i = 0; i < state.in_memory; ++i) cached_tokens += pieces[i].tokens;
  kv.memory += cached_tokens;
  std::size_t next = state.in_memory;
  for (const Load& load : state.loads) {
    const std::uint32_t tokens = pieces[next++].tokens;
    (load.place == kDisk ? kv.disk : kv.remote) += tokens;
    cached_tokens += tokens;
  }
  for (std::size_t i = 0; i < state.declined; ++i) kv.declined += pieces[next++].tokens;
  kv.input += state.request.input_tokens;
  kv.computed += state.request.input_tokens - cached_tokens;
}

ByteCounts SimulationRun::bytes() const {
  ByteCounts bytes;
  for (const auto& node : nodes_) {
    bytes.disk_read += node->disk_out.moved();
    bytes.disk_written += node->disk_in.moved();
    bytes.into_nodes += node->net_in.moved();
    bytes.out_of_nodes += node->net_out.moved();
  }
  for (const auto& shard : remote_.all()) {
    bytes.out_of_shards += shard->out.moved();
    bytes.into_shards += shard->in.moved();
  }
  return bytes;
}

void SimulationRun::start_counting() {
  counted_from_ = now();
  before_ = bytes();
  for (std::size_t i = 0; i < nodes_.size(); ++i) worked_before_[i] = nodes_[i]->worked();
}

void SimulationRun::finish() {
  const ByteCounts all = bytes();
  result_.bytes = {.disk_read = all.disk_read - before_.disk_read,
                   .disk_written = all.disk_written - before_.disk_written,
                   .out_of_shards = all.out_of_shards - before_.out_of_shards,
                   .into_nodes = all.into_nodes - before_.into_nodes,
                   .out_of_nodes = all.out_of_nodes - before_.out_of_nodes,
                   .into_shards = all.into_shards - before_.into_shards};
  result_.span = now() - counted_from_;
  const double whole = std::max(in_seconds(now()), 1e-9);
  double worked = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const SimulatedNode& node = *nodes_[i];
    worked += in_seconds(node.worked() - worked_before_[i]);
    result_.node_memory = std::max(result_.node_memory, node.memory.peak());
    if (node.disk.has_value()) result_.node_disk = std::max(result_.node_disk, node.disk->used());
    result_.busiest_disk = std::max({result_.busiest_disk, in_seconds(node.disk_in.busy()) / whole,
                                     in_seconds(node.disk_out.busy()) / whole});
    result_.busiest_node_link =
        std::max({result_.busiest_node_link, in_seconds(node.net_in.busy()) / whole,
                  in_seconds(node.net_out.busy()) / whole});
    node.encoder.check_invariants();
    node.kv.check_invariants();
    AFI_CHECK(node.flights.empty());
  }
  for (const auto& shard : remote_.all()) {
    result_.shard_memory = std::max(result_.shard_memory, shard->memory.peak());
    result_.busiest_shard_link =
        std::max({result_.busiest_shard_link, in_seconds(shard->in.busy()) / whole,
                  in_seconds(shard->out.busy()) / whole});
    shard->shelf.check_invariants();
  }
  AFI_CHECK(leases_.empty());
  const double capacity = in_seconds(result_.span) * options_.nodes * options_.node.engines;
  result_.engines_busy = capacity > 0 ? worked / capacity : 0;
  if (result_.lost_at.has_value()) {
    result_.recovered_after = recovery(result_.windows, *result_.lost_at);
  }
  if (progress_) progress_(traffic_.requests(), traffic_.requests());
}

Result<SimulationResult> simulate(const ClusterOptions& options, Traffic& traffic,
                                  const SimulationProgress& progress) {
  AFI_TRY_VOID(check(options));
  return SimulationRun(options, traffic, progress).run();
}

}  // namespace afterimage
