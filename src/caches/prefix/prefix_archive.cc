// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/prefix_archive.h"

#include <algorithm>
#include <set>
#include <utility>

#include "afterimage/result.h"
#include "caches/prefix/captured_kv.h"
#include "caches/prefix/resume_point.h"
#include "storage/memory/packed_tensors.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kReadAhead = 8;  // blocks
constexpr std::uint32_t kBlockTokens = PrefixArchive::kBlock.value();

TierKey rows_key(const BlockKey& key) { return TierKey::of(EntryClass::kPrefixKv, key); }
TierKey snapshot_key(const BlockKey& key) { return TierKey::of(EntryClass::kRecurrentState, key); }

/// Consecutive rows of all full groups, in the memory in which the tier returned them.
class LoadedRows {
 public:
  LoadedRows(const KvLayout& layout, std::uint32_t first) : layout_(layout) { begin(first); }

  [[nodiscard]] std::uint32_t end() const { return kv_.end.value(); }
  [[nodiscard]] std::uint32_t rows() const { return (kv_.end - kv_.begin).value(); }

  /// Appends rows [end(), end) of the block [begin, block_end). False: the entry is malformed.
  bool append(TierEntry entry, std::uint32_t begin, std::uint32_t block_end, std::uint32_t end) {
    auto views = unpack(entry);
    if (!views.has_value() || !fits(*views, block_end - begin)) return false;
    std::size_t next = 0;
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      if (layout_.groups[g].kind != KvKind::kFull) continue;
      const KvRows block =
          rows_before(TokenCount(block_end), layout_.groups[g], (*views)[next++].bytes());
      kv_.rows[g].push_back(rows_between({&block, 1}, kv_.end, TokenCount(end)).front());
    }
    kv_.end = TokenCount(end);
    kv_.cost += entry.meta.cost;
    memory_.push_back({.first = TokenCount(begin),
                       .count = TokenCount(block_end - begin),
                       .bytes = entry.bytes,
                       .tensors = *std::move(views),
                       .memory = std::move(entry.memory)});
    return true;
  }

  Result<void> hand_over(const PrefixArchive::Insert& insert) {
    const KvSlice kv = std::move(kv_);
    begin(kv.end.value());
    return insert(kv, std::exchange(memory_, {}));
  }

 private:
  void begin(std::uint32_t first) {
    kv_ = {.begin = TokenCount(first),
           .end = TokenCount(first),
           .rows = std::vector<std::vector<KvRows>>(layout_.groups.size())};
  }
  [[nodiscard]] bool fits(const TensorViews& views, std::uint32_t rows) const {
    std::size_t next = 0;
    for (const LayerGroup& group : layout_.groups) {
      if (group.kind != KvKind::kFull) continue;
      if (next == views.size() || views[next].dtype() != DType::kU8 ||
          views[next].shape() != Shape{rows, group.row_bytes.value()}) {
        return false;
      }
      ++next;
    }
    return next == views.size();
  }

  const KvLayout& layout_;
  KvSlice kv_;
  std::vector<LoadedKv> memory_;  // that kv_ refers to
};

std::uint64_t row_bytes(const KvLayout& layout) {
  std::uint64_t bytes = 0;
  for (const LayerGroup& group : layout.groups) {
    if (group.kind == KvKind::kFull) bytes += group.row_bytes.value();
  }
  return bytes;
}

/// The groups of a stored snapshot. The cache checks their sizes.
Result<KvSnapshot> snapshot_of(const KvLayout& layout, const TierEntry& entry, std::uint32_t at) {
  AFI_TRY(const TensorViews views, unpack(entry));
  KvSnapshot snapshot{.at = TokenCount(at), .groups = {}};
  std::size_t next = 0;
  for (const LayerGroup& group : layout.groups) {
    const bool has = group.kind == KvKind::kSliding || group.kind == KvKind::kRecurrent;
    if (has && next == views.size()) break;
    std::vector<KvRows>& rows = snapshot.groups.emplace_back();
    if (has) rows.push_back(rows_before(snapshot.at, group, views[next++].bytes()));
  }
  if (snapshot.groups.size() != layout.groups.size() || next != views.size()) {
    return fail(ErrorCode::kCorruption, "the stored snapshot's groups differ from the layout's");
  }
  return snapshot;
}

