// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/kv_events.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "gateway/fleet/msgpack_reader.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMostBlockTokens = 65'536;
constexpr std::uint8_t kGpu = 1;
/// Of one message, whatever it claims: an engine's batches are far smaller.
constexpr std::size_t kMostEvents = 65'536;
constexpr std::size_t kMostExtraKeys = 262'144;

std::uint64_t mixed(std::uint64_t value) {
  value ^= value >> 30U;
  value *= 0xBF58476D1CE4E5B9ULL;
  value ^= value >> 27U;
  value *= 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

/// Block hashes are numbers or bytes, by the engine's version and settings.
std::optional<std::uint64_t> read_block(MsgpackReader& in, std::vector<ChainKey>& keys) {
  if (const auto number = in.integer()) return mixed(*number);
  const auto bytes = in.text();
  if (!bytes.has_value()) return std::nullopt;
  if (ChainKey key; bytes->size() == key.bytes.size()) {
    std::ranges::copy(std::as_bytes(std::span(*bytes)), key.bytes.begin());
    keys.push_back(key);
  }
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : *bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return mixed(hash);
}

std::uint8_t medium_of(std::string_view name) {
  if (name == "GPU") return kGpu;
  const auto hash =
      mixed(name.size() * 131 + (name.empty() ? 0 : static_cast<unsigned char>(name[0])));
  return static_cast<std::uint8_t>(2U << (hash % 7U));
}

KvEvent::Reach reach_of(std::string_view kind) {
  const bool all =
      kind == "full_attention" || kind == "mla_attention" || kind == "sink_full_attention";
  return all ? KvEvent::Reach::kAll : KvEvent::Reach::kPart;
}

/// An event in the making: fields come by position or by name.
class EventFields {
 public:
  void set_kind(std::string_view tag) {
    if (tag == "BlockStored") kind_ = KvEvent::Kind::kStored;
    if (tag == "BlockRemoved") kind_ = KvEvent::Kind::kRemoved;
    if (tag == "AllBlocksCleared") kind_ = KvEvent::Kind::kCleared;
  }
  void read(std::string_view field, MsgpackReader& in) {
    if (field == "block_hashes") return read_blocks(in);
    if (field == "block_size") {
      if (const auto size = in.integer()) return set_tokens(*size);
    }
    if (field == "medium") {
      if (const auto name = in.text()) {
        event_.medium = medium_of(*name);
        return;
      }
    }
    if (field == "parent" || field == "parent_block_hash") return read_parent(in);
    if (field == "token_ids") return read_tokens(in);
    if (field == "lora" || field == "lora_name") {
      if (const auto name = in.text()) {
        event_.adapter = *name;
        return;
      }
    }
    if (field == "extra" || field == "extra_keys") return read_extra(in);
    if (field == "group_idx") {
      if (const auto group = in.integer()) {
        event_.group = *group;
        return;
      }
    }
    if (field == "kv_cache_spec_kind") {
      if (const auto kind = in.text()) {
        event_.reach = reach_of(*kind);
        return;
      }
    }
    in.skip();
  }
  /// In the order of vLLM's array form, after the tag.
  void read_at(std::size_t position, MsgpackReader& in) {
    static constexpr std::array<std::string_view, 10> kStored{
        "block_hashes", "parent", "token_ids", "block_size", "lora_id",
        "medium",       "lora",   "extra",     "group_idx",  "kv_cache_spec_kind"};
    static constexpr std::array<std::string_view, 3> kRemoved{"block_hashes", "medium",
                                                              "group_idx"};
    std::string_view field;
    if (kind_ == KvEvent::Kind::kStored && position < kStored.size()) field = kStored.at(position);
    if (kind_ == KvEvent::Kind::kRemoved && position < kRemoved.size()) {
      field = kRemoved.at(position);
    }
    read(field, in);
  }
  /// nullopt: an event of no interest.
  std::optional<KvEvent> take() {
    if (!kind_.has_value()) return std::nullopt;
    event_.kind = *kind_;
    return std::move(event_);
  }

 private:
  void read_blocks(MsgpackReader& in) {
    const auto count = in.array();
    if (!count.has_value()) return in.skip();
    for (std::size_t i = 0; i < *count && !in.broken(); ++i) {
      const auto block = read_block(in, event_.keys);
      if (block.has_value()) {
        event_.blocks.push_back(*block);
      } else {
        in.skip();
      }
    }
  }
  void read_parent(MsgpackReader& in) {
    event_.is_first = in.peek() == MsgpackReader::Kind::kNil;
    std::vector<ChainKey> unused;
    event_.parent = read_block(in, unused);
    if (!event_.parent.has_value()) in.skip();
  }
  void read_tokens(MsgpackReader& in) {
    const auto count = in.array();
    if (!count.has_value()) return in.skip();
    for (std::size_t i = 0; i < *count && !in.broken(); ++i) {
      const auto token = in.integer();
      if (!token.has_value()) in.skip();
      event_.token_ids.push_back(static_cast<std::uint32_t>(token.value_or(UINT32_MAX)));
    }
  }
  /// A list or nil for each block.
  void read_extra(MsgpackReader& in) {
    const auto count = in.array();
    if (!count.has_value()) return in.skip();
    for (std::size_t i = 0; i < *count && !in.broken(); ++i) {
      if (++extra_keys_ > kMostExtraKeys) return in.fail();
      event_.extra.emplace_back();
      const auto keys = in.array();
      if (!keys.has_value()) in.skip();
      for (std::size_t k = 0; k < keys.value_or(0) && !in.broken(); ++k) {
        if (++extra_keys_ > kMostExtraKeys) return in.fail();
        read_extra_key(in, event_.extra.back());
        if (i == 0 && k == 0 && event_.extra[0].size() == 1 && event_.extra[0][0] == kContentMark) {
          event_.names_content = true;
        }
      }
    }
  }
  /// A text, or a list that begins with one: of media with their offset in the block, which the
  /// block's tokens tell, too.
  static void read_extra_key(MsgpackReader& in, std::vector<std::string_view>& texts) {
    if (const auto text = in.text()) {
      texts.push_back(*text);
      return;
    }
    const auto size = in.array();
    if (!size.has_value()) return in.skip();
    for (std::size_t i = 0; i < *size && !in.broken(); ++i) {
      const auto text = in.text();
      if (!text.has_value()) in.skip();
      if (i == 0 && text.has_value()) texts.push_back(*text);
    }
  }
  void set_tokens(std::uint64_t tokens) {
    event_.block_tokens =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, kMostBlockTokens));
  }

  std::optional<KvEvent::Kind> kind_;
  KvEvent event_{.kind = {}, .blocks = {}, .block_tokens = 0, .medium = kGpu};
  std::size_t extra_keys_ = 0;
};

