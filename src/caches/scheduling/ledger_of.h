// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {

/// The rules of EncoderLedger, whose manual page says what each function does, for items and
/// requests that are named by values of any type. EncoderLedger's names are text; a binding whose
/// language has strings with a hash of their own names items by these, without a copy.
///
/// Names    Types Item and Request, ItemHash, ItemEqual and RequestHash; and describe(item) and
///          describe(request), text for error messages. None of their functions may call the ledger.
template <typename Names>
class LedgerOf {
 public:
  using Item = typename Names::Item;
  using Request = typename Names::Request;

  struct Entry : boost::intrusive::list_base_hook<> {
    explicit Entry(EmbeddingCount entry_size) : size(entry_size) {}
    EmbeddingCount size;
    const Item* item = nullptr;  // the entry's own key in entries_
    std::uint32_t requests = 0;  // that reference it. None: linked in freeable_
  };
  struct HeldInput {
    InputIndex input;
    Entry* entry;
  };

  explicit LedgerOf(EmbeddingCount capacity)
      : capacity_(capacity), free_(capacity), freeable_embeddings_(capacity) {}

  [[nodiscard]] bool take(const Request& request, InputIndex input, const Item& item) {
    const auto found = entries_.find(item);
    if (found == entries_.end()) return false;
    hold(request, input, found->second);
    return true;
  }

  [[nodiscard]] bool fits(const EncoderDemand& demand) const {
    // Do not add size and scheduled: both come from outside, and the sum may overflow.
    return demand.size <= demand.compute_left && demand.scheduled <= freeable_embeddings_ &&
           demand.size <= freeable_embeddings_ - demand.scheduled;
  }
  [[nodiscard]] bool make_room(const EncoderDemand& demand) {
    if (!fits(demand)) return false;
    while (free_ < demand.size + demand.scheduled) evict_oldest();
    return true;
  }
  [[nodiscard]] Result<void> allocate(const Request& request, InputIndex input, const Item& item,
                                      EmbeddingCount size);

  bool release(const Request& request, InputIndex input);
  std::size_t release_all(const Request& request);

  [[nodiscard]] std::vector<Item> drain_freed() {
    // A worker drops items before it encodes. An item that was evicted and allocated again in one
    // step must not be dropped: a request waits for it.
    std::erase_if(freed_, [this](const Item& item) { return entries_.contains(item); });
    return std::exchange(freed_, {});
  }
  void reset() {
    freeable_.clear();
    requests_.clear();
    entries_.clear();
    freed_.clear();
    free_ = freeable_embeddings_ = capacity_;
  }

  /// The inputs that hold an item, ascending; valid until the ledger changes.
  [[nodiscard]] std::span<const HeldInput> held_by(const Request& request) const {
    const auto holder = requests_.find(request);
    if (holder == requests_.end()) return {};
    return {holder->second.data(), holder->second.size()};
  }
  [[nodiscard]] std::optional<EmbeddingCount> size_of(const Item& item) const {
    const auto it = entries_.find(item);
    return it == entries_.end() ? std::nullopt : std::optional(it->second.size);
  }
  [[nodiscard]] EmbeddingCount capacity() const { return capacity_; }
  [[nodiscard]] EmbeddingCount free_embeddings() const { return free_; }
  [[nodiscard]] EmbeddingCount freeable_embeddings() const { return freeable_embeddings_; }
  [[nodiscard]] const std::vector<Item>& freed() const { return freed_; }

  /// Calls visit(item, size) for every resident item, in no order.
  template <typename Visit>
  void visit_items(const Visit& visit) const {
    for (const auto& [item, entry] : entries_) visit(item, entry.size);
  }
  /// Calls visit(request, held) for every request that holds items, in no order.
  template <typename Visit>
  void visit_requests(const Visit& visit) const {
    for (const auto& [request, holding] : requests_) {
      visit(request, std::span<const HeldInput>(holding.data(), holding.size()));
    }
  }
  /// Calls visit(item, size) for the unreferenced items, oldest first.
  template <typename Visit>
  void visit_freeable(const Visit& visit) const {
    for (const Entry& entry : freeable_) visit(*entry.item, entry.size);
  }
  void check_invariants() const;

 private:
  /// One request's inputs, ascending. Few: a list is faster than a table, and allocates nothing.
  using Holding = boost::container::small_vector<HeldInput, 4>;

  void hold(const Request& request, InputIndex input, Entry& entry);
  /// The request holds the entry for one input less; `holding` says for which it still does.
  void drop_reference(std::span<const HeldInput> holding, Entry& entry);
  static typename Holding::iterator place_of(Holding& holding, InputIndex input) {
    return std::ranges::lower_bound(holding, input, {}, &HeldInput::input);
  }
  static bool references(std::span<const HeldInput> holding, const Entry& entry) {
    return std::ranges::find(holding, &entry, &HeldInput::entry) != holding.end();
  }
  void evict_oldest();

