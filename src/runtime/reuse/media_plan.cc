// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>
#include <utility>

#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "foundation/platform/fault_points.h"
#include "runtime/reuse/media_plan_state.h"
#include "runtime/reuse/plan.h"

namespace afterimage {

std::string_view to_string(MediaSource source) {
  switch (source) {
    case MediaSource::kCovered:
      return "covered";
    case MediaSource::kReused:
      return "reused";
    case MediaSource::kRepeated:
      return "repeated";
    case MediaSource::kAwaited:
      return "awaited";
    case MediaSource::kEncoded:
      return "encoded";
    case MediaSource::kUncached:
      return "uncached";
    case MediaSource::kLoaded:
      return "loaded";
    case MediaSource::kDeclined:
      return "declined";
    case MediaSource::kPartly:
      return "partly";
  }
  return "unknown";
}

MediaPlan::MediaPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}

MediaPlan::MediaPlan(MediaPlan&& other) noexcept = default;
MediaPlan& MediaPlan::operator=(MediaPlan&& other) noexcept = default;
MediaPlan::~MediaPlan() = default;

std::vector<std::size_t> MediaPlan::to_encode() const {
  std::vector<std::size_t> missing;
  for (std::size_t at = 0; at < state_->outputs.size(); ++at) {
    const State::Output& output = state_->outputs[at];
    if (State::is_leader(output) && !output.elsewhere) missing.push_back(at);
  }
  return missing;
}

PlannedOutput MediaPlan::output(std::size_t at) const { return state_->outputs.at(at).of; }

bool MediaPlan::State::is_leader(const Output& output) {
  return output.claim.has_value() && std::holds_alternative<FlightLeader>(*output.claim);
}

namespace {

/// A part with other rows would shift every row after it.
Result<void> check_rows(const PlannedOutput& of, TokenCount rows, const EncoderOutput& output) {
  if (!of.part.has_value()) return {};
  const bool fits =
      !output.empty() && output[0].shape.rank() > 0 && output[0].shape[0] == rows.value();
  if (AFI_GUARD("part.rows", fits)) return {};
  return fail(ErrorCode::kCorruption,
              "the engine declared " + std::to_string(rows.value()) + " rows for part " +
                  std::to_string(*of.part) + " of a media item and encoded it to " +
                  (output.empty() ? "nothing" : to_string(output[0].shape)));
}

}  // namespace

Result<void> MediaPlan::commit(std::size_t at, EncoderOutput output, Duration cost) {
  State::Output& entry = state_->outputs.at(at);
  AFI_CHECK(State::is_leader(entry));
  if (const auto checked = check_rows(entry.of, entry.rows, output); !checked.has_value()) {
    fail(at, checked.error());
    return checked;
  }
  FlightLeader leader = std::get<FlightLeader>(*std::move(entry.claim));
  entry.claim.reset();
  AFI_TRY(Embeddings embeddings,
          std::move(leader).publish(std::move(output), State::facts_of(entry, cost)));
  entry.source = embeddings.resident() ? MediaSource::kEncoded : MediaSource::kUncached;
  if (entry.declined && embeddings.resident()) entry.source = MediaSource::kDeclined;
  if (state_->archive != nullptr) {
    state_->archive->keep(entry.key, embeddings.tensors(), cost, std::move(entry.labels));
  }
  entry.lease.reset();  // only after the output is on its way to the tier
  entry.claim = std::move(embeddings);
  return {};
}

void MediaPlan::State::load(Output& output) {
  if (archive == nullptr) return;
  if (const auto* const found = std::get_if<Embeddings>(&*output.claim)) {
    if (!archive->returned(output.key)) return;
    const auto entry = front->cache().info(output.key);
    if (!entry.has_value()) return;
    archive->keep_returned(output.key, found->tensors(), entry->facts.cost, entry->facts.labels);
  }
  if (!is_leader(output)) return;
  LoadChoice choice{.steps = 1};
  publish_loaded(output, archive->load(output.key, &choice));
  output.declined = choice.steps == 0;
  // An item that is encoded sooner than loaded is not waited for, either.
  if (leases == nullptr || !is_leader(output) || output.declined) return;
  output.lease_loop = LeaseLoop();
  const auto next =
      output.lease_loop.step([&] { return leases->claim(EncoderArchive::place(output.key)); },
                             [&] { return load_again(output); });
  AFI_CHECK(next.has_value());  // a failed load is a miss
  output.elsewhere = *next == LeaseLoop::Next::kWait;
  output.lease = output.lease_loop.take_lease();
}

