// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_history.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kNode = 48;       // of a table
constexpr std::uint64_t kOverhead = 256;  // of a prompt
constexpr std::uint64_t kId = 64;         // of an answer's id
constexpr std::size_t kIdsOfAPrompt = 256;
constexpr std::size_t kMostNews = 64;

bool is_anchor(const PartRecord& part) {
  const PartKind kind = part.place.kind;
  return kind == PartKind::kSystem || (kind == PartKind::kTools && part.place.index == 0);
}

/// What a prompt is found by when its beginning has changed: its first message, which says the most, then
/// its system prompt and its first tool. Until `visit` returns true.
void find_anchor(const PromptRecord& prompt, const auto& visit) {
  const auto first = std::ranges::find_if(prompt.parts, [](const auto& part) {
    return part->place.kind == PartKind::kMessages || part->place.kind == PartKind::kPrompt;
  });
  if (first != prompt.parts.end() && visit((*first)->digest)) return;
  // They stand before it.
  for (const auto& part :
       std::ranges::subrange(prompt.parts.begin(), first) | std::views::reverse) {
    if (is_anchor(*part) && visit(part->digest)) return;
  }
}

Bytes charge_of(const PromptRecord& prompt) {
  return Bytes(prompt.own_size().value() + kOverhead +
               kNode * (prompt.links.size() + prompt.parts.size() + 5));
}

/// By what two prompts share from the beginning, then by what else they have in common.
bool is_closer(const PromptDivergence& one, const PromptDivergence& other) {
  return std::pair(one.shared_bytes, one.lost_bytes) >
         std::pair(other.shared_bytes, other.lost_bytes);
}

}  // namespace

std::size_t PromptHistory::shared_links(const Held& held, const std::vector<std::uint64_t>& links) {
  // A prompt with a link has all links before it, and an older prompt never leaves later than it.
  const auto end = std::ranges::partition_point(
      links, [&](std::uint64_t link) { return held.by_link.contains(link); });
  return static_cast<std::size_t>(end - links.begin());
}

PromptHistory::Closest PromptHistory::closest_by_links(const Held& held,
                                                       const std::vector<std::uint64_t>& links,
                                                       std::size_t shared) {
  const Order order = held.by_link.find(links[shared - 1]);
  Closest found{.closest = held.by_age.at(order).seen, .later = std::nullopt};
  // A link's prompt is the newest that has it: of links further back it is never newer.
  const auto begin = links.begin();
  const auto newer =
      std::partition_point(begin, begin + static_cast<std::ptrdiff_t>(shared),
                           [&](std::uint64_t link) { return held.by_link.find(link) > order; });
  if (newer != begin) found.later = held.by_age.at(held.by_link.find(*std::prev(newer))).seen;
  return found;
}

PromptHistory::Closest PromptHistory::find_by_links(const std::string& tenant,
                                                    const std::vector<std::uint64_t>& links,
                                                    const PromptOrigin& origin) {
  const MutexLock lock(mutex_);
  settle_locked();
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return {};
  const Held& held = found->second;
  const std::size_t shared = shared_links(held, links);
  if (shared > 0) return closest_by_links(held, links, shared);
  if (!origin.conversation.empty()) {
    const Order same = held.by_conversation.find(print_of(origin.conversation));
    if (same != 0) return {.closest = held.by_age.at(same).seen, .later = std::nullopt};
  }
  const Seen& last = held.by_age.rbegin()->second.seen;
  if (last.prompt->origin.operation != origin.operation) return {};
  return {.closest = last, .later = std::nullopt};
}

std::optional<PromptHistory::Seen> PromptHistory::find_by_parts(const std::string& tenant,
                                                                const PromptRecord& prompt) {
  const MutexLock lock(mutex_);
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return std::nullopt;
  Order known = 0;
  find_anchor(prompt, [&](std::uint64_t digest) {
    known = found->second.by_part.find(digest);
    return known != 0;
  });
  return known == 0 ? std::nullopt : std::optional(found->second.by_age.at(known).seen);
}

PromptHistory::Comparison PromptHistory::compare_with_closest(const std::string& tenant,
                                                              const ApiRequest& request,
                                                              PromptOrigin origin) {
  PrintedPrompt prompt = recorder_.print(request);
  const auto [closest, later] = find_by_links(tenant, prompt.links, origin);
  Comparison made;
  made.now = recorder_.record(std::move(prompt), std::move(origin),
                              closest.has_value() ? closest->prompt.get() : nullptr);
  const auto resembling = find_by_parts(tenant, *made.now);
  std::optional<PromptDivergence> best;
  for (const std::optional<Seen>* const candidate : {&std::as_const(closest), &resembling}) {
    if (!candidate->has_value() || (*candidate)->prompt == made.earlier) continue;
    const PromptDivergence divergence = compare(*made.now, *(*candidate)->prompt);
    if (best.has_value() && !is_closer(divergence, *best)) continue;
    best = divergence;
    made.earlier = (*candidate)->prompt;
    made.server = (*candidate)->server;
    made.earlier_tokens = (*candidate)->tokens;
  }
  if (later.has_value() && made.earlier == closest->prompt) {
    made.later = later->prompt;
    made.later_server = later->server;
  }
  made.report = first_report(best.value_or(PromptDivergence{.total_bytes = made.now->bytes}));
  return made;
}