  EmbeddingCount capacity_;
  EmbeddingCount free_;
  EmbeddingCount freeable_embeddings_;
  // Both maps have stable nodes: entries and holdings point at each other.
  std::unordered_map<Item, Entry, typename Names::ItemHash, typename Names::ItemEqual> entries_;
  std::unordered_map<Request, Holding, typename Names::RequestHash> requests_;
  boost::intrusive::list<Entry> freeable_;  // oldest first; declared after the entries it links
  std::vector<Item> freed_;
};

template <typename Names>
Result<void> LedgerOf<Names>::allocate(const Request& request, InputIndex input, const Item& item,
                                       EmbeddingCount size) {
  if (const auto found = entries_.find(item); found != entries_.end()) {
    if (found->second.size != size) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("item '{}' of request '{}' has {} embeddings, but the resident item has {}",
                      Names::describe(item), Names::describe(request), size.value(),
                      found->second.size.value()));
    }
    hold(request, input, found->second);
    return {};
  }
  if (size > free_) {
    return fail(
        ErrorCode::kNoSpace,
        fmt::format("item '{}' of request '{}' needs {} embeddings; {} of {} are free and "
                    "{} more could be evicted first",
                    Names::describe(item), Names::describe(request), size.value(), free_.value(),
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

template <typename Names>
void LedgerOf<Names>::hold(const Request& request, InputIndex input, Entry& entry) {
  Holding& holding = requests_[request];
  auto place = place_of(holding, input);
  const bool again = place != holding.end() && place->input == input;
  if (again && place->entry == &entry) return;
  if (!references({holding.data(), holding.size()}, entry) && entry.requests++ == 0) {
    freeable_.erase(freeable_.iterator_to(entry));
    freeable_embeddings_ -= entry.size;
  }
  if (again) {
    Entry* const before = std::exchange(place->entry, &entry);
    drop_reference({holding.data(), holding.size()}, *before);
  } else {
    holding.insert(place, {.input = input, .entry = &entry});
  }
}

template <typename Names>
bool LedgerOf<Names>::release(const Request& request, InputIndex input) {
  const auto holder = requests_.find(request);
  if (holder == requests_.end()) return false;
  Holding& holding = holder->second;
  const auto place = place_of(holding, input);
  if (place == holding.end() || place->input != input) return false;
  Entry& entry = *place->entry;
  holding.erase(place);
  drop_reference({holding.data(), holding.size()}, entry);
  if (holding.empty()) requests_.erase(holder);
  return true;
}

template <typename Names>
std::size_t LedgerOf<Names>::release_all(const Request& request) {
  const auto holder = requests_.find(request);
  if (holder == requests_.end()) return 0;
  const Holding holding = std::move(holder->second);
  requests_.erase(holder);
  std::span<const HeldInput> rest(holding.data(), holding.size());
  for (const HeldInput& held : holding) {
    rest = rest.subspan(1);
    drop_reference(rest, *held.entry);
  }
  return holding.size();
}

template <typename Names>
void LedgerOf<Names>::drop_reference(std::span<const HeldInput> holding, Entry& entry) {
  // Another input of the request still needs the item; evicting it now would encode it twice.
  if (references(holding, entry)) return;
  AFI_CHECK(entry.requests > 0);
  if (--entry.requests > 0) return;
  freeable_.push_back(entry);
  freeable_embeddings_ += entry.size;
}

template <typename Names>
void LedgerOf<Names>::evict_oldest() {
  AFI_CHECK(!freeable_.empty());
  Entry& oldest = freeable_.front();
  AFI_CHECK(oldest.requests == 0);
  freeable_.pop_front();
  free_ += oldest.size;
  auto node = entries_.extract(*oldest.item);
  freed_.push_back(std::move(node.key()));
}

template <typename Names>
void LedgerOf<Names>::check_invariants() const {
  AFI_CHECK(free_ <= freeable_embeddings_ && freeable_embeddings_ <= capacity_);

  EmbeddingCount charged{};
  for (const auto& [item, entry] : entries_) {
    AFI_CHECK(entry.item == &item);
    AFI_CHECK(entry.is_linked() == (entry.requests == 0));
    charged += entry.size;
  }
  AFI_CHECK(charged == capacity_ - free_);

  EmbeddingCount unreferenced{};
  for (const Entry& entry : freeable_) unreferenced += entry.size;
  AFI_CHECK(unreferenced == freeable_embeddings_ - free_);

  // Every request is counted by its entries, and no entry counts one that does not reference it.
  std::map<const Entry*, std::uint32_t> requests;
  for (const auto& [request, holding] : requests_) {
    AFI_CHECK(!holding.empty());
    AFI_CHECK(std::ranges::adjacent_find(holding, std::ranges::greater_equal{},
                                         &HeldInput::input) == holding.end());
    std::set<const Entry*> held;
    for (const auto& [input, entry] : holding) held.insert(entry);
    for (const Entry* const entry : held) ++requests[entry];
  }
  for (const auto& [item, entry] : entries_) {
    const auto counted = requests.extract(&entry);
    AFI_CHECK(entry.requests == (counted.empty() ? 0 : counted.mapped()));
  }
  AFI_CHECK(requests.empty());
}

}  // namespace afterimage