Result<LeaseLoop::Found> MediaPlan::State::load_again(Output& output) {
  publish_loaded(output, archive->load_again(output.key));
  return is_leader(output) ? LeaseLoop::Found::kNothing : LeaseLoop::Found::kAll;
}

void MediaPlan::State::publish_loaded(Output& output,
                                      std::optional<EncoderArchive::Loaded> loaded) {
  if (!loaded.has_value()) return;
  if (!check_rows(output.of, output.rows, loaded->output).has_value()) return;  // encode it again
  FlightLeader leader = std::get<FlightLeader>(*std::move(output.claim));
  EncoderEntryFacts facts_below = facts_of(output, loaded->cost);
  facts_below.labels = std::move(loaded->labels);
  auto embeddings = std::move(leader).publish(std::move(loaded->output), facts_below);
  AFI_CHECK(embeddings.has_value());  // its tensors were views of such a size before
  output.source = MediaSource::kLoaded;
  output.claim = *std::move(embeddings);
}

Result<void> MediaPlan::State::await_lease_holder(Output& output, const std::stop_token& stop) {
  AFI_TRY_VOID(output.lease_loop.run(
      *leases, [&] { return leases->claim(EncoderArchive::place(output.key)); },
      [&] { return load_again(output); }, stop));
  output.elsewhere = false;
  output.lease = output.lease_loop.take_lease();
  return {};
}

void MediaPlan::fail(std::size_t at, const Error& error) {
  State::Output& entry = state_->outputs.at(at);
  AFI_CHECK(State::is_leader(entry));
  std::get<FlightLeader>(*std::move(entry.claim)).fail(error);
  entry.claim.reset();
  entry.lease.reset();
}

Result<bool> MediaPlan::await(const std::stop_token& stop) {
  // Two requests that wait before they publish could wait for each other.
  AFI_CHECK(to_encode().empty());
  // Items that other processes encode come first: requests of this process wait for this one to
  // load them, so it must not wait for those requests in the meantime.
  for (State::Output& output : state_->outputs) {
    if (output.elsewhere) AFI_TRY_VOID(state_->await_lease_holder(output, stop));
  }
  if (!to_encode().empty()) return false;
  for (State::Output& output : state_->outputs) {
    if (!output.claim.has_value() || !std::holds_alternative<FlightWaiter>(*output.claim)) continue;
    FlightWaiter waiter = std::get<FlightWaiter>(*std::move(output.claim));
    output.claim.reset();
    AFI_TRY(auto outcome, std::move(waiter).wait(stop));
    if (FlightLeader* leader = std::get_if<FlightLeader>(&outcome)) {
      output.claim = std::move(*leader);
      state_->load(output);
      if (!State::is_leader(output)) continue;
      if (!output.elsewhere) return false;
      return await(stop);  // that other process first, as above
    }
    output.source = MediaSource::kAwaited;
    output.claim = std::get<Embeddings>(std::move(outcome));
  }
  for (State::Item& item : state_->items) AFI_TRY_VOID(state_->join(item));
  state_->note_request();
  return true;
}

std::span<const TensorView> MediaPlan::State::tensors_of(const Output& output) const {
  const auto& claim = outputs[output.same_as].claim;
  AFI_CHECK(claim.has_value() && std::holds_alternative<Embeddings>(*claim));
  return std::get<Embeddings>(*claim).tensors();
}

Result<void> MediaPlan::State::join(Item& item) const {
  if (!item.is_split || !item.joined.empty()) return {};
  std::vector<TensorViews> parts;
  for (std::size_t i = 0; i < item.count; ++i) {
    const auto tensors = tensors_of(outputs[item.first + i]);
    parts.emplace_back(tensors.begin(), tensors.end());
  }
  AFI_TRY(item.joined, join_parts(parts));
  AFI_TRY(item.views, views_of(item.joined));
  return {};
}

