// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/encoder_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {

EncoderLedger::EncoderLedger(EmbeddingCount capacity)
    : capacity_(capacity), free_(capacity), freeable_embeddings_(capacity) {}

bool EncoderLedger::take(const RequestId& request, InputIndex input, const ItemId& item) {
  const auto found = entries_.find(item);
  if (found == entries_.end()) return false;
  hold(request, input, found->second);
  return true;
}

bool EncoderLedger::fits(const EncoderDemand& demand) const {
  // Do not add size and scheduled: both come from outside, and the sum may overflow.
  return demand.size <= demand.compute_left && demand.scheduled <= freeable_embeddings_ &&
         demand.size <= freeable_embeddings_ - demand.scheduled;
}

bool EncoderLedger::make_room(const EncoderDemand& demand) {
  if (!fits(demand)) return false;
  while (free_ < demand.size + demand.scheduled) evict_oldest();
  return true;
}

Result<void> EncoderLedger::allocate(const RequestId& request, InputIndex input, const ItemId& item,
                                     EmbeddingCount size) {
  if (const auto found = entries_.find(item); found != entries_.end()) {
    if (found->second.size != size) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("item '{}' of request '{}' has {} embeddings, but the resident item has {}",
                      item.text(), request.text(), size.value(), found->second.size.value()));
    }
    hold(request, input, found->second);
    return {};
  }
  if (size > free_) {
    return fail(ErrorCode::kNoSpace,
                fmt::format("item '{}' of request '{}' needs {} embeddings; {} of {} are free and "
                            "{} more could be evicted first",
                            item.text(), request.text(), size.value(), free_.value(),
                            capacity_.value(), (freeable_embeddings_ - free_).value()));
  }
  auto& [key, entry] = *entries_.try_emplace(item, size).first;
  entry.item = &key;
  // Charged but not referenced yet: the entry counts as freeable until hold() references it.
  free_ -= size;
  freeable_.push_back(entry);
  hold(request, input, entry);
  return {};
}

void EncoderLedger::hold(const RequestId& request, InputIndex input, Entry& entry) {
  Holding& holding = requests_[request];
  const auto [record, added] = holding.try_emplace(input, &entry);
  if (!added) {
    if (record->second == &entry) return;
    drop_reference(holding, *std::exchange(record->second, &entry));
  }
  if (entry.places.empty()) {
    freeable_.erase(freeable_.iterator_to(entry));
    freeable_embeddings_ -= entry.size;
  }
  ++entry.places[&holding];
}

bool EncoderLedger::release(const RequestId& request, InputIndex input) {
  const auto holder = requests_.find(request);
  if (holder == requests_.end()) return false;
  Holding& holding = holder->second;
  const auto record = holding.find(input);
  if (record == holding.end()) return false;
  drop_reference(holding, *record->second);
  holding.erase(record);
  if (holding.empty()) requests_.erase(holder);
  return true;
}

std::size_t EncoderLedger::release_all(const RequestId& request) {
  const auto holder = requests_.find(request);
  if (holder == requests_.end()) return 0;
  std::vector<std::pair<InputIndex, Entry*>> records(holder->second.begin(), holder->second.end());
  std::ranges::sort(records, {}, &std::pair<InputIndex, Entry*>::first);
  for (const auto& [input, entry] : records) drop_reference(holder->second, *entry);
  requests_.erase(holder);
  return records.size();
}

void EncoderLedger::drop_reference(const Holding& holding, Entry& entry) {
  const auto place = entry.places.find(&holding);
  AFI_CHECK(place != entry.places.end());
  // Another input of the request still needs the item; evicting it now would encode it twice.
  if (--place->second > 0) return;
  entry.places.erase(place);
  if (!entry.places.empty()) return;
  freeable_.push_back(entry);
  freeable_embeddings_ += entry.size;
}

void EncoderLedger::evict_oldest() {
  AFI_CHECK(!freeable_.empty());
  Entry& oldest = freeable_.front();
  AFI_CHECK(oldest.places.empty());
  freeable_.pop_front();
  free_ += oldest.size;
  auto node = entries_.extract(*oldest.item);
  freed_.push_back(std::move(node.key()));
}

std::vector<ItemId> EncoderLedger::drain_freed() {
  // A worker drops items before it encodes. An item that was evicted and allocated again in one
  // step must not be dropped: a request waits for it.
  std::erase_if(freed_, [this](const ItemId& item) { return entries_.contains(item); });
  return std::exchange(freed_, {});
}

void EncoderLedger::reset() {
  freeable_.clear();
  requests_.clear();
  entries_.clear();
  freed_.clear();
  free_ = freeable_embeddings_ = capacity_;
}

std::optional<EmbeddingCount> EncoderLedger::size_of(const ItemId& item) const {
  const auto it = entries_.find(item);
  return it == entries_.end() ? std::nullopt : std::optional(it->second.size);
}

std::vector<InputIndex> EncoderLedger::inputs_of(const RequestId& request) const {
  std::vector<InputIndex> inputs;
  const auto holder = requests_.find(request);
  if (holder == requests_.end()) return inputs;
  inputs.reserve(holder->second.size());
  for (const auto& [input, entry] : holder->second) inputs.push_back(input);
  std::ranges::sort(inputs);
  return inputs;
}

std::map<ItemId, std::set<RequestId>> EncoderLedger::references() const {
  std::map<ItemId, std::set<RequestId>> result;
  for (const auto& [item, entry] : entries_) result.try_emplace(item);
  for (const auto& [request, holding] : requests_) {
    for (const auto& [input, entry] : holding) result[*entry->item].insert(request);
  }
  return result;
}

std::vector<SizedItem> EncoderLedger::freeable() const {
  std::vector<SizedItem> result;
  for (const Entry& entry : freeable_) result.push_back({*entry.item, entry.size});
  return result;
}

void EncoderLedger::check_invariants() const {
  AFI_CHECK(free_ <= freeable_embeddings_ && freeable_embeddings_ <= capacity_);

  EmbeddingCount charged{};
  std::size_t references = 0;
  for (const auto& [item, entry] : entries_) {
    AFI_CHECK(entry.item == &item);
    AFI_CHECK(entry.is_linked() == entry.places.empty());
    charged += entry.size;
    references += entry.places.size();
  }
  AFI_CHECK(charged == capacity_ - free_);

  EmbeddingCount unreferenced{};
  for (const Entry& entry : freeable_) unreferenced += entry.size;
  AFI_CHECK(unreferenced == freeable_embeddings_ - free_);

  // Every input is counted by its entry, and no entry counts an input that does not exist.
  for (const auto& [request, holding] : requests_) {
    AFI_CHECK(!holding.empty());
    std::map<const Entry*, std::uint32_t> places;
    for (const auto& [input, entry] : holding) ++places[entry];
    for (const auto& [entry, count] : places) {
      const auto found = entries_.find(*entry->item);
      AFI_CHECK(found != entries_.end() && &found->second == entry);
      const auto place = entry->places.find(&holding);
      AFI_CHECK(place != entry->places.end() && place->second == count);
    }
    references -= places.size();
  }
  AFI_CHECK(references == 0);
}

}  // namespace afterimage
