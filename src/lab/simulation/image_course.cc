// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <utility>

#include "lab/simulation/simulation_run.h"

namespace afterimage {

Duration SimulationRun::encoding(const TrafficImage& image) const {
  return image.encode > Duration(0) ? image.encode
                                    : Duration(static_cast<Duration::rep>(
                                          image.tokens / options_.node.encode_rate * 1e9 + 0.5));
}

void SimulationRun::look_for_image(Index at, Index image) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  const TrafficImage& asked = course.request.images[image];
  ImageCourse& way = course.images[image];
  way.stage = Stage::kHere;
  if (asked.offset + asked.tokens <= course.covered) return;
  way.needed = true;
  if (here.encoder.holds(asked.key)) return;
  way.stage = Stage::kLooking;
  if (const auto other = here.making.find(asked.key); other != here.making.end()) {
    way.from = From::kAwaited;
    ++course.others;
    flights_[other->second].waiting.emplace_back(at, image);
    return;
  }
  fly(here, asked.key);
  if (load_image_from_disk(at, image)) return;
  if (!way.declined && ask_remote(at, image)) return;
  way.from = From::kComputed;
  way.stage = Stage::kToEncode;
}

bool SimulationRun::load_image_from_disk(Index at, Index image) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  const TrafficImage& asked = course.request.images[image];
  if (!here.disk.has_value() || !here.disk->holds(asked.key)) return false;
  const EntryMetadata metadata{
      .bytes = image_bytes(asked), .cost = encoding(asked), .place = kDisk};
  LoadChoice choice{.steps = 1};
  if (weighs()) {
    choice = here.choices.choose(here.choices.step_of(EntryClass::kEncoderOutput, metadata));
  }
  ImageCourse& way = course.images[image];
  way.choice = choice;
  way.declined = choice.steps == 0;
  if (way.declined) return false;
  here.disk->read(asked.key);
  const Duration done = here.disk_out.pass(now() + options_.node.disk_latency, metadata.bytes);
  way.from = From::kDisk;
  way.load = {.bytes = metadata.bytes, .took = done - now(), .place = kDisk};
  ++course.own;
  schedule(done, Happening::kImageLoaded, at, image);
  return true;
}

bool SimulationRun::ask_remote(Index at, Index image) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  const TrafficImage& asked = course.request.images[image];
  if (!reaches_remote()) return false;
  RemoteShards::Shard* const shard = remote_.shard_of(asked.key);
  if (shard == nullptr) return false;
  LoadChoice choice{.steps = 1};
  if (weighs()) {
    // Which size it has nobody knows: the shard may have it, or not.
    const EntryMetadata metadata{.bytes = {}, .place = kRemote};
    choice = here.choices.choose(here.choices.step_of(EntryClass::kEncoderOutput, metadata));
  }
  ImageCourse& way = course.images[image];
  if (choice.steps == 0) {
    way.declined = shard->shelf.holds(asked.key);
    return false;
  }
  way.choice = choice;
  ++course.own;
  if (shard->shelf.holds(asked.key)) {
    load_image_from_remote(at, image);
  } else {
    schedule(now() + options_.remote.round_trip, Happening::kImageMissed, at, image);
  }
  return true;
}

/// It is there.
void SimulationRun::load_image_from_remote(Index at, Index image) {
  Course& course = courses_[at];
  const TrafficImage& asked = course.request.images[image];
  RemoteShards::Shard& shard = *remote_.shard_of(asked.key);
  shard.shelf.touch(asked.key);
  const Bytes bytes = image_bytes(asked);
  const Duration done =
      pass(shard.out, node(course).net_in, now() + options_.remote.round_trip, bytes);
  ImageCourse& way = course.images[image];
  way.from = From::kRemote;
  way.load = {.bytes = bytes, .took = done - now(), .place = kRemote};
  schedule(done, Happening::kImageLoaded, at, image);
}