std::optional<KvEvent> read_event(MsgpackReader& in) {
  EventFields fields;
  if (const auto size = in.array()) {
    if (*size == 0) return std::nullopt;
    const auto tag = in.text();
    if (!tag.has_value()) in.skip();
    fields.set_kind(tag.value_or(""));
    for (std::size_t i = 1; i < *size && !in.broken(); ++i) fields.read_at(i - 1, in);
    return fields.take();
  }
  const auto pairs = in.map();
  if (!pairs.has_value()) {
    in.skip();
    return std::nullopt;
  }
  for (std::size_t i = 0; i < *pairs && !in.broken(); ++i) {
    const auto name = in.text();
    if (!name.has_value()) in.skip();
    if (name == "type") {
      const auto tag = in.text();
      if (!tag.has_value()) in.skip();
      fields.set_kind(tag.value_or(""));
    } else {
      fields.read(name.value_or(""), in);
    }
  }
  return fields.take();
}

void read_events(MsgpackReader& in, KvEventBatch& batch) {
  const auto count = in.array();
  if (!count.has_value()) return in.skip();
  if (*count > kMostEvents) return in.fail();
  for (std::size_t i = 0; i < *count && !in.broken(); ++i) {
    if (auto event = read_event(in)) {
      batch.events.push_back(*std::move(event));
    } else {
      ++batch.unknown;
    }
  }
}

}  // namespace

Result<KvEventBatch> parse_kv_events(std::span<const std::byte> payload) {
  MsgpackReader in(payload);
  KvEventBatch batch;
  if (const auto size = in.array()) {
    for (std::size_t i = 0; i < *size && !in.broken(); ++i) {
      if (i == 1) {
        read_events(in, batch);
      } else {
        in.skip();
      }
    }
  } else if (const auto pairs = in.map()) {
    for (std::size_t i = 0; i < *pairs && !in.broken(); ++i) {
      const auto name = in.text();
      if (!name.has_value()) in.skip();
      if (name == "events") {
        read_events(in, batch);
      } else {
        in.skip();
      }
    }
  } else {
    return fail(ErrorCode::kCorruption, "this is not a batch of KV events");
  }
  if (in.broken() || !in.at_end()) {
    return fail(ErrorCode::kCorruption, "a batch of KV events is not valid MessagePack");
  }
  return batch;
}

