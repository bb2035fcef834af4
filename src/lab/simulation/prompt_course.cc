// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cmath>

#include "afterimage/check.h"
#include "lab/simulation/simulation_run.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kWorthWaiting = 32;  // tokens, as PrefillOnceOptions has it

Duration of_seconds(double seconds) {
  return Duration(static_cast<Duration::rep>(std::llround(seconds * 1e9)));
}

}  // namespace

Duration SimulationRun::prefilling(std::uint32_t first, std::uint32_t tokens) const {
  // The mean position of the tokens decides, since the cost is linear in it.
  const double at = first + tokens / 2.0;
  return of_seconds(tokens * (1 + at / options_.node.attention_tokens) /
                    options_.node.prefill_rate);
}

RequestFacts SimulationRun::facts(const Course& course) const {
  RequestFacts facts = course.request.facts;
  facts.now = now();
  return facts;
}

void SimulationRun::arrive(Index at) {
  Course& course = courses_[at];
  const SimulatedRequest& request = course.request;
  std::uint64_t by = course.number;
  if (options_.routing == Routing::kAffinity) by = stirred(1, request.session);
  if (options_.routing == Routing::kImage) {
    by = request.images.empty() ? stirred(1, request.session) : stirred(2, request.images[0].key);
  }
  course.node = static_cast<Index>(by % nodes_.size());
  course.images.resize(request.images.size());
  if (!wait_for_prefix(at)) load_prefix(at);
}

/// Whether another's prefill is worth waiting for: as PrefillOnce judges it.
bool SimulationRun::wait_for_prefix(Index at) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  const auto& pieces = course.request.prompt;
  course.in_memory = 0;
  if (!keeps_kv()) return false;
  std::uint32_t matched = 0;
  while (course.in_memory < pieces.size() && here.kv.holds(pieces[course.in_memory].key)) {
    matched += pieces[course.in_memory++].tokens;
  }
  if (course.waited || course.in_memory == pieces.size()) return false;
  const auto flight = here.making.find(pieces[course.in_memory].key);
  if (flight == here.making.end()) return false;
  std::uint32_t promised = 0;
  for (std::size_t i = course.in_memory; i < pieces.size(); ++i) {
    if (!here.making.contains(pieces[i].key)) break;
    promised += pieces[i].tokens;
  }
  if (promised < kWorthWaiting || 2 * promised < course.request.input_tokens - matched) {
    return false;
  }
  course.waited = true;
  flights_[flight->second].waiting.emplace_back(at, kWholeCourse);
  return true;
}

void SimulationRun::load_prefix(Index at) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  const auto& pieces = course.request.prompt;
  if (!keeps_kv() || course.in_memory == pieces.size()) return prefix_loaded(at);
  for (std::size_t i = course.in_memory; i < pieces.size(); ++i) {
    if (here.making.contains(pieces[i].key)) continue;
    fly(here, pieces[i].key);
    course.makes.push_back(pieces[i].key);
  }
  const std::vector<LoadStep> steps = steps_of(course);
  course.choice.steps = steps.size();
  if (weighs() && !steps.empty()) course.choice = here.choices.choose(steps);
  course.declined = steps.size() - course.choice.steps;
  // Whether a shard has what the disk does not is asked of all pieces at once.
  const std::size_t asked = course.in_memory + static_cast<std::size_t>(std::ranges::count(
                                                   steps, kDisk, &LoadStep::place));
  const bool asks =
      reaches_remote() && asked < pieces.size() && remote_.shard_of(pieces[asked].key) != nullptr;
  const Duration ready = asks ? now() + options_.remote.round_trip : now();
  const Duration done = load_steps(course, std::span(steps).first(course.choice.steps), ready);
  if (done == now()) return prefix_loaded(at);
  schedule(done, Happening::kPrefixLoaded, at);
}

/// The pieces that follow those in memory, as far as some tier has them.
std::vector<LoadStep> SimulationRun::steps_of(const Course& course) {
  SimulatedNode& here = node(course);
  const auto& pieces = course.request.prompt;
  std::vector<LoadStep> steps;
  for (std::size_t i = course.in_memory; i < pieces.size(); ++i) {
    const std::uint64_t key = pieces[i].key;
    const bool on_disk = here.disk.has_value() && here.disk->holds(key);
    RemoteShards::Shard* const shard =
        on_disk || !reaches_remote() ? nullptr : remote_.shard_of(key);
    if (!on_disk && (shard == nullptr || !shard->shelf.holds(key))) break;
    const Bytes bytes = kv_bytes(pieces[i].tokens);
    steps.push_back({.bytes = bytes,
                     .cost = here.choices.cost_of(EntryClass::kPrefixKv, bytes),
                     .place = on_disk ? kDisk : kRemote});
  }
  return steps;
}

