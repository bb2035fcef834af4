// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cmath>

#include "afterimage/result.h"
#include "lab/simulation/simulation_run.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMinTokensToWaitFor = 32;  // the default of PrefillOnceOptions

Duration from_seconds(double seconds) {
  return Duration(static_cast<Duration::rep>(std::llround(seconds * 1e9)));
}

}  // namespace

Duration SimulationRun::prefilling(std::uint32_t first, std::uint32_t tokens) const {
  // The mean position suffices, because the cost is linear in the position.
  const double at = first + tokens / 2.0;
  return from_seconds(tokens * (1 + at / options_.node.attention_tokens) /
                      options_.node.prefill_rate);
}

RequestFacts SimulationRun::facts(const RequestState& state) const {
  RequestFacts facts = state.request.facts;
  facts.now = now();
  return facts;
}

void SimulationRun::arrive(Index at) {
  RequestState& state = requests_[at];
  const SimulatedRequest& request = state.request;
  std::uint64_t by = state.number;
  if (options_.routing == Routing::kAffinity) by = mixed_key(1, request.session);
  if (options_.routing == Routing::kImage) {
    by = request.images.empty() ? mixed_key(1, request.session)
                                : mixed_key(2, request.images[0].key);
  }
  state.node = static_cast<Index>(by % nodes_.size());
  state.images.resize(request.images.size());
  if (!wait_for_prefix(at)) load_prefix(at);
}

/// Waits for another request's prefill if that pays, by the same rule as PrefillOnce.
bool SimulationRun::wait_for_prefix(Index at) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  const auto& pieces = state.request.prompt;
  state.in_memory = 0;
  if (!keeps_kv()) return false;
  std::uint32_t matched = 0;
  while (state.in_memory < pieces.size() && sim_node.kv.holds(pieces[state.in_memory].key)) {
    matched += pieces[state.in_memory++].tokens;
  }
  if (state.waited || state.in_memory == pieces.size()) return false;
  const auto flight = sim_node.flights.find(pieces[state.in_memory].key);
  if (flight == sim_node.flights.end()) return false;
  std::uint32_t promised = 0;
  for (std::size_t i = state.in_memory; i < pieces.size(); ++i) {
    if (!sim_node.flights.contains(pieces[i].key)) break;
    promised += pieces[i].tokens;
  }
  if (promised < kMinTokensToWaitFor || 2 * promised < state.request.input_tokens - matched) {
    return false;
  }
  state.waited = true;
  flights_[flight->second].waiting.emplace_back(at, kWholeRequest);
  return true;
}

void SimulationRun::load_prefix(Index at) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  const auto& pieces = state.request.prompt;
  if (!keeps_kv() || state.in_memory == pieces.size()) return prefix_loaded(at);
  for (std::size_t i = state.in_memory; i < pieces.size(); ++i) {
    if (sim_node.flights.contains(pieces[i].key)) continue;
    start_flight(sim_node, pieces[i].key);
    state.flight_keys.push_back(pieces[i].key);
  }
  const std::vector<LoadStep> steps = steps_of(state);
  state.choice.steps = steps.size();
  if (weighs_loads() && !steps.empty()) state.choice = sim_node.choices.choose(steps);
  state.declined = steps.size() - state.choice.steps;
  // One remote look-up covers all pieces that the disk does not have.
  const std::size_t first_remote = state.in_memory + static_cast<std::size_t>(std::ranges::count(
                                                         steps, kDisk, &LoadStep::place));
  const bool asks_remote = reaches_remote() && first_remote < pieces.size() &&
                           remote_.shard_of(pieces[first_remote].key) != nullptr;
  const Duration ready = asks_remote ? now() + options_.remote.round_trip : now();
  const Duration done = load_steps(state, std::span(steps).first(state.choice.steps), ready);
  if (done == now()) return prefix_loaded(at);
  schedule(done, EventKind::kPrefixLoaded, at);
}

/// The pieces after those in memory, as far as some tier has them.
std::vector<LoadStep> SimulationRun::steps_of(const RequestState& state) {
  SimulatedNode& sim_node = node(state);
  const auto& pieces = state.request.prompt;
  std::vector<LoadStep> steps;
  for (std::size_t i = state.in_memory; i < pieces.size(); ++i) {
    const std::uint64_t key = pieces[i].key;
    const bool on_disk = sim_node.disk.has_value() && sim_node.disk->holds(key);
    RemoteShards::Shard* const shard =
        on_disk || !reaches_remote() ? nullptr : remote_.shard_of(key);
    if (!on_disk && (shard == nullptr || !shard->shelf.holds(key))) break;
    const Bytes bytes = kv_bytes(pieces[i].tokens);
    steps.push_back({.bytes = bytes,
                     .cost = sim_node.choices.cost_of(EntryClass::kPrefixKv, bytes),
                     .place = on_disk ? kDisk : kRemote});
  }
  return steps;
}