std::optional<PromptReport> PromptHistory::compare_with_response(const std::string& tenant,
                                                                 const PromptRecord& now,
                                                                 std::string_view id) {
  Shared earlier;
  std::uint64_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    settle_locked();
    const auto held = tenants_.find(tenant);
    if (held == tenants_.end()) return std::nullopt;
    const auto named = held->second.by_id.find(recorder_.key().print(id));
    if (named == held->second.by_id.end()) return std::nullopt;
    earlier = held->second.by_age.at(named->second.prompt).seen.prompt;
    bytes = named->second.bytes;
  }
  PromptDivergence divergence = compare(now, *earlier);
  if (divergence.shared_bytes >= bytes) {
    divergence = {.shared_bytes = divergence.shared_bytes, .total_bytes = divergence.total_bytes};
  }
  return first_report(divergence);
}

void PromptHistory::add(const std::string& tenant, const Shared& prompt, const PromptServer& server,
                        std::uint64_t tokens) {
  tell({.kind = News::Kind::kAdded,
        .tenant = tenant,
        .seen = {.prompt = prompt, .server = server, .tokens = tokens}});
}

void PromptHistory::counted(const std::string& tenant, const Shared& prompt, std::uint64_t tokens) {
  tell({.kind = News::Kind::kCounted,
        .tenant = tenant,
        .seen = {.prompt = prompt, .server = {}, .tokens = tokens}});
}

void PromptHistory::name(const std::string& tenant, std::string_view id, const Shared& prompt) {
  if (id.empty()) return;
  tell({.kind = News::Kind::kNamed,
        .tenant = tenant,
        .seen = {.prompt = prompt, .server = {}},
        .id = recorder_.key().print(id)});
}

void PromptHistory::tell(News news) {
  if (!is_enabled() || news.seen.prompt->links.empty()) return;
  const MutexLock lock(mutex_);
  news_.push_back(std::move(news));
  if (news_.size() >= kMostNews) settle_locked();
}

void PromptHistory::settle() {
  const MutexLock lock(mutex_);
  settle_locked();
}

void PromptHistory::settle_locked() {
  for (News& news : news_) take_in(news);
  news_.clear();
}

void PromptHistory::take_in(News& news) {
  if (news.kind == News::Kind::kAdded) return add_locked(news);
  const auto held = tenants_.find(news.tenant);
  if (held == tenants_.end()) return;
  const Order known = held->second.by_link.find(news.seen.prompt->links.back());
  if (known == 0) return;
  if (news.kind == News::Kind::kNamed) return name_locked(held, known, news);
  Seen& seen = held->second.by_age.at(known).seen;
  if (seen.prompt == news.seen.prompt) seen.tokens = news.seen.tokens;
}

void PromptHistory::add_locked(News& news) {
  const auto held = tenants_.try_emplace(news.tenant, recorder_.key().print(1, 0)).first;
  if (held->second.by_age.empty()) by_size_.insert({.bytes = 0, .tenant = &held->first});
  insert(held, {.seen = std::move(news.seen), .ids = {}});
  trim_to_capacity();
}

void PromptHistory::name_locked(Tenants::iterator tenant, Order prompt, const News& news) {
  Held& held = tenant->second;
  const Named named{.prompt = prompt, .bytes = news.seen.prompt->bytes};
  if (!held.by_id.emplace(news.id, named).second) return;
  held.by_age.at(prompt).ids.push_back(news.id);
  charge(tenant, Bytes(kId), Bytes(0));
  trim_to_capacity();
}

void PromptHistory::charge(Tenants::iterator tenant, Bytes more, Bytes less) {
  Held& held = tenant->second;
  auto node = by_size_.extract({.bytes = held.bytes.value(), .tenant = &tenant->first});
  held.bytes = held.bytes + more - less;
  bytes_ = bytes_ + more - less;
  node.value().bytes = held.bytes.value();
  by_size_.insert(std::move(node));
}

void PromptHistory::insert(Tenants::iterator tenant, Kept kept) {
  Held& held = tenant->second;
  const Shared prompt = kept.seen.prompt;
  const Order order = ++last_;
  const std::size_t shared = shared_links(held, prompt->links);
  const Order before = shared == 0 ? 0 : held.by_link.find(prompt->links[shared - 1]);
  Bytes more = charge_of(*prompt);
  for (const auto& part : prompt->parts) {
    if (++part->uses == 1) more = more + part->size();
  }
  for (const std::uint64_t link : prompt->links) held.by_link.set(link, order);
  find_anchor(*prompt, [&](std::uint64_t part) {
    held.by_part.set(part, order);
    return false;
  });
  const std::string& conversation = prompt->origin.conversation;
  if (!conversation.empty()) held.by_conversation.set(print_of(conversation), order);
  charge(tenant, more, Bytes(0));
  // The next turn of a conversation takes the place of the one before it.
  const bool is_next = before != 0 && held.by_age.at(before).seen.prompt->links.size() == shared;
  held.by_age.emplace_hint(held.by_age.end(), order, std::move(kept));
  if (is_next) take_place_of(tenant, before, order);
}