void EngineBlocks::store(const KvEvent& event, Effect& effect) {
  BlockContent before = event.is_first ? kNoBlocks : 0;
  if (event.parent.has_value()) {
    const auto parent = blocks_.find(*event.parent);
    if (parent != blocks_.end()) before = parent->second.content;
  }
  // Engines that do not say what a block holds besides its tokens would have one picture for another:
  // its placeholder tokens are the same. Their extra_keys are absent; then no block of media matches a
  // prompt, whose blocks have the identifiers.
  const std::size_t size = event.block_tokens;
  const bool names_tokens = size > 0 && event.token_ids.size() == size * event.blocks.size();
  static const std::vector<std::string_view> kNothing;
  for (std::size_t i = 0; i < event.blocks.size(); ++i) {
    const auto& extra = i < event.extra.size() ? event.extra[i] : kNothing;
    const bool names_adapter =
        event.adapter.empty() || (!extra.empty() && extra.front() == event.adapter);
    before = before != 0 && names_tokens && names_adapter
                 ? next_block(before, std::span(event.token_ids).subspan(i * size, size), extra)
                 : 0;
    auto it = blocks_.find(event.blocks[i]);
    if (it == blocks_.end()) {
      if (blocks_.size() >= kMostBlocks) return;  // the rest is not counted
      it = blocks_.emplace(event.blocks[i], Block{.tokens = event.block_tokens}).first;
      tokens_ += event.block_tokens;
    }
    Block& block = it->second;
    block.media |= event.medium;
    // The first event about a block decides: the replica's hash stands for one content.
    if (block.content == 0 && before != 0) {
      block.content = before;
      block_tokens_ = event.block_tokens;
      if (++contents_[before] == 1) effect.contents.emplace_back(before, true);
    }
    before = block.content;
  }
}

double EngineBlocks::remove(const KvEvent& event, Effect& effect) {
  double gone = 0;
  for (const std::uint64_t id : event.blocks) {
    const auto it = blocks_.find(id);
    if (it == blocks_.end()) continue;
    it->second.media &= static_cast<std::uint8_t>(~event.medium);
    if (it->second.media != 0) continue;
    gone += it->second.tokens;
    const auto content = contents_.find(it->second.content);
    if (content != contents_.end() && --content->second == 0) {
      effect.contents.emplace_back(content->first, false);
      contents_.erase(content);
    }
    blocks_.erase(it);
  }
  tokens_ -= gone;
  return gone;
}

bool EngineBlocks::counts(const KvEvent& event) {
  if (event.kind == KvEvent::Kind::kCleared) return true;
  if (event.reach == KvEvent::Reach::kPart) return false;
  if (event.reach == KvEvent::Reach::kAll && !group_.has_value()) group_ = event.group;
  return event.group == group_.value_or(0);
}

EngineBlocks::Effect EngineBlocks::apply(const KvEventBatch& batch) {
  Effect effect;
  double gone = 0;
  double most = tokens_;
  for (const KvEvent& event : batch.events) {
    if (!counts(event)) continue;
    switch (event.kind) {
      case KvEvent::Kind::kStored:
        store(event, effect);
        most = std::max(most, tokens_);
        break;
      case KvEvent::Kind::kRemoved:
        gone += remove(event, effect);
        break;
      case KvEvent::Kind::kCleared:
        clear();
        effect.cleared = true;
        effect.contents.clear();
        gone = 0;
        most = 0;
        break;
    }
  }
  if (most > 0) effect.evicted_share = std::min(gone / most, 1.0);
  return effect;
}

void EngineBlocks::clear() {
  blocks_.clear();
  contents_.clear();
  group_.reset();
  tokens_ = 0;
}

KvSequence::Step KvSequence::see(std::uint64_t sequence) const {
  if (!next_.has_value() || sequence == *next_) return Step::kNext;
  return sequence > *next_ ? Step::kGap : Step::kRestarted;
}

}  // namespace afterimage
