// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "caches/answers/answer_cache_state.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

/// Work done per lock hold, in visited entries.
constexpr std::size_t kSlice = 512;
constexpr std::size_t kWorkOfMatch = 8;     // to copy or remove a match
constexpr std::size_t kBytesPerWork = 512;  // question bytes searched or copied

/// Matches a filter against entries.
class Matcher {
 public:
  explicit Matcher(const AnswerFilter& filter)
      : filter_(filter), words_(ascii::lowered(filter.words)) {}

  [[nodiscard]] bool admits(const AnswerSlot& slot, Duration now) const {
    return (!filter_.entry.has_value() || slot.id == *filter_.entry) &&
           (!filter_.space.has_value() || slot.scope.space == *filter_.space) &&
           (!filter_.scope.has_value() || slot.scope.key == *filter_.scope) &&
           (!filter_.older_than.has_value() || now - slot.stored > *filter_.older_than) &&
           (filter_.owner == TenantId() || slot.owner->first == filter_.owner) &&
           (filter_.tag.empty() || slot.has_tag(filter_.tag)) &&
           ascii::says(slot.question(), words_);
  }

 private:
  const AnswerFilter& filter_;
  std::string words_;
};

AnswerEntry entry_of(const AnswerSlot& slot, Duration now) {
  return {.id = slot.id,
          .question = std::string(slot.question()),
          .scope = slot.scope,
          .age = now - slot.stored,
          .left = slot.left(now),
          .bytes = slot.payload->bytes(),
          .uses = slot.uses,
          .cost = slot.cost,
          .tags = slot.tags(),
          .pinned = slot.pinned,
          .owner = slot.owner->first};
}

AnswerUsage usage_of(const AnswerOwners::value_type& owner) {
  return {.owner = owner.first, .kept = owner.second.kept, .pinned = owner.second.pinned};
}

}  // namespace

template <typename Visit>
void AnswerCache::visit(const AnswerFilter& filter, AnswerEntryId after, const Visit& visit) const {
  const Matcher matcher(filter);
  AnswerEntryId last = filter.entry.value_or(AnswerEntryId{UINT64_MAX});
  if (filter.entry.has_value() && last.value > 0) after = std::max(after, {last.value - 1});
  for (;; locked_->mutex.let_waiters_in()) {
    const MutexLock lock(locked_->mutex);
    State& state = locked_->state;
    last = std::min(last, AnswerEntryId{state.last_id});
    const Duration now = locked_->clock.now();
    auto next = state.by_id.upper_bound(after);
    const auto has_next = [&]() AFI_REQUIRES(locked_->mutex) {
      return next != state.by_id.end() && next->first <= last;
    };
    for (std::size_t work = 0; has_next() && work < kSlice; ++work) {
      const std::uint32_t place = (next++)->second;  // advance first: the visitor may remove it
      const AnswerSlot& slot = state.slots[place];
      after = slot.id;
      work += slot.question().size() / kBytesPerWork;
      if (!matcher.admits(slot, now)) continue;
      work += kWorkOfMatch;
      if (!visit(state, place, now)) return;
    }
    if (!has_next()) return;
  }
}

AnswerCount AnswerCache::erase(const AnswerFilter& filter) {
  AnswerCount erased;
  visit(filter, {}, [&](State& state, std::uint32_t place, Duration /*now*/) {
    erased += state.slots[place].count();
    state.erase(place);
    return true;
  });
  return erased;
}

AnswerCount AnswerCache::count(const AnswerFilter& filter) const {
  AnswerCount counted;
  visit(filter, {}, [&](const State& state, std::uint32_t place, Duration /*now*/) {
    counted += state.slots[place].count();
    return true;
  });
  return counted;
}

std::vector<AnswerEntry> AnswerCache::entries(const AnswerFilter& filter, std::size_t limit,
                                              AnswerEntryId after) const {
  std::vector<AnswerEntry> listed;
  if (limit == 0) return listed;
  visit(filter, after, [&](const State& state, std::uint32_t place, Duration now) {
    listed.push_back(entry_of(state.slots[place], now));
    return listed.size() < limit;
  });
  return listed;
}

Result<bool> AnswerCache::pin(AnswerEntryId entry, bool pinned) {
  const MutexLock lock(locked_->mutex);
  const auto found = locked_->state.by_id.find(entry);
  if (found == locked_->state.by_id.end()) return false;
  if (pinned) {
    AFI_TRY_VOID(locked_->state.pin(found->second));
  } else {
    locked_->state.unpin(found->second);
  }
  return true;
}

std::vector<AnswerUsage> AnswerCache::owner_usages() const {
  std::vector<AnswerUsage> usages;
  for (;; locked_->mutex.let_waiters_in()) {
    const MutexLock lock(locked_->mutex);
    const AnswerOwners& owners = locked_->state.owners;
    auto next = usages.empty() ? owners.begin() : owners.upper_bound(usages.back().owner);
    for (std::size_t work = 0; next != owners.end() && work < kSlice; ++work, ++next) {
      usages.push_back(usage_of(*next));
    }
    if (next == owners.end()) return usages;
  }
}

}  // namespace afterimage
