// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What the cache says of itself.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "afterimage/result.h"
#include "caches/encoder/encoder_cache_state.h"

namespace afterimage {
namespace {

void add_part(const EncoderEntryInfo& part, EncoderEntryInfo& item) {
  ++item.entries;
  item.bytes += part.bytes;
  item.facts.cost += part.facts.cost;
  item.access_count = std::max(item.access_count, part.access_count);
  item.pins += part.pins;
}

}  // namespace

EncoderEntryInfo EncoderCache::State::Slot::info() const {
  return {.facts = record->facts,
          .bytes = bytes,
          .access_count = hits,
          .agents = record->agents.size(),
          .pins = pins};
}

std::optional<EncoderEntryInfo> EncoderCache::info(const EncoderKey& key) const {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return std::nullopt;
  return state_->slots[*it].info();
}

std::vector<EncoderEntryInfo> EncoderCache::most_shared(std::size_t limit) const {
  const MutexLock lock(state_->mutex);
  std::vector<EncoderEntryInfo> items;
  std::map<std::tuple<EntryLabel, ContentDigest>, std::size_t> in_parts;
  std::map<std::size_t, std::set<AgentId>> agents;  // of those in parts
  for (const State::Slot& slot : state_->slots) {
    if (!slot.resident) continue;
    const EncoderEntryFacts& facts = slot.record->facts;
    if (facts.is_part && facts.content.has_value()) {
      const EntryLabel owner = facts.labels.empty() ? EntryLabel() : facts.labels.front();
      const auto [known, is_new] = in_parts.try_emplace({owner, *facts.content}, items.size());
      agents[known->second].insert(slot.record->agents.begin(), slot.record->agents.end());
      if (!is_new) {
        add_part(slot.info(), items[known->second]);
        continue;
      }
    }
    items.push_back(slot.info());
  }
  for (const auto& [item, by] : agents) items[item].agents = by.size();
  const auto rank = [](const EncoderEntryInfo& item) {
    return std::pair(item.agents, item.access_count);
  };
  const std::size_t wanted = std::min(limit, items.size());
  std::ranges::partial_sort(items, items.begin() + static_cast<std::ptrdiff_t>(wanted),
                            std::ranges::greater(), rank);
  items.resize(wanted);
  return items;
}

EncoderCacheStats EncoderCache::stats() const {
  const MutexLock lock(state_->mutex);
  EncoderCacheStats stats = state_->stats;
  stats.min_entries = EntryCount(state_->floor());
  return stats;
}

void EncoderCache::check_invariants() const {
  const State& state = *state_;
  const MutexLock lock(state.mutex);
  Bytes resident;
  Bytes held;
  std::uint64_t tokens = 0;
  std::uint64_t entries = 0;
  std::uint64_t empty = 0;
  for (std::uint32_t place = 0; place < state.slots.size(); ++place) {
    const State::Slot& slot = state.slots[place];
    if (slot.record == nullptr) {
      AFI_CHECK(!slot.resident && slot.pins == 0);
      ++empty;
      continue;
    }
    AFI_CHECK(slot.resident || slot.pins > 0);
    AFI_CHECK(!slot.parked || (slot.resident && slot.pins > 0));
    AFI_CHECK(slot.pins > 0 || (slot.in_policy && !slot.use_pending));
    AFI_CHECK(slot.bytes == slot.record->payload.bytes());
    held += slot.bytes;
    if (!slot.resident) continue;
    ++entries;
    resident += slot.bytes;
    tokens += slot.record->facts.tokens;
    const auto it = state.index.find(slot.key);
    AFI_CHECK(it != state.index.end() && *it == place);
  }
  AFI_CHECK(entries == state.index.size() && entries == state.stats.entries.value());
  AFI_CHECK(entries <= state.options.max_entries.value());
  AFI_CHECK(resident == state.stats.resident);
  AFI_CHECK(tokens == state.stats.tokens && tokens <= state.options.max_tokens);
  AFI_CHECK(held <= state.budget.used());
  AFI_CHECK(empty == state.free_places.size());
}

std::vector<std::pair<std::string_view, double>> seed_named_stats(const EncoderCacheStats& stats) {
  const auto hits = static_cast<double>(stats.hits + stats.covered);
  const double lookups = hits + static_cast<double>(stats.misses);
  return {{"visual_cache_hits", hits},
          {"visual_cache_misses", static_cast<double>(stats.misses)},
          {"visual_cache_hit_rate", lookups > 0 ? hits / lookups : 0},
          {"visual_vram_saved_bytes",
           static_cast<double>((stats.bytes_reused + stats.bytes_covered).value())},
          {"visual_cache_entries", static_cast<double>(stats.entries.value())}};
}

}  // namespace afterimage