void MediaPlan::State::note_request() {
  if (front == nullptr) return;
  std::vector<const Embeddings*> used;
  std::vector<EncoderKey> covered;
  for (const Output& output : outputs) {
    if (output.source == MediaSource::kCovered) covered.push_back(output.key);
    if (!output.claim.has_value()) continue;
    used.push_back(&std::get<Embeddings>(*output.claim));
  }
  front->note_covered(covered, agent);
  for (const Item& item : items) {
    if (!item.is_split) continue;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    for (std::size_t i = item.first; i < item.first + item.count; ++i) {
      const Output& output = outputs[i];
      if (output.same_as != i) continue;
      misses += output.missed ? 1 : 0;
      hits += !output.missed || output.source == MediaSource::kAwaited ? 1 : 0;
    }
    front->cache().note_parts(hits, misses);
  }
  std::exchange(front, nullptr)->note_request(facts, used);
}

std::vector<TensorViews> MediaPlan::embeddings() const {
  std::vector<TensorViews> all;
  all.reserve(state_->items.size());
  for (const State::Item& item : state_->items) {
    const State::Output& first = state_->outputs[item.first];
    if (first.source == MediaSource::kCovered) {
      all.emplace_back();
    } else if (item.is_split) {
      AFI_CHECK(!item.views.empty());
      all.push_back(item.views);
    } else {
      const auto tensors = state_->tensors_of(first);
      all.emplace_back(tensors.begin(), tensors.end());
    }
  }
  return all;
}

MediaSource MediaPlan::State::source_of(const Item& item) const {
  std::vector<MediaSource> sources;
  for (std::size_t i = item.first; i < item.first + item.count; ++i) {
    sources.push_back(outputs[i].same_as == i ? outputs[i].source : MediaSource::kRepeated);
  }
  const auto has = [&sources](MediaSource wanted) {
    return std::ranges::find(sources, wanted) != sources.end();
  };
  if (std::ranges::count(sources, sources.front()) == std::ssize(sources)) return sources.front();
  // A part that occurs twice in the item is where its first occurrence is.
  const bool encoded =
      has(MediaSource::kEncoded) || has(MediaSource::kUncached) || has(MediaSource::kDeclined);
  const bool found =
      has(MediaSource::kReused) || has(MediaSource::kAwaited) || has(MediaSource::kLoaded);
  if (encoded && found) return MediaSource::kPartly;
  for (const MediaSource source :
       {MediaSource::kUncached, MediaSource::kDeclined, MediaSource::kEncoded,
        MediaSource::kAwaited, MediaSource::kLoaded}) {
    if (has(source)) return source;
  }
  return MediaSource::kReused;
}

std::vector<MediaSource> MediaPlan::sources() const {
  std::vector<MediaSource> all;
  all.reserve(state_->items.size());
  for (const State::Item& item : state_->items) all.push_back(state_->source_of(item));
  return all;
}

std::optional<std::size_t> MediaPlan::split_item() const {
  const auto found = std::ranges::find_if(state_->items, &State::Item::is_split);
  if (found == state_->items.end()) return std::nullopt;
  return static_cast<std::size_t>(found - state_->items.begin());
}

std::uint64_t MediaPlan::parts() const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < state_->outputs.size(); ++i) {
    const State::Output& output = state_->outputs[i];
    count += output.of.part.has_value() && output.same_as == i ? 1 : 0;
  }
  return count;
}

std::uint64_t MediaPlan::encoded_parts() const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < state_->outputs.size(); ++i) {
    const State::Output& output = state_->outputs[i];
    if (!output.of.part.has_value() || output.same_as != i) continue;
    count += output.source == MediaSource::kEncoded || output.source == MediaSource::kUncached ||
                     output.source == MediaSource::kDeclined
                 ? 1
                 : 0;
  }
  return count;
}

}  // namespace afterimage
