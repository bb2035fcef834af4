// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <utility>

#include "afterimage/check.h"
#include "afterimage/plan.h"
#include "runtime/reuse/media_plan_state.h"

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
  }
  return "unknown";
}

MediaPlan::MediaPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}

MediaPlan::MediaPlan(MediaPlan&& other) noexcept = default;
MediaPlan& MediaPlan::operator=(MediaPlan&& other) noexcept = default;
MediaPlan::~MediaPlan() = default;

std::vector<std::size_t> MediaPlan::to_encode() const {
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < state_->items.size(); ++i) {
    if (State::is_leader(state_->items[i]) && !state_->items[i].elsewhere) items.push_back(i);
  }
  return items;
}

bool MediaPlan::State::is_leader(const Item& item) {
  return item.claim.has_value() && std::holds_alternative<FlightLeader>(*item.claim);
}

Result<void> MediaPlan::commit(std::size_t item, EncoderOutput output, Duration cost) {
  State::Item& entry = state_->items.at(item);
  AFI_CHECK(entry.claim.has_value() && std::holds_alternative<FlightLeader>(*entry.claim));
  FlightLeader leader = std::get<FlightLeader>(*std::move(entry.claim));
  entry.claim.reset();
  const EncoderEntryFacts facts{
      .modality = entry.modality, .cost = cost, .labels = entry.labels, .content = entry.content};
  AFI_TRY(Embeddings embeddings, std::move(leader).publish(std::move(output), facts));
  entry.source = embeddings.resident() ? MediaSource::kEncoded : MediaSource::kUncached;
  if (entry.declined && embeddings.resident()) entry.source = MediaSource::kDeclined;
  if (state_->archive != nullptr) {
    state_->archive->keep(entry.key, embeddings.tensors(), cost, std::move(entry.labels));
  }
  entry.lease.reset();  // only after the output is on its way to the tier
  entry.claim = std::move(embeddings);
  return {};
}

void MediaPlan::State::load(Item& item) {
  if (archive == nullptr || !is_leader(item)) return;
  LoadChoice choice{.steps = 1};
  publish_loaded(item, archive->load(item.key, &choice));
  item.declined = choice.steps == 0;
  // An item that is encoded sooner than loaded is not waited for, either.
  if (leases == nullptr || !is_leader(item) || item.declined) return;
  item.lease_loop = LeaseLoop();
  const auto next =
      item.lease_loop.step([&] { return leases->claim(EncoderArchive::place(item.key)); },
                           [&] { return load_again(item); });
  AFI_CHECK(next.has_value());  // a failed load is a miss
  item.elsewhere = *next == LeaseLoop::Next::kWait;
  item.lease = item.lease_loop.take_lease();
}

Result<LeaseLoop::Found> MediaPlan::State::load_again(Item& item) {
  publish_loaded(item, archive->load_again(item.key));
  return is_leader(item) ? LeaseLoop::Found::kNothing : LeaseLoop::Found::kAll;
}

void MediaPlan::State::publish_loaded(Item& item, std::optional<EncoderArchive::Loaded> loaded) {
  if (!loaded.has_value()) return;
  FlightLeader leader = std::get<FlightLeader>(*std::move(item.claim));
  auto embeddings =
      std::move(leader).publish(std::move(loaded->output), {.modality = item.modality,
                                                            .cost = loaded->cost,
                                                            .labels = std::move(loaded->labels),
                                                            .content = item.content});
  AFI_CHECK(embeddings.has_value());  // its tensors were views of such a size before
  item.source = MediaSource::kLoaded;
  item.claim = *std::move(embeddings);
}

Result<void> MediaPlan::State::await_lease_holder(Item& item, const std::stop_token& stop) {
  AFI_TRY_VOID(item.lease_loop.run(
      *leases, [&] { return leases->claim(EncoderArchive::place(item.key)); },
      [&] { return load_again(item); }, stop));
  item.elsewhere = false;
  item.lease = item.lease_loop.take_lease();
  return {};
}

void MediaPlan::fail(std::size_t item, const Error& error) {
  State::Item& entry = state_->items.at(item);
  AFI_CHECK(entry.claim.has_value() && std::holds_alternative<FlightLeader>(*entry.claim));
  std::get<FlightLeader>(*std::move(entry.claim)).fail(error);
  entry.claim.reset();
  entry.lease.reset();
}

Result<bool> MediaPlan::await(const std::stop_token& stop) {
  // Two requests that wait before they publish could wait for each other.
  AFI_CHECK(to_encode().empty());
  // Items that other processes encode come first: requests of this process wait for this one to
  // load them, so it must not wait for those requests in the meantime.
  for (State::Item& item : state_->items) {
    if (item.elsewhere) AFI_TRY_VOID(state_->await_lease_holder(item, stop));
  }
  if (!to_encode().empty()) return false;
  for (State::Item& item : state_->items) {
    if (!item.claim.has_value() || !std::holds_alternative<FlightWaiter>(*item.claim)) continue;
    FlightWaiter waiter = std::get<FlightWaiter>(*std::move(item.claim));
    item.claim.reset();
    AFI_TRY(auto outcome, std::move(waiter).wait(stop));
    if (FlightLeader* leader = std::get_if<FlightLeader>(&outcome)) {
      item.claim = std::move(*leader);
      state_->load(item);
      if (!State::is_leader(item)) continue;
      if (!item.elsewhere) return false;
      return await(stop);  // that other process first, as above
    }
    item.source = MediaSource::kAwaited;
    item.claim = std::get<Embeddings>(std::move(outcome));
  }
  state_->note_request();
  return true;
}

void MediaPlan::State::note_request() {
  if (front == nullptr) return;
  std::vector<const Embeddings*> used;
  for (const Item& item : items) {
    if (!item.claim.has_value()) continue;
    used.push_back(&std::get<Embeddings>(*item.claim));
  }
  std::exchange(front, nullptr)->note_request(facts, used);
}

std::vector<TensorViews> MediaPlan::embeddings() const {
  std::vector<TensorViews> all;
  all.reserve(state_->items.size());
  for (const State::Item& item : state_->items) {
    if (item.source == MediaSource::kCovered) {
      all.emplace_back();
      continue;
    }
    const auto& claim = state_->items[item.same_as].claim;
    AFI_CHECK(claim.has_value() && std::holds_alternative<Embeddings>(*claim));
    const auto tensors = std::get<Embeddings>(*claim).tensors();
    all.emplace_back(tensors.begin(), tensors.end());
  }
  return all;
}

std::vector<MediaSource> MediaPlan::sources() const {
  std::vector<MediaSource> all;
  all.reserve(state_->items.size());
  for (std::size_t i = 0; i < state_->items.size(); ++i) {
    all.push_back(state_->items[i].same_as == i ? state_->items[i].source : MediaSource::kRepeated);
  }
  return all;
}

}  // namespace afterimage