/// Ends of the stored blocks: every 128 tokens, the end of the capture, and where other prompts are
/// likely to diverge: after media and at snapshots. A second question about an image then resumes
/// after the image, not at the last full block before it.
std::set<std::uint32_t> row_ends(const Sequence& prompt, const KvSlice& kv) {
  const std::uint32_t first = (kv.begin.value() + kBlockTokens - 1) / kBlockTokens * kBlockTokens;
  const std::uint32_t covered = kv.end.value();
  std::set<std::uint32_t> ends;
  for (std::uint32_t end = first + kBlockTokens; end < covered; end += kBlockTokens) {
    ends.insert(end);
  }
  ends.insert(covered);
  for (const MediaSpan& span : prompt.spans) ends.insert(span.end().value());
  for (const KvSnapshot& snapshot : kv.snapshots) ends.insert(snapshot.at.value());
  std::erase_if(ends, [&](std::uint32_t end) { return end <= first || end > covered; });
  return ends;
}

}  // namespace

Result<ArchivedPrompt> ArchivedPrompt::of(const Namespace& space, const NamespaceId& root,
                                          const KvLayout& layout, const Sequence& sequence) {
  AFI_TRY_VOID(check_prompt(sequence));
  AFI_TRY(BlockChain chain, BlockChain::open(space, {.block_tokens = PrefixArchive::kBlock,
                                                     .layout = layout,
                                                     .preprocessing = root.hex()}));
  std::vector<BlockKey> keys;
  AFI_TRY_VOID(chain.extend(sequence, keys));
  return ArchivedPrompt(space, std::move(chain), layout, sequence, std::move(keys));
}

std::vector<BlockKey> ArchivedPrompt::ends(std::uint32_t first, std::uint32_t last) const {
  auto ends = chain_.keys_of_ends(*sequence_, keys_, TokenCount(first), TokenCount(last));
  AFI_CHECK(ends.has_value());
  return *std::move(ends);
}

std::vector<EntryLabel> ArchivedPrompt::media_labels() const {
  std::vector<ContentDigest> contents;
  for (const MediaSpan& span : sequence_->spans) contents.push_back(span.content);
  return space_.media_labels(contents);
}

std::vector<EntryLabel> ArchivedPrompt::labels(std::uint32_t end,
                                               std::span<const EntryLabel> media) const {
  const auto before = std::ranges::find_if(
      sequence_->spans, [end](const MediaSpan& span) { return span.offset.value() >= end; });
  return space_.labels(media.first(static_cast<std::size_t>(before - sequence_->spans.begin())));
}

TokenCount PrefixArchive::capture_from(TokenCount resume) {
  return TokenCount(resume.value() / kBlockTokens * kBlockTokens);
}

void PrefixArchive::put(const TierKey& key, const TensorViews& views, Duration cost,
                        std::vector<EntryLabel> labels) {
  const PutOnce::Outcome outcome = put_once_.put(key, views, cost, std::move(labels));
  if (outcome == PutOnce::Outcome::kThere) return;
  const MutexLock lock(mutex_);
  ++(outcome == PutOnce::Outcome::kPut ? stats_.kept : stats_.refused);
}

std::vector<TierKey> PrefixArchive::whole_blocks(const ArchivedPrompt& prompt, TokenCount end) {
  const std::size_t whole = std::min<std::size_t>(end.value() / kBlockTokens, prompt.keys_.size());
  std::vector<TierKey> blocks;
  for (const BlockKey& key : std::span(prompt.keys_).first(whole)) blocks.push_back(rows_key(key));
  return blocks;
}

