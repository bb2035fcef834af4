// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/encoder_ledger.h"

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "caches/scheduling/ledger_of.h"

namespace afterimage {

namespace {

struct TextNames {
  using Item = ItemId;
  using Request = RequestId;
  // Deliberately not noexcept: libstdc++ then caches each name's hash in its node, and does not
  // rehash the other nodes of a bucket at every look-up.
  struct KeptHash {
    template <typename Tag>
    std::size_t operator()(const Name<Tag>& name) const {
      return std::hash<Name<Tag>>{}(name);
    }
  };
  using ItemHash = KeptHash;
  using ItemEqual = std::equal_to<ItemId>;
  using RequestHash = KeptHash;
  template <typename Tag>
  static const std::string& describe(const Name<Tag>& name) {
    return name.text();
  }
};

}  // namespace

struct EncoderLedger::State : LedgerOf<TextNames> {
  using LedgerOf::LedgerOf;
};

EncoderLedger::EncoderLedger(EmbeddingCount capacity) : state_(std::make_unique<State>(capacity)) {}

EncoderLedger::~EncoderLedger() = default;

EmbeddingCount EncoderLedger::capacity() const { return state_->capacity(); }
EmbeddingCount EncoderLedger::free_embeddings() const { return state_->free_embeddings(); }
EmbeddingCount EncoderLedger::freeable_embeddings() const { return state_->freeable_embeddings(); }
const std::vector<ItemId>& EncoderLedger::freed() const { return state_->freed(); }

bool EncoderLedger::take(const RequestId& request, InputIndex input, const ItemId& item) {
  return state_->take(request, input, item);
}

bool EncoderLedger::fits(const EncoderDemand& demand) const { return state_->fits(demand); }

bool EncoderLedger::make_room(const EncoderDemand& demand) { return state_->make_room(demand); }

Result<void> EncoderLedger::allocate(const RequestId& request, InputIndex input, const ItemId& item,
                                     EmbeddingCount size) {
  return state_->allocate(request, input, item, size);
}

bool EncoderLedger::release(const RequestId& request, InputIndex input) {
  return state_->release(request, input);
}

std::size_t EncoderLedger::release_all(const RequestId& request) {
  return state_->release_all(request);
}

std::vector<ItemId> EncoderLedger::drain_freed() { return state_->drain_freed(); }

void EncoderLedger::reset() { state_->reset(); }

std::optional<EmbeddingCount> EncoderLedger::size_of(const ItemId& item) const {
  return state_->size_of(item);
}

std::vector<InputIndex> EncoderLedger::inputs_of(const RequestId& request) const {
  std::vector<InputIndex> inputs;
  for (const auto& held : state_->held_by(request)) inputs.push_back(held.input);
  return inputs;
}

std::map<ItemId, std::set<RequestId>> EncoderLedger::references() const {
  std::map<ItemId, std::set<RequestId>> result;
  state_->visit_items(
      [&](const ItemId& item, EmbeddingCount /*size*/) { result.try_emplace(item); });
  state_->visit_requests([&](const RequestId& request, auto held) {
    for (const auto& [input, entry] : held) result[*entry->item].insert(request);
  });
  return result;
}

std::vector<SizedItem> EncoderLedger::freeable() const {
  std::vector<SizedItem> result;
  state_->visit_freeable(
      [&](const ItemId& item, EmbeddingCount size) { result.push_back({item, size}); });
  return result;
}

void EncoderLedger::check_invariants() const { state_->check_invariants(); }

}  // namespace afterimage
