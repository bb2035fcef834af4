// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/simulation/simulation_run.h"

namespace afterimage {

Duration SimulationRun::encoding(const TrafficImage& image) const {
  return image.encode > Duration(0)
             ? image.encode
             : Duration(std::llround(image.tokens / options_.node.encode_rate * 1e9));
}

void SimulationRun::look_up_image(Index at, Index image) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  const TrafficImage& wanted_image = state.request.images[image];
  ImageState& image_state = state.images[image];
  image_state.stage = Stage::kAvailable;
  if (wanted_image.offset + wanted_image.tokens <= state.covered) return;
  image_state.needed = true;
  if (sim_node.encoder.holds(wanted_image.key)) return;
  image_state.stage = Stage::kLookingUp;
  if (const auto other = sim_node.flights.find(wanted_image.key); other != sim_node.flights.end()) {
    image_state.from = From::kAwaited;
    ++state.pending_others;
    flights_[other->second].waiting.emplace_back(at, image);
    return;
  }
  start_flight(sim_node, wanted_image.key);
  if (load_image_from_disk(at, image)) return;
  if (!image_state.declined && look_up_remote(at, image)) return;
  image_state.from = From::kComputed;
  image_state.stage = Stage::kToEncode;
}

bool SimulationRun::load_image_from_disk(Index at, Index image) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  const TrafficImage& wanted_image = state.request.images[image];
  if (!sim_node.disk.has_value() || !sim_node.disk->holds(wanted_image.key)) return false;
  const EntryMetadata metadata{
      .bytes = image_bytes(wanted_image), .cost = encoding(wanted_image), .place = kDisk};
  LoadChoice choice{.steps = 1};
  if (weighs_loads()) {
    choice =
        sim_node.choices.choose(sim_node.choices.step_of(EntryClass::kEncoderOutput, metadata));
  }
  ImageState& image_state = state.images[image];
  image_state.choice = choice;
  image_state.declined = choice.steps == 0;
  if (image_state.declined) return false;
  sim_node.disk->read(wanted_image.key);
  const Duration done = sim_node.disk_out.pass(now() + options_.node.disk_latency, metadata.bytes);
  image_state.from = From::kDisk;
  image_state.load = {.bytes = metadata.bytes, .took = done - now(), .place = kDisk};
  ++state.pending_own;
  schedule(done, EventKind::kImageLoaded, at, image);
  return true;
}

bool SimulationRun::look_up_remote(Index at, Index image) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  const TrafficImage& wanted_image = state.request.images[image];
  if (!reaches_remote()) return false;
  RemoteShards::Shard* const shard = remote_.shard_of(wanted_image.key);
  if (shard == nullptr) return false;
  LoadChoice choice{.steps = 1};
  if (weighs_loads()) {
    // The size is unknown: the shard may or may not have the entry.
    const EntryMetadata metadata{.bytes = {}, .place = kRemote};
    choice =
        sim_node.choices.choose(sim_node.choices.step_of(EntryClass::kEncoderOutput, metadata));
  }
  ImageState& image_state = state.images[image];
  if (choice.steps == 0) {
    image_state.declined = shard->shelf.holds(wanted_image.key);
    return false;
  }
  image_state.choice = choice;
  ++state.pending_own;
  if (shard->shelf.holds(wanted_image.key)) {
    load_image_from_remote(at, image);
  } else {
    schedule(now() + options_.remote.round_trip, EventKind::kImageMissed, at, image);
  }
  return true;
}

/// Requires that the shard has the image.
void SimulationRun::load_image_from_remote(Index at, Index image) {
  RequestState& state = requests_[at];
  const TrafficImage& wanted_image = state.request.images[image];
  RemoteShards::Shard& shard = *remote_.shard_of(wanted_image.key);
  shard.shelf.touch(wanted_image.key);
  const Bytes bytes = image_bytes(wanted_image);
  const Duration done =
      pass(shard.out, node(state).net_in, now() + options_.remote.round_trip, bytes);
  ImageState& image_state = state.images[image];
  image_state.from = From::kRemote;
  image_state.load = {.bytes = bytes, .took = done - now(), .place = kRemote};
  schedule(done, EventKind::kImageLoaded, at, image);
}

void SimulationRun::image_loaded(Index at, Index image) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  const TrafficImage& wanted_image = state.request.images[image];
  const ImageState& image_state = state.images[image];
  sim_node.choices.loaded(image_state.load.bytes, image_state.load.took, image_state.choice,
                          image_state.load.place);
  sim_node.choices.learn(EntryClass::kEncoderOutput, image_state.load.bytes,
                         encoding(wanted_image));
  if (image_state.load.place == kRemote)
    write_to_disk(sim_node, wanted_image.key, image_state.load.bytes);
  sim_node.encoder.begin_request(facts(state));
  sim_node.encoder.insert(
      {.key = wanted_image.key, .bytes = image_state.load.bytes, .cost = encoding(wanted_image)});
  --state.pending_own;
  image_available(at, image);
  proceed(at);
}