void PrefixArchive::note_request(const ArchivedPrompt& prompt) {
  if (admission_ == nullptr) return;
  admission_->returned(whole_blocks(prompt, TokenCount(UINT32_MAX)));
}

bool PrefixArchive::admits(const ArchivedPrompt& prompt, const KvSlice& kv) {
  if (admission_ == nullptr) return true;
  const std::vector<TierKey> blocks = whole_blocks(prompt, kv.end);
  if (blocks.size() <= kv.begin.value() / kBlockTokens) return true;
  if (tier_.is_pending(blocks.back()) || tier_.holds(blocks.back())) return true;
  return admission_->admit(blocks);
}

void PrefixArchive::keep(const ArchivedPrompt& prompt, const KvSlice& kv) {
  const KvLayout& layout = *prompt.layout_;
  if (!check_captured(layout, *prompt.sequence_, kv).has_value()) return;
  const std::uint32_t computed = std::max(1U, (kv.end - kv.begin).value());
  if (load_or_compute_ != nullptr) {
    load_or_compute_->learn(EntryClass::kPrefixKv, Bytes(computed * row_bytes(layout)), kv.cost);
  }
  if (!admits(prompt, kv)) {
    const MutexLock lock(mutex_);
    ++stats_.unwritten;
    return;
  }
  const std::vector<EntryLabel> media = prompt.media_labels();
  for (const std::uint32_t end : row_ends(*prompt.sequence_, kv)) {
    if (!keeps_rows(layout)) break;
    const std::uint32_t begin = (end - 1) / kBlockTokens * kBlockTokens;
    put(rows_key(prompt.end(end)),
        row_tensors(layout, kv, TokenCount(begin), TokenCount(end - begin)).views,
        kv.cost * (end - begin) / computed, prompt.labels(end, media));
  }
  for (const KvSnapshot& snapshot : kv.snapshots) {
    put(snapshot_key(prompt.end(snapshot.at.value())), snapshot_tensors(layout, snapshot).views,
        kv.cost, prompt.labels(snapshot.at.value(), media));
  }
}

void PrefixArchive::probe(std::span<const BlockKey> keys, TierKey (*key_of)(const BlockKey& key),
                          Look look) const {
  std::vector<TierKey> tier_keys;
  tier_keys.reserve(keys.size());
  for (const BlockKey& key : keys) tier_keys.push_back(key_of(key));
  if (look == Look::kAgain) tier_.invalidate_negative(tier_keys);
  tier_.probe(tier_keys);
}