void PromptHistory::take_place_of(Tenants::iterator tenant, Order before, Order order) {
  Held& held = tenant->second;
  std::vector<std::uint64_t> ids = std::exchange(held.by_age.at(before).ids, {});
  // Of a long conversation the last ones.
  if (ids.size() >= kIdsOfAPrompt) {
    held.by_id.erase(ids.front());
    ids.erase(ids.begin());
    charge(tenant, Bytes(0), Bytes(kId));
  }
  for (const std::uint64_t id : ids) held.by_id.at(id).prompt = order;
  held.by_age.at(order).ids = std::move(ids);
  remove(tenant, before);
}

void PromptHistory::remove(Tenants::iterator tenant, Order order) {
  Held& held = tenant->second;
  const auto kept = held.by_age.find(order);
  const Shared prompt = kept->second.seen.prompt;
  for (const std::uint64_t link : prompt->links) held.by_link.erase(link, order);
  find_anchor(*prompt, [&](std::uint64_t part) {
    held.by_part.erase(part, order);
    return false;
  });
  const std::string& conversation = prompt->origin.conversation;
  if (!conversation.empty()) held.by_conversation.erase(print_of(conversation), order);
  Bytes less = charge_of(*prompt);
  for (const std::uint64_t id : kept->second.ids) {
    held.by_id.erase(id);
    less = less + Bytes(kId);
  }
  for (const auto& part : prompt->parts) {
    if (--part->uses == 0) less = less + part->size();
  }
  held.by_age.erase(kept);
  charge(tenant, Bytes(0), less);
}

void PromptHistory::trim_to_capacity() {
  while (bytes_ > capacity_) {
    const auto largest = tenants_.find(*by_size_.rbegin()->tenant);
    remove(largest, largest->second.by_age.begin()->first);
    drop_if_empty(largest);
  }
}

void PromptHistory::drop_if_empty(Tenants::iterator tenant) {
  if (!tenant->second.by_age.empty()) return;
  by_size_.erase({.bytes = tenant->second.bytes.value(), .tenant = &tenant->first});
  tenants_.erase(tenant);
}

std::uint64_t PromptHistory::erase_tenants(
    const std::function<bool(std::string_view tenant)>& chosen) {
  std::uint64_t erased = 0;
  const MutexLock lock(mutex_);
  settle_locked();
  for (auto tenant = tenants_.begin(); tenant != tenants_.end();) {
    const auto next = std::next(tenant);
    if (chosen(tenant->first)) {
      while (!tenant->second.by_age.empty()) {
        remove(tenant, tenant->second.by_age.begin()->first);
        ++erased;
      }
      drop_if_empty(tenant);
    }
    tenant = next;
  }
  return erased;
}

std::size_t PromptHistory::size() {
  const MutexLock lock(mutex_);
  settle_locked();
  std::size_t size = 0;
  for (const auto& [tenant, held] : tenants_) size += held.by_age.size();
  return size;
}

Bytes PromptHistory::bytes() {
  const MutexLock lock(mutex_);
  settle_locked();
  return bytes_;
}

void PromptHistory::check_invariants() {
  const MutexLock lock(mutex_);
  settle_locked();
  std::uint64_t all = 0;
  for (const auto& [tenant, held] : tenants_) {
    AFI_CHECK(!held.by_age.empty() &&
              by_size_.contains({.bytes = held.bytes.value(), .tenant = &tenant}));
    std::uint64_t bytes = kId * held.by_id.size();
    std::unordered_map<const PartRecord*, std::uint32_t> uses;
    for (const auto& [order, kept] : held.by_age) {
      const PromptRecord& prompt = *kept.seen.prompt;
      bytes += charge_of(prompt).value();
      for (const std::uint64_t link : prompt.links) AFI_CHECK(held.by_link.find(link) >= order);
      for (const auto& part : prompt.parts) ++uses[part.get()];
    }
    for (const auto& [part, times] : uses) {
      AFI_CHECK(part->uses == times);
      bytes += part->size().value();
    }
    for (const PrintTable* table : {&held.by_link, &held.by_part, &held.by_conversation}) {
      table->check_invariants();
      table->for_each(
          [&](std::uint64_t /*print*/, Order order) { AFI_CHECK(held.by_age.contains(order)); });
    }
    for (const auto& [id, named] : held.by_id) AFI_CHECK(held.by_age.contains(named.prompt));
    AFI_CHECK(held.bytes == Bytes(bytes));
    all += bytes;
  }
  AFI_CHECK(bytes_ == Bytes(all) && bytes_ <= capacity_ && by_size_.size() == tenants_.size());
}

}  // namespace afterimage
