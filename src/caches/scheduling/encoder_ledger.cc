// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encoder_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {

struct EncoderLedger::State {
  explicit State(EmbeddingCount size) : capacity(size), free(size), freeable_embeddings(size) {}

  struct Entry : boost::intrusive::list_base_hook<> {
    explicit Entry(EmbeddingCount entry_size) : size(entry_size) {}
    EmbeddingCount size;
    const ItemId* item = nullptr;  // the entry's own key in entries
    std::uint32_t requests = 0;    // that reference it. None: linked in freeable
  };
  struct HeldInput {
    InputIndex input;
    Entry* entry;
  };
  /// One request's inputs, ascending. Few: a list is faster than a table, and allocates nothing.
  using Holding = boost::container::small_vector<HeldInput, 4>;

  // Deliberately not noexcept: libstdc++ then caches each name's hash in its node, and does not
  // rehash the other nodes of a bucket at every look-up.
  struct KeptHash {
    template <typename Tag>
    std::size_t operator()(const Name<Tag>& name) const {
      return std::hash<Name<Tag>>{}(name);
    }
  };

  void hold(const RequestId& request, InputIndex input, Entry& entry);
  /// The request holds the entry for one input less; `holding` says for which it still does.
  void drop_reference(std::span<const HeldInput> holding, Entry& entry);
  static Holding::iterator place_of(Holding& holding, InputIndex input) {
    return std::ranges::lower_bound(holding, input, {}, &HeldInput::input);
  }
  static bool references(std::span<const HeldInput> holding, const Entry& entry) {
    return std::ranges::find(holding, &entry, &HeldInput::entry) != holding.end();
  }
  void evict_oldest();

  EmbeddingCount capacity;
  EmbeddingCount free;
  EmbeddingCount freeable_embeddings;
  // Both maps have stable nodes: entries and holdings point at each other.
  std::unordered_map<ItemId, Entry, KeptHash> entries;
  std::unordered_map<RequestId, Holding, KeptHash> requests;
  boost::intrusive::list<Entry> freeable;  // oldest first; declared after the entries it links
  std::vector<ItemId> freed;
};

EncoderLedger::EncoderLedger(EmbeddingCount capacity) : state_(std::make_unique<State>(capacity)) {}

EncoderLedger::~EncoderLedger() = default;

EmbeddingCount EncoderLedger::capacity() const { return state_->capacity; }
EmbeddingCount EncoderLedger::free_embeddings() const { return state_->free; }
EmbeddingCount EncoderLedger::freeable_embeddings() const { return state_->freeable_embeddings; }
const std::vector<ItemId>& EncoderLedger::freed() const { return state_->freed; }

bool EncoderLedger::take(const RequestId& request, InputIndex input, const ItemId& item) {
  const auto found = state_->entries.find(item);
  if (found == state_->entries.end()) return false;
  state_->hold(request, input, found->second);
  return true;
}

bool EncoderLedger::fits(const EncoderDemand& demand) const {
  // Do not add size and scheduled: both come from outside, and the sum may overflow.
  return demand.size <= demand.compute_left && demand.scheduled <= state_->freeable_embeddings &&
         demand.size <= state_->freeable_embeddings - demand.scheduled;
}

bool EncoderLedger::make_room(const EncoderDemand& demand) {
  if (!fits(demand)) return false;
  while (state_->free < demand.size + demand.scheduled) state_->evict_oldest();
  return true;
}

Result<void> EncoderLedger::allocate(const RequestId& request, InputIndex input, const ItemId& item,
                                     EmbeddingCount size) {
  if (const auto found = state_->entries.find(item); found != state_->entries.end()) {
    if (found->second.size != size) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("item '{}' of request '{}' has {} embeddings, but the resident item has {}",
                      item.text(), request.text(), size.value(), found->second.size.value()));
    }
    state_->hold(request, input, found->second);
    return {};
  }
  if (size > state_->free) {
    return fail(ErrorCode::kNoSpace,
                fmt::format("item '{}' of request '{}' needs {} embeddings; {} of {} are free and "
                            "{} more could be evicted first",
                            item.text(), request.text(), size.value(), state_->free.value(),
                            state_->capacity.value(),
                            (state_->freeable_embeddings - state_->free).value()));
  }
  auto& [key, entry] = *state_->entries.try_emplace(item, size).first;
  entry.item = &key;
  // Charged but not referenced yet: the entry counts as freeable until hold() references it.
  state_->free -= size;
  state_->freeable.push_back(entry);
  state_->hold(request, input, entry);
  return {};
}

void EncoderLedger::State::hold(const RequestId& request, InputIndex input, Entry& entry) {
  Holding& holding = requests[request];
  auto place = place_of(holding, input);
  const bool again = place != holding.end() && place->input == input;
  if (again && place->entry == &entry) return;
  if (!references(holding, entry) && entry.requests++ == 0) {
    freeable.erase(freeable.iterator_to(entry));
    freeable_embeddings -= entry.size;
  }
  if (again) {
    drop_reference(holding, *std::exchange(place->entry, &entry));
  } else {
    holding.insert(place, {.input = input, .entry = &entry});
  }
}