Duration SimulationRun::load_steps(Course& course, std::span<const LoadStep> steps,
                                   Duration ready) {
  SimulatedNode& here = node(course);
  Duration before = now();
  for (const LoadStep& step : steps) {
    const std::uint64_t key = course.request.prompt[course.in_memory + course.loads.size()].key;
    if (step.place == kDisk) {
      here.disk->read(key);
      ready = here.disk_out.pass(ready + options_.node.disk_latency, step.bytes);
    } else {
      RemoteShards::Shard& shard = *remote_.shard_of(key);
      shard.shelf.touch(key);
      ready = pass(shard.out, here.net_in, ready, step.bytes);
    }
    course.loads.push_back({.bytes = step.bytes, .took = ready - before, .place = step.place});
    before = ready;
  }
  return ready;
}

void SimulationRun::note_loads(Course& course) {
  SimulatedNode& here = node(course);
  std::size_t piece = course.in_memory;
  for (const Load& load : course.loads) {
    const TrafficPiece& loaded = course.request.prompt[piece++];
    here.choices.loaded(load.bytes, load.took, course.choice, load.place);
    here.choices.learn(EntryClass::kPrefixKv, load.bytes, prefilling(0, loaded.tokens));
    if (load.place == kRemote) write_to_disk(here, loaded.key, load.bytes);
  }
}

void SimulationRun::prefix_loaded(Index at) {
  Course& course = courses_[at];
  note_loads(course);
  const std::size_t there = course.in_memory + course.loads.size();
  for (std::size_t i = 0; i < there; ++i) course.covered += course.request.prompt[i].tokens;
  for (Index i = 0; i < courses_[at].images.size(); ++i) look_for_image(at, i);
  go_on(at);
}

void SimulationRun::go_on(Index at) {
  Course& course = courses_[at];
  if (course.own > 0 || course.encodes || course.prefills) return;
  Duration takes{0};
  for (std::size_t i = 0; i < course.images.size(); ++i) {
    if (course.images[i].stage != Stage::kToEncode) continue;
    course.images[i].stage = Stage::kEncoding;
    takes += encoding(course.request.images[i]);
    course.encodes = true;
  }
  if (course.encodes) {
    course.computing += takes;
    return schedule(node(course).work(now(), takes), Happening::kEncoded, at);
  }
  if (course.others > 0) return;
  prefill(at);
}

void SimulationRun::prefill(Index at) {
  Course& course = courses_[at];
  SimulatedNode& here = node(course);
  course.prefills = true;
  here.encoder.begin_request(facts(course));
  for (std::size_t i = 0; i < course.images.size(); ++i) {
    const bool found = course.images[i].needed && (course.images[i].from == From::kMemory ||
                                                   course.images[i].from == From::kAwaited);
    const std::uint64_t key = course.request.images[i].key;
    if (found && here.encoder.holds(key)) here.encoder.touch(key);
  }
  // Of a prompt that is all there, the last token is computed once more.
  const std::uint32_t first = std::min(course.covered, course.request.input_tokens - 1);
  const Duration takes = prefilling(first, course.request.input_tokens - first);
  course.computing += takes;
  schedule(here.work(now(), takes), Happening::kPrefilled, at);
}

void SimulationRun::prefilled(Index at) {
  keep_prompt(courses_[at]);
  count(courses_[at]);
  // Only now, because those who waited for it go on at once.
  for (const std::uint64_t key : std::exchange(courses_[at].makes, {})) {
    for (const auto& [other, whole] : land(node(courses_[at]), key)) {
      AFI_CHECK(whole == kWholeCourse);
      if (!wait_for_prefix(other)) load_prefix(other);
    }
  }
  close_course(at);
}

void SimulationRun::keep_prompt(Course& course) {
  if (!keeps_kv()) return;
  SimulatedNode& here = node(course);
  const auto& pieces = course.request.prompt;
  std::vector<ShelfEntry> chain;
  for (const TrafficPiece& piece : pieces) {
    chain.push_back({.key = piece.key,
                     .bytes = kv_bytes(piece.tokens),
                     .cost = of_seconds(piece.tokens / options_.node.prefill_rate)});
  }
  here.kv.begin_request(facts(course));
  here.kv.keep_chain(chain);
  const std::size_t there = course.in_memory + course.loads.size();
  std::vector<ShelfEntry> made(chain.begin() + static_cast<std::ptrdiff_t>(there), chain.end());
  std::uint32_t tokens = 0;
  for (std::size_t i = there; i < pieces.size(); ++i) tokens += pieces[i].tokens;
  const Duration took = prefilling(course.covered, tokens);
  here.choices.learn(EntryClass::kPrefixKv, kv_bytes(tokens), took);
  for (const ShelfEntry& entry : made) write_to_disk(here, entry.key, entry.bytes);
  send(course.node, std::move(made), facts(course));
}

}  // namespace afterimage