void SimulationRun::image_loaded(Index at, Index image) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  const TrafficImage& asked = course.request.images[image];
  const ImageCourse& way = course.images[image];
  here.choices.loaded(way.load.bytes, way.load.took, way.choice, way.load.place);
  here.choices.learn(EntryClass::kEncoderOutput, way.load.bytes, encoding(asked));
  if (way.load.place == kRemote) write_to_disk(here, asked.key, way.load.bytes);
  here.encoder.begin_request(facts(course));
  here.encoder.keep({.key = asked.key, .bytes = way.load.bytes, .cost = encoding(asked)});
  --course.own;
  image_here(at, image);
  go_on(at);
}

void SimulationRun::image_missed(Index at, Index image) {
  Course& course = courses_[at];
  ImageCourse& way = course.images[image];
  const std::uint64_t key = course.request.images[image].key;
  node(course).choices.loaded(Bytes(0), options_.remote.round_trip, {}, kRemote);
  --course.own;
  if (options_.remote.leases && remote_.shard_of(key) != nullptr) {
    const auto [lease, first] = leases_.try_emplace(key);
    if (!first) {
      lease->second.emplace_back(at, image);
      ++course.others;
      return go_on(at);
    }
    way.leased = true;
  }
  way.from = From::kComputed;
  way.stage = Stage::kToEncode;
  go_on(at);
}

/// Tells whoever waits for it in the same node.
void SimulationRun::image_here(Index at, Index image) {
  courses_[at].images[image].stage = Stage::kHere;
  for (const auto& [other, which] :
       land(node(courses_[at]), courses_[at].request.images[image].key)) {
    courses_[other].images[which].stage = Stage::kHere;
    --courses_[other].others;
    go_on(other);
  }
}

void SimulationRun::encoded(Index at) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  course.encodes = false;
  here.encoder.begin_request(facts(course));
  std::vector<ShelfEntry> made;
  std::vector<Index> images;
  for (Index i = 0; i < course.images.size(); ++i) {
    if (course.images[i].stage != Stage::kEncoding) continue;
    const TrafficImage& image = course.request.images[i];
    made.push_back({.key = image.key, .bytes = image_bytes(image), .cost = encoding(image)});
    images.push_back(i);
    here.encoder.keep(made.back());
    here.choices.learn(EntryClass::kEncoderOutput, made.back().bytes, made.back().cost);
    write_to_disk(here, image.key, made.back().bytes);
  }
  send(course.node, std::move(made), facts(course));
  for (const Index image : images) image_here(at, image);
  go_on(at);
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
  if (free_sendings_.empty()) {
    free_sendings_.push_back(static_cast<Index>(sendings_.size()));
    sendings_.emplace_back();
  }
  const Index at = free_sendings_.back();
  free_sendings_.pop_back();
  sendings_[at] = {.entries = std::move(entries), .node = from, .facts = facts};
  schedule(done, Happening::kStored, at);
}

void SimulationRun::stored(Index at) {
  const Sending sending = std::exchange(sendings_[at], {});
  free_sendings_.push_back(at);
  for (const ShelfEntry& entry : sending.entries) {
    RemoteShards::Shard* const shard = reaches_remote() ? remote_.shard_of(entry.key) : nullptr;
    if (shard != nullptr) {
      RequestFacts facts = sending.facts;
      facts.now = now();
      shard->shelf.begin_request(facts);
      shard->shelf.keep(entry);
    }
    const auto lease = leases_.find(entry.key);
    if (lease == leases_.end()) continue;
    const auto waiting = std::move(lease->second);
    leases_.erase(lease);
    for (const auto& [other, image] : waiting) {
      --courses_[other].others;
      ++courses_[other].own;
      if (shard != nullptr && shard->shelf.holds(entry.key)) {
        load_image_from_remote(other, image);
      } else {
        schedule(now(), Happening::kImageMissed, other, image);
      }
    }
  }
}

}  // namespace afterimage