/// The end of the longest stored block that contains the row at `from`.
std::optional<std::uint32_t> PrefixArchive::block_end(const ArchivedPrompt& prompt,
                                                      std::uint32_t from, Look look) const {
  const std::uint32_t block = from / kBlockTokens;
  const std::uint32_t full = (block + 1) * kBlockTokens;
  if (full <= prompt.length() && tier_.may_contain(rows_key(prompt.keys_[block]))) return full;
  const std::uint32_t last = std::min(full - 1, prompt.length());
  if (last <= from) return std::nullopt;
  const std::vector<BlockKey> ends = prompt.ends(from + 1, last);
  probe(ends, rows_key, look);
  for (std::size_t i = ends.size(); i-- > 0;) {
    if (tier_.may_contain(rows_key(ends[i]))) return from + 1 + static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

std::uint32_t PrefixArchive::rows_end(const ArchivedPrompt& prompt, std::uint32_t matched,
                                      Look look) const {
  const std::size_t first = std::min<std::size_t>(matched / kBlockTokens, prompt.keys_.size());
  probe(std::span(prompt.keys_).subspan(first), rows_key, look);
  std::uint32_t end = matched;
  do {
    const auto next = block_end(prompt, end, look);
    if (!next.has_value()) break;
    end = *next;
  } while (end % kBlockTokens == 0);
  return end;
}

std::optional<std::uint32_t> PrefixArchive::last_snapshot(const ArchivedPrompt& prompt,
                                                          std::uint32_t from, std::uint32_t beyond,
                                                          Look look) const {
  while (from > beyond) {
    const std::uint32_t first =
        std::max(beyond, (from - 1) / kBlockTokens * kBlockTokens) + 1;  // in that block
    const std::vector<BlockKey> ends = prompt.ends(first, from);
    probe(ends, snapshot_key, look);
    for (std::size_t i = ends.size(); i-- > 0;) {
      if (tier_.may_contain(snapshot_key(ends[i]))) return first + static_cast<std::uint32_t>(i);
    }
    from = first - 1;
  }
  return std::nullopt;
}

PrefixArchive::Held PrefixArchive::held(const ArchivedPrompt& prompt, std::uint32_t matched,
                                        std::uint32_t resume, Look look) const {
  const KvLayout& layout = *prompt.layout_;
  Held held{.rows_end = keeps_rows(layout) ? rows_end(prompt, matched, look) : prompt.length()};
  if (!keeps_snapshots(layout)) return held;
  held.snapshot = last_snapshot(prompt, std::min(held.rows_end, prompt.length() - 1), resume, look);
  // Rows beyond the last snapshot cannot be resumed from.
  held.rows_end = held.snapshot.value_or(matched);
  return held;
}

std::vector<LoadStep> PrefixArchive::steps(const ArchivedPrompt& prompt, std::uint32_t matched,
                                           std::uint32_t resume, const Held& held) const {
  const std::uint64_t row = row_bytes(*prompt.layout_);
  const auto compute_cost = [&](std::uint32_t tokens) {
    return load_or_compute_->cost_of(EntryClass::kPrefixKv, Bytes(tokens * row));
  };
  std::vector<LoadStep> steps;
  if (keeps_rows(*prompt.layout_)) {
    for (std::uint32_t from = matched; from < held.rows_end;) {
      const std::uint32_t begin = from / kBlockTokens * kBlockTokens;
      const std::uint32_t end = std::min(begin + kBlockTokens, held.rows_end);
      const auto metadata = tier_.metadata(rows_key(prompt.end(end)));
      steps.push_back({.bytes = Bytes((end - begin) * row),
                       .cost = compute_cost(end - from),
                       .place = metadata.has_value() ? metadata->place : 0});
      from = end;
    }
  }
  if (!held.snapshot.has_value()) return steps;
  const TierKey key = snapshot_key(prompt.end(*held.snapshot));
  LoadStep all = load_or_compute_->step_of(EntryClass::kRecurrentState, tier_.metadata(key));
  for (const LoadStep& step : steps) {
    all.bytes += step.bytes;
    all.place = std::max(all.place, step.place);
    ++all.gets;
  }
  if (row > 0) all.cost = compute_cost(*held.snapshot - resume);
  return {all};
}

std::optional<PrefixArchive::Chosen> PrefixArchive::choose(const ArchivedPrompt& prompt,
                                                           std::uint32_t matched,
                                                           std::uint32_t resume, const Held& held) {
  Chosen chosen{.held = held, .step = {}, .choice = {}};
  if (load_or_compute_ == nullptr) return chosen;
  const std::vector<LoadStep> offered = steps(prompt, matched, resume, held);
  chosen.choice = load_or_compute_->choose(offered);
  const std::size_t taken = chosen.choice.steps;
  chosen.step.gets = 0;
  for (const LoadStep& step : std::span(offered).first(taken)) {
    chosen.step.bytes += step.bytes;
    chosen.step.cost += step.cost;
    chosen.step.gets += step.gets;
  }
  if (taken == offered.size()) return chosen;
  const std::uint32_t whole = held.snapshot.value_or(held.rows_end);
  const std::uint32_t had = held.snapshot.has_value() ? resume : matched;
  std::uint32_t end = had;
  if (taken > 0) {
    end = (matched / kBlockTokens + static_cast<std::uint32_t>(taken)) * kBlockTokens;
    chosen.held.rows_end = end;
  }
  const MutexLock lock(mutex_);
  ++stats_.declined;
  stats_.tokens_declined += whole - end;
  return taken > 0 ? std::optional(chosen) : std::nullopt;
}

std::vector<Result<std::optional<TierEntry>>> PrefixArchive::read_all(std::span<const TierKey> keys,
                                                                      const Chosen& chosen) {
  return load_or_compute_ == nullptr
             ? tier_.get_all(keys, transfer_)
             : load_or_compute_->get_all(tier_, keys, transfer_, chosen.step, chosen.choice);
}

/// The ends of the next blocks, as many as are read in one batch.
std::vector<std::uint32_t> PrefixArchive::next_ends(const ArchivedPrompt& prompt,
                                                    std::uint32_t from, std::uint32_t to) const {
  const std::uint64_t block = std::max<std::uint64_t>(1, row_bytes(*prompt.layout_) * kBlockTokens);
  const std::uint64_t most =
      std::clamp<std::uint64_t>(transfer_.capacity().value() / 4 / block, 1, kReadAhead);
  std::vector<std::uint32_t> ends;
  while (from < to && ends.size() < most) {
    const auto end = block_end(prompt, from, Look::kOnce);
    if (!end.has_value()) break;
    ends.push_back(*end);
    from = *end;
    if (from % kBlockTokens != 0) break;
  }
  return ends;
}

std::uint32_t PrefixArchive::load_rows(const ArchivedPrompt& prompt, std::uint32_t from,
                                       const Chosen& chosen, const Insert& insert,
                                       const std::stop_token& stop, bool& lacks_memory) {
  const Held& held = chosen.held;
  const KvLayout& layout = *prompt.layout_;
  const std::uint64_t row = row_bytes(layout);
  const std::uint64_t most_rows = std::clamp<std::uint64_t>(
      transfer_.capacity().value() / 2 / row, kBlockTokens, held.rows_end - from + kBlockTokens);
  LoadedRows buffer(layout, from);
  bool more = true;
  while (more && buffer.end() < held.rows_end && !stop.stop_requested()) {
    const std::vector<std::uint32_t> ends = next_ends(prompt, buffer.end(), held.rows_end);
    std::vector<TierKey> keys;
    for (const std::uint32_t end : ends) keys.push_back(rows_key(prompt.end(end)));
    auto entries = read_all(keys, chosen);
    more = !ends.empty();
    for (std::size_t i = 0; more && i < ends.size(); ++i) {
      auto entry = std::exchange(entries[i], std::nullopt);
      // `transfer` had no space for the whole batch: the rest is read again.
      if (i > 0 && !entry.has_value()) break;
      lacks_memory |= !entry.has_value() && entry.error().code == ErrorCode::kNoSpace;
      const std::uint32_t begin = buffer.end() / kBlockTokens * kBlockTokens;
      const std::uint32_t wanted = std::min(ends[i], held.rows_end);
      more = entry.has_value() && entry->has_value() &&
             buffer.append(**std::move(entry), begin, ends[i], wanted);
      if (!more || buffer.rows() + kBlockTokens <= most_rows) continue;
      if (!buffer.hand_over(insert).has_value()) return from;
      from = buffer.end();
    }
  }
  if (buffer.rows() > 0 && buffer.hand_over(insert).has_value()) from = buffer.end();
  return from;
}

bool PrefixArchive::load_snapshot(const ArchivedPrompt& prompt, const Chosen& chosen,
                                  const Insert& insert, bool& lacks_memory) {
  const KvLayout& layout = *prompt.layout_;
  const std::uint32_t at = *chosen.held.snapshot;
  auto found = read_all(std::array{snapshot_key(prompt.end(at))}, chosen).front();
  lacks_memory |= !found.has_value() && found.error().code == ErrorCode::kNoSpace;
  if (!found.has_value() || !found->has_value()) return false;
  TierEntry* const entry = &**found;
  auto snapshot = snapshot_of(layout, *entry, at);
  if (!snapshot.has_value()) return false;
  KvSlice kv{.begin = TokenCount(at), .end = TokenCount(at), .cost = entry->meta.cost};
  kv.rows.resize(layout.groups.size());
  kv.snapshots.push_back(*std::move(snapshot));
  std::vector<LoadedKv> memory(1);
  memory[0] = {.first = kv.end, .bytes = entry->bytes, .tensors = *unpack(*entry), .memory = {}};
  memory[0].memory = std::move(entry->memory);
  return insert(kv, std::move(memory)).has_value();
}

bool PrefixArchive::promote(const ArchivedPrompt& prompt, TokenCount matched, TokenCount resume,
                            const Insert& insert, const std::stop_token& stop, Look look) {
  if (prompt.length() == 0 || stop.stop_requested()) return false;
  const KvLayout& layout = *prompt.layout_;
  const Held found = held(prompt, matched.value(), resume.value(), look);
  const bool more_rows = keeps_rows(layout) && found.rows_end > matched.value();
  if (!more_rows && !found.snapshot.has_value()) return false;
  const auto chosen = choose(prompt, matched.value(), resume.value(), found);
  if (!chosen.has_value()) return false;
  bool lacks_memory = false;
  const auto note_insert = [&](const KvSlice& kv, std::vector<LoadedKv> memory) {
    auto done = insert(kv, std::move(memory));
    lacks_memory |= !done.has_value() && done.error().code == ErrorCode::kNoSpace;
    return done;
  };
  const std::uint32_t end =
      more_rows ? load_rows(prompt, matched.value(), *chosen, note_insert, stop, lacks_memory)
                : matched.value();
  bool done = !more_rows || end == chosen->held.rows_end;
  if (done && found.snapshot.has_value())
    done = load_snapshot(prompt, *chosen, note_insert, lacks_memory);
  const MutexLock lock(mutex_);
  if (end > matched.value()) stats_.tokens_loaded += end - matched.value();
  ++(done ? stats_.promoted : stats_.failed);
  if (!done && lacks_memory) ++stats_.no_memory;
  return end > matched.value() || done;
}

std::optional<PrefillLease> PrefixArchive::prefill_lease(
    const ArchivedPrompt& prompt, TokenCount resume, std::span<const TokenCount> snapshots) const {
  const KvLayout& layout = *prompt.layout_;
  const std::uint32_t from = resume.value();
  const std::size_t block = from / kBlockTokens;
  const std::uint32_t missing = prompt.length() - std::min(from, prompt.length());
  if (missing < kMinLeaseTokens.value() || block >= prompt.keys_.size()) return std::nullopt;
  PrefillLease lease{.turn = rows_key(prompt.keys_[block]),
                     .last = rows_key(prompt.end(prompt.length()))};
  if (keeps_snapshots(layout) && !snapshots.empty()) {
    lease.last = snapshot_key(prompt.end(std::ranges::max(snapshots).value()));
  }
  if (load_or_compute_ == nullptr) return lease;
  const Bytes bytes(missing * row_bytes(layout));
  const LoadStep step{.bytes = bytes,
                      .cost = load_or_compute_->cost_of(EntryClass::kPrefixKv, bytes),
                      .gets = (missing + kBlockTokens - 1) / kBlockTokens,
                      .place = tier_.places() - 1};
  if (load_or_compute_->expects_slower(step)) return std::nullopt;
  // A wait in vain then costs at most twice the time to compute.
  lease.longest_wait = 2 * step.cost;
  return lease;
}

PrefixArchiveStats PrefixArchive::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace afterimage