Duration SimulationRun::load_steps(RequestState& state, std::span<const LoadStep> steps,
                                   Duration ready) {
  SimulatedNode& sim_node = node(state);
  Duration before = now();
  for (const LoadStep& step : steps) {
    const std::uint64_t key = state.request.prompt[state.in_memory + state.loads.size()].key;
    if (step.place == kDisk) {
      sim_node.disk->read(key);
      ready = sim_node.disk_out.pass(ready + options_.node.disk_latency, step.bytes);
    } else {
      RemoteShards::Shard& shard = *remote_.shard_of(key);
      shard.shelf.touch(key);
      ready = pass(shard.out, sim_node.net_in, ready, step.bytes);
    }
    state.loads.push_back({.bytes = step.bytes, .took = ready - before, .place = step.place});
    before = ready;
  }
  return ready;
}

void SimulationRun::note_loads(RequestState& state) {
  SimulatedNode& sim_node = node(state);
  std::size_t piece = state.in_memory;
  for (const Load& load : state.loads) {
    const TrafficPiece& loaded = state.request.prompt[piece++];
    sim_node.choices.loaded(load.bytes, load.took, state.choice, load.place);
    sim_node.choices.learn(EntryClass::kPrefixKv, load.bytes, prefilling(0, loaded.tokens));
    if (load.place == kRemote) write_to_disk(sim_node, loaded.key, load.bytes);
  }
}

void SimulationRun::prefix_loaded(Index at) {
  RequestState& state = requests_[at];
  note_loads(state);
  const std::size_t available = state.in_memory + state.loads.size();
  for (std::size_t i = 0; i < available; ++i) state.covered += state.request.prompt[i].tokens;
  for (Index i = 0; i < requests_[at].images.size(); ++i) look_up_image(at, i);
  proceed(at);
}

void SimulationRun::proceed(Index at) {
  RequestState& state = requests_[at];
  if (state.pending_own > 0 || state.encodes || state.prefills) return;
  Duration takes{0};
  for (std::size_t i = 0; i < state.images.size(); ++i) {
    if (state.images[i].stage != Stage::kToEncode) continue;
    state.images[i].stage = Stage::kEncoding;
    takes += encoding(state.request.images[i]);
    state.encodes = true;
  }
  if (state.encodes) {
    state.computing += takes;
    return schedule(node(state).work(now(), takes), EventKind::kEncoded, at);
  }
  if (state.pending_others > 0) return;
  prefill(at);
}

void SimulationRun::prefill(Index at) {
  RequestState& state = requests_[at];
  SimulatedNode& sim_node = node(state);
  state.prefills = true;
  sim_node.encoder.begin_request(facts(state));
  for (std::size_t i = 0; i < state.images.size(); ++i) {
    const bool found = state.images[i].needed && (state.images[i].from == From::kMemory ||
                                                  state.images[i].from == From::kAwaited);
    const std::uint64_t key = state.request.images[i].key;
    if (found && sim_node.encoder.holds(key)) sim_node.encoder.touch(key);
  }
  // If the whole prompt is cached, its last token is still computed.
  const std::uint32_t first = std::min(state.covered, state.request.input_tokens - 1);
  const Duration takes = prefilling(first, state.request.input_tokens - first);
  state.computing += takes;
  schedule(sim_node.work(now(), takes), EventKind::kPrefilled, at);
}

void SimulationRun::prefilled(Index at) {
  store_prompt(requests_[at]);
  count(requests_[at]);
  // Flights end last, because waiting requests proceed immediately.
  for (const std::uint64_t key : std::exchange(requests_[at].flight_keys, {})) {
    for (const auto& [other, whole] : end_flight(node(requests_[at]), key)) {
      AFI_CHECK(whole == kWholeRequest);
      if (!wait_for_prefix(other)) load_prefix(other);
    }
  }
  close_request(at);
}

void SimulationRun::store_prompt(RequestState& state) {
  if (!keeps_kv()) return;
  SimulatedNode& sim_node = node(state);
  const auto& pieces = state.request.prompt;
  std::vector<ShelfEntry> chain;
  for (const TrafficPiece& piece : pieces) {
    chain.push_back({.key = piece.key,
                     .bytes = kv_bytes(piece.tokens),
                     .cost = from_seconds(piece.tokens / options_.node.prefill_rate)});
  }
  sim_node.kv.begin_request(facts(state));
  sim_node.kv.insert_chain(chain);
  const std::size_t available = state.in_memory + state.loads.size();
  std::vector<ShelfEntry> new_entries(chain.begin() + static_cast<std::ptrdiff_t>(available),
                                      chain.end());
  std::uint32_t tokens = 0;
  for (std::size_t i = available; i < pieces.size(); ++i) tokens += pieces[i].tokens;
  const Duration took = prefilling(state.covered, tokens);
  sim_node.choices.learn(EntryClass::kPrefixKv, kv_bytes(tokens), took);
  for (const ShelfEntry& entry : new_entries) write_to_disk(sim_node, entry.key, entry.bytes);
  send(state.node, std::move(new_entries), facts(state));
}

}  // namespace afterimage