void SimulationRun::image_missed(Index at, Index image) {
  RequestState& state = requests_[at];
  ImageState& image_state = state.images[image];
  const std::uint64_t key = state.request.images[image].key;
  node(state).choices.loaded(Bytes(0), options_.remote.round_trip, {}, kRemote);
  --state.pending_own;
  if (options_.remote.leases && remote_.shard_of(key) != nullptr) {
    const auto [lease, first] = leases_.try_emplace(key);
    if (!first) {
      lease->second.emplace_back(at, image);
      ++state.pending_others;
      return proceed(at);
    }
    image_state.leased = true;
  }
  image_state.from = From::kComputed;
  image_state.stage = Stage::kToEncode;
  proceed(at);
}

/// Ends the image's flight and wakes the requests of this node that wait for it.
void SimulationRun::image_available(Index at, Index image) {
  requests_[at].images[image].stage = Stage::kAvailable;
  for (const auto& [other, which] :
       end_flight(node(requests_[at]), requests_[at].request.images[image].key)) {
    requests_[other].images[which].stage = Stage::kAvailable;
    --requests_[other].pending_others;
    proceed(other);
  }
}

void SimulationRun::encoded(Index at) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  state.encodes = false;
  sim_node.encoder.begin_request(facts(state));
  std::vector<ShelfEntry> new_entries;
  std::vector<Index> images;
  for (Index i = 0; i < state.images.size(); ++i) {
    if (state.images[i].stage != Stage::kEncoding) continue;
    const TrafficImage& image = state.request.images[i];
    new_entries.push_back({.key = image.key, .bytes = image_bytes(image), .cost = encoding(image)});
    images.push_back(i);
    sim_node.encoder.insert(new_entries.back());
    sim_node.choices.learn(EntryClass::kEncoderOutput, new_entries.back().bytes,
                           new_entries.back().cost);
    write_to_disk(sim_node, image.key, new_entries.back().bytes);
  }
  send(state.node, std::move(new_entries), facts(state));
  for (const Index image : images) image_available(at, image);
  proceed(at);
}

void SimulationRun::write_to_disk(SimulatedNode& node, std::uint64_t key, Bytes bytes) {
  if (node.disk.has_value() && node.disk->append(key, bytes)) node.disk_in.pass(now(), bytes);
}

void SimulationRun::send(Index from, std::vector<ShelfEntry> entries, const RequestFacts& facts) {
  if (entries.empty()) return;
  Duration done = now();
  for (const ShelfEntry& entry : entries) {
    RemoteShards::Shard* const shard = reaches_remote() ? remote_.shard_of(entry.key) : nullptr;
    if (shard == nullptr || shard->shelf.holds(entry.key)) continue;
    done = std::max(done, pass(nodes_[from]->net_out, shard->in, now(), entry.bytes));
  }
  if (free_transfers_.empty()) {
    free_transfers_.push_back(static_cast<Index>(transfers_.size()));
    transfers_.emplace_back();
  }
  const Index at = free_transfers_.back();
  free_transfers_.pop_back();
  transfers_[at] = {.entries = std::move(entries), .node = from, .facts = facts};
  schedule(done, EventKind::kStored, at);
}

void SimulationRun::stored(Index at) {
  const Transfer transfer = std::exchange(transfers_[at], {});
  free_transfers_.push_back(at);
  for (const ShelfEntry& entry : transfer.entries) {
    RemoteShards::Shard* const shard = reaches_remote() ? remote_.shard_of(entry.key) : nullptr;
    if (shard != nullptr) {
      RequestFacts facts = transfer.facts;
      facts.now = now();
      shard->shelf.begin_request(facts);
      shard->shelf.insert(entry);
    }
    const auto lease = leases_.find(entry.key);
    if (lease == leases_.end()) continue;
    const auto waiting = std::move(lease->second);
    leases_.erase(lease);
    for (const auto& [other, image] : waiting) {
      --requests_[other].pending_others;
      ++requests_[other].pending_own;
      if (shard != nullptr && shard->shelf.holds(entry.key)) {
        load_image_from_remote(other, image);
      } else {
        schedule(now(), EventKind::kImageMissed, other, image);
      }
    }
  }
}

}  // namespace afterimage