bool EncoderLedger::release(const RequestId& request, InputIndex input) {
  const auto holder = state_->requests.find(request);
  if (holder == state_->requests.end()) return false;
  State::Holding& holding = holder->second;
  const auto place = State::place_of(holding, input);
  if (place == holding.end() || place->input != input) return false;
  State::Entry& entry = *place->entry;
  holding.erase(place);
  state_->drop_reference(holding, entry);
  if (holding.empty()) state_->requests.erase(holder);
  return true;
}

std::size_t EncoderLedger::release_all(const RequestId& request) {
  const auto holder = state_->requests.find(request);
  if (holder == state_->requests.end()) return 0;
  const State::Holding holding = std::move(holder->second);
  state_->requests.erase(holder);
  std::span<const State::HeldInput> rest = holding;
  for (const State::HeldInput& held : holding) {
    rest = rest.subspan(1);
    state_->drop_reference(rest, *held.entry);
  }
  return holding.size();
}

void EncoderLedger::State::drop_reference(std::span<const HeldInput> holding, Entry& entry) {
  // Another input of the request still needs the item; evicting it now would encode it twice.
  if (references(holding, entry)) return;
  AFI_CHECK(entry.requests > 0);
  if (--entry.requests > 0) return;
  freeable.push_back(entry);
  freeable_embeddings += entry.size;
}

void EncoderLedger::State::evict_oldest() {
  AFI_CHECK(!freeable.empty());
  Entry& oldest = freeable.front();
  AFI_CHECK(oldest.requests == 0);
  freeable.pop_front();
  free += oldest.size;
  auto node = entries.extract(*oldest.item);
  freed.push_back(std::move(node.key()));
}

std::vector<ItemId> EncoderLedger::drain_freed() {
  // A worker drops items before it encodes. An item that was evicted and allocated again in one
  // step must not be dropped: a request waits for it.
  std::erase_if(state_->freed,
                [this](const ItemId& item) { return state_->entries.contains(item); });
  return std::exchange(state_->freed, {});
}

void EncoderLedger::reset() {
  state_->freeable.clear();
  state_->requests.clear();
  state_->entries.clear();
  state_->freed.clear();
  state_->free = state_->freeable_embeddings = state_->capacity;
}

std::optional<EmbeddingCount> EncoderLedger::size_of(const ItemId& item) const {
  const auto it = state_->entries.find(item);
  return it == state_->entries.end() ? std::nullopt : std::optional(it->second.size);
}

std::vector<InputIndex> EncoderLedger::inputs_of(const RequestId& request) const {
  std::vector<InputIndex> inputs;
  const auto holder = state_->requests.find(request);
  if (holder == state_->requests.end()) return inputs;
  inputs.reserve(holder->second.size());
  for (const auto& [input, entry] : holder->second) inputs.push_back(input);
  return inputs;
}

std::map<ItemId, std::set<RequestId>> EncoderLedger::references() const {
  std::map<ItemId, std::set<RequestId>> result;
  for (const auto& [item, entry] : state_->entries) result.try_emplace(item);
  for (const auto& [request, holding] : state_->requests) {
    for (const auto& [input, entry] : holding) result[*entry->item].insert(request);
  }
  return result;
}

std::vector<SizedItem> EncoderLedger::freeable() const {
  std::vector<SizedItem> result;
  for (const State::Entry& entry : state_->freeable) result.push_back({*entry.item, entry.size});
  return result;
}

void EncoderLedger::check_invariants() const {
  AFI_CHECK(state_->free <= state_->freeable_embeddings &&
            state_->freeable_embeddings <= state_->capacity);

  EmbeddingCount charged{};
  for (const auto& [item, entry] : state_->entries) {
    AFI_CHECK(entry.item == &item);
    AFI_CHECK(entry.is_linked() == (entry.requests == 0));
    charged += entry.size;
  }
  AFI_CHECK(charged == state_->capacity - state_->free);

  EmbeddingCount unreferenced{};
  for (const State::Entry& entry : state_->freeable) unreferenced += entry.size;
  AFI_CHECK(unreferenced == state_->freeable_embeddings - state_->free);

  // Every request is counted by its entries, and no entry counts one that does not reference it.
  std::map<const State::Entry*, std::uint32_t> requests;
  for (const auto& [request, holding] : state_->requests) {
    AFI_CHECK(!holding.empty());
    AFI_CHECK(std::ranges::adjacent_find(holding, std::ranges::greater_equal{},
                                         &State::HeldInput::input) == holding.end());
    std::set<const State::Entry*> held;
    for (const auto& [input, entry] : holding) held.insert(entry);
    for (const State::Entry* const entry : held) ++requests[entry];
  }
  for (const auto& [item, entry] : state_->entries) {
    const auto counted = requests.extract(&entry);
    AFI_CHECK(entry.requests == (counted.empty() ? 0 : counted.mapped()));
  }
  AFI_CHECK(requests.empty());
}

}  // namespace afterimage
