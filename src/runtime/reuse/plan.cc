// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/plan.h"

#include <utility>

#include "afterimage/check.h"

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

std::vector<std::size_t> Plan::to_encode() const {
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (holds_turn(items_[i]) && !items_[i].elsewhere) items.push_back(i);
  }
  return items;
}

bool Plan::holds_turn(const Item& item) {
  return item.claim.has_value() && std::holds_alternative<FlightLeader>(*item.claim);
}

Result<void> Plan::commit(std::size_t item, EncoderOutput output, Duration cost) {
  Item& mine = items_.at(item);
  AFI_CHECK(mine.claim.has_value() && std::holds_alternative<FlightLeader>(*mine.claim));
  FlightLeader turn = std::get<FlightLeader>(*std::move(mine.claim));
  mine.claim.reset();
  const EncoderEntryFacts facts{.modality = mine.modality, .cost = cost};
  AFI_TRY(Embeddings embeddings, std::move(turn).publish(std::move(output), facts));
  mine.source = embeddings.resident() ? MediaSource::kEncoded : MediaSource::kUncached;
  if (mine.declined && embeddings.resident()) mine.source = MediaSource::kDeclined;
  if (archive_ != nullptr) archive_->keep(mine.key, embeddings.tensors(), cost);
  mine.shared.reset();  // after what others will look for is on its way
  mine.claim = std::move(embeddings);
  return {};
}

void Plan::load(Item& item) {
  if (archive_ == nullptr || !holds_turn(item)) return;
  LoadChoice choice{.steps = 1};
  publish_loaded(item, archive_->load(item.key, &choice));
  item.declined = choice.steps == 0;
  // What is quicker made than loaded is not waited for, either.
  if (others_ != nullptr && holds_turn(item) && !item.declined) ask_others(item);
}

void Plan::publish_loaded(Item& item, std::optional<EncoderArchive::Loaded> loaded) {
  if (!loaded.has_value()) return;
  FlightLeader turn = std::get<FlightLeader>(*std::move(item.claim));
  const EncoderEntryFacts facts{.modality = item.modality, .cost = loaded->cost};
  auto embeddings = std::move(turn).publish(std::move(loaded->output), facts);
  AFI_CHECK(embeddings.has_value());  // its tensors were views of such a size before
  item.source = MediaSource::kLoaded;
  item.claim = *std::move(embeddings);
}

void Plan::ask_others(Item& item) {
  LeaseService::Claim claim = others_->claim(EncoderArchive::place(item.key));
  item.elsewhere = claim.status == LeaseStatus::kTheirs;
  if (claim.status != LeaseStatus::kOurs) return;
  // Whoever had the turn before us may have put it since we looked.
  publish_loaded(item, archive_->load_again(item.key));
  if (holds_turn(item)) item.shared = std::move(claim.lease);
}

Result<void> Plan::await_elsewhere(Item& item, const std::stop_token& stop) {
  for (std::uint32_t attempt = 0; item.elsewhere; ++attempt) {
    if (!others_->wait(attempt, stop)) {
      if (stop.stop_requested()) {
        return afterimage::fail(ErrorCode::kCancelled, "nobody waits for it any more");
      }
      item.elsewhere = false;  // long enough: we do it ourselves
      break;
    }
    publish_loaded(item, archive_->load_again(item.key));
    if (!holds_turn(item)) item.elsewhere = false;
    if (item.elsewhere) ask_others(item);
  }
  return {};
}

void Plan::fail(std::size_t item, const Error& error) {
  Item& mine = items_.at(item);
  AFI_CHECK(mine.claim.has_value() && std::holds_alternative<FlightLeader>(*mine.claim));
  std::get<FlightLeader>(*std::move(mine.claim)).fail(error);
  mine.claim.reset();
  mine.shared.reset();
}

Result<bool> Plan::await(std::stop_token stop) {
  // Waiting while others wait for us is how two requests come to wait for each other.
  AFI_CHECK(to_encode().empty());
  // First those that others here wait for us to bring: then nobody waits for one who waits for him.
  for (Item& item : items_) {
    if (item.elsewhere) AFI_TRY_VOID(await_elsewhere(item, stop));
  }
  if (!to_encode().empty()) return false;
  for (Item& item : items_) {
    if (!item.claim.has_value() || !std::holds_alternative<FlightWaiter>(*item.claim)) continue;
    FlightWaiter ticket = std::get<FlightWaiter>(*std::move(item.claim));
    item.claim.reset();
    AFI_TRY(auto outcome, std::move(ticket).wait(stop));
    if (FlightLeader* turn = std::get_if<FlightLeader>(&outcome)) {
      item.claim = std::move(*turn);
      load(item);
      if (!holds_turn(item)) continue;
      if (!item.elsewhere) return false;
      // What another process is at is waited for before anybody here is.
      return await(stop);
    }
    item.source = MediaSource::kAwaited;
    item.claim = std::get<Embeddings>(std::move(outcome));
  }
  note_request();
  return true;
}

void Plan::note_request() {
  if (front_ == nullptr) return;
  std::vector<const Embeddings*> used;
  for (const Item& item : items_) {
    if (!item.claim.has_value()) continue;
    used.push_back(&std::get<Embeddings>(*item.claim));
  }
  std::exchange(front_, nullptr)->note_request(facts_, used);
}

std::vector<TensorViews> Plan::embeddings() const {
  std::vector<TensorViews> all;
  all.reserve(items_.size());
  for (const Item& item : items_) {
    if (item.source == MediaSource::kCovered) {
      all.emplace_back();
      continue;
    }
    const auto& claim = items_[item.same_as].claim;
    AFI_CHECK(claim.has_value() && std::holds_alternative<Embeddings>(*claim));
    const auto tensors = std::get<Embeddings>(*claim).tensors();
    all.emplace_back(tensors.begin(), tensors.end());
  }
  return all;
}

std::vector<MediaSource> Plan::sources() const {
  std::vector<MediaSource> all;
  all.reserve(items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    all.push_back(items_[i].same_as == i ? items_[i].source : MediaSource::kRepeated);
  }
  return all;
}

}  // namespace afterimage
