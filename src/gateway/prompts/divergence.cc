// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/divergence.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

namespace afterimage {
namespace {

using Parts = std::span<const std::shared_ptr<const PartRecord>>;
using Words = std::span<const WordPrint>;

constexpr std::uint16_t kMostOfCounter = 100;

bool is_same(const PartRecord& a, const PartRecord& b) {
  return a.place.kind == b.place.kind && a.digest == b.digest &&
         (a.place.kind != PartKind::kParameters || a.place.index == b.place.index);
}

bool has(Parts parts, const auto& is) {
  return std::ranges::any_of(parts, [&](const auto& part) { return is(*part); });
}
bool has_part(Parts parts, const PartRecord& like) {
  return has(parts, [&](const PartRecord& part) {
    return part.place.kind == like.place.kind && part.digest == like.digest;
  });
}
bool has_named(Parts parts, const PartRecord& like) {
  return has(parts, [&](const PartRecord& part) {
    return part.place.kind == like.place.kind && part.name == like.name;
  });
}

bool has_near(Words words, std::size_t at, WordShape shape) {
  const std::size_t begin = at < 2 ? 0 : at - 2;
  const std::size_t end = std::min(words.size(), at + 3);
  return std::ranges::any_of(words.subspan(begin, end - begin),
                             [&](const WordPrint& word) { return word.shape == shape; });
}

/// How much a shape says: of two, the one that says more counts.
int weight_of(WordShape shape) {
  switch (shape) {
    case WordShape::kPunctuation:
    case WordShape::kText:
      return 0;
    case WordShape::kClock:
    case WordShape::kCalendar:
    case WordShape::kNumber:
      return 1;
    case WordShape::kNonce:
      return 2;
    case WordShape::kHash:
      return 3;
    case WordShape::kId:
    case WordShape::kUnixTime:
    case WordShape::kTime:
    case WordShape::kDate:
      return 4;
  }
  return 0;
}

Looks looks_of_number(const WordPrint& now, const WordPrint& earlier) {
  const auto step = static_cast<std::uint16_t>(now.word - earlier.word);
  const bool both = now.shape == earlier.shape;
  return both && step > 0 && step <= kMostOfCounter ? Looks::kCounter : Looks::kNumber;
}

/// A word beside a random one of the same length may be random as well.
bool is_text_after_all(const WordPrint& a, const WordPrint& b) {
  return (a.shape == WordShape::kText) != (b.shape == WordShape::kText) && a.length != b.length;
}

Looks looks_of(Words now, Words earlier, std::size_t at) {
  const WordPrint& a = now[at];
  const WordPrint& b = earlier[at];
  if (a.word == b.word && a.shape == b.shape) return Looks::kWhitespace;
  if (is_text_after_all(a, b)) return Looks::kText;
  const WordShape shape = weight_of(a.shape) >= weight_of(b.shape) ? a.shape : b.shape;
  switch (shape) {
    case WordShape::kPunctuation:
    case WordShape::kText:
      return Looks::kText;
    case WordShape::kDate:
    case WordShape::kCalendar:
      return Looks::kDate;
    case WordShape::kTime:
    case WordShape::kUnixTime:
    case WordShape::kClock:
      return Looks::kTime;
    case WordShape::kId:
      return Looks::kId;
    case WordShape::kHash:
      return Looks::kHash;
    case WordShape::kNonce:
      return Looks::kNonce;
    case WordShape::kNumber:
      break;
  }
  if (has_near(now, at, WordShape::kCalendar)) return Looks::kDate;
  if (has_near(now, at, WordShape::kClock)) return Looks::kTime;
  return looks_of_number(a, b);
}

std::uint64_t bytes_of(Words words) {
  std::uint64_t bytes = 0;
  for (const WordPrint& word : words) bytes += word.length;
  return bytes;
}

bool is_same_word(const WordPrint& a, const WordPrint& b) { return a.digest == b.digest; }

/// Where two texts part.
struct TextDiff {
  std::uint64_t offset = 0;
  std::uint64_t common_end = 0;  // bytes that both have at their ends
  Looks looks = Looks::kText;
  bool extends = false;  // one is the beginning of the other
};
TextDiff text_diff(const PartRecord& now, const PartRecord& earlier) {
  const Words a(now.words);
  const Words b(earlier.words);
  const std::size_t most = std::min(a.size(), b.size());
  const auto part = std::ranges::mismatch(a, b, is_same_word);
  const auto at = static_cast<std::size_t>(part.in1 - a.begin());
  TextDiff diff{.offset = bytes_of(a.first(at))};
  if (at < most) diff.looks = looks_of(a, b, at);
  const std::uint32_t shorter = std::min(now.text_bytes, earlier.text_bytes);
  // The last word of the shorter one may go on behind it, with a space.
  const bool is_last = at + 1 == most && diff.looks == Looks::kWhitespace;
  if ((at == most || is_last) && shorter <= kPrintedBytes) {
    diff.extends = true;
    diff.looks = Looks::kText;
    diff.offset = shorter;
    return diff;
  }
  std::size_t end = 0;
  while (end < most - at && is_same_word(a[a.size() - 1 - end], b[b.size() - 1 - end])) ++end;
  if (now.text_bytes <= kPrintedBytes && earlier.text_bytes <= kPrintedBytes) {
    diff.common_end = bytes_of(a.last(end));
  }
  return diff;
}

class Comparing {
 public:
  Comparing(const PromptRecord& now, const PromptRecord& earlier)
      : now_(now.parts), earlier_(earlier.parts) {
    found_.total_bytes = now.bytes;
    const auto part = std::ranges::mismatch(
        now_, earlier_, [](const auto& a, const auto& b) { return a == b || is_same(*a, *b); });
    at_ = static_cast<std::size_t>(part.in1 - now_.begin());
    same_ = now_.first(at_);
    for (const auto& same : same_) found_.shared_bytes += same->bytes;
    now_ = now_.subspan(at_);
    earlier_ = earlier_.subspan(at_);
  }

  PromptDivergence run() && {
    if (now_.empty() || earlier_.empty()) return found_;
    const PartRecord& a = *now_.front();
    const PartRecord& b = *earlier_.front();
    a.place.kind == b.place.kind ? compare_parts(a, b) : compare_kinds(a, b);
    if (!found_.part.has_value()) return found_;
    if (found_.part->kind == PartKind::kSystem) count_tools();
    count_common();
    return found_;
  }

 private:
  void say(const PartRecord& part, PartChange change) {
    found_.part = part.place;
    found_.change = change;
  }

  /// What comes first in the order of a template is what the other one lacks.
  void compare_kinds(const PartRecord& a, const PartRecord& b) {
    a.place.kind < b.place.kind ? say(a, PartChange::kAdded) : say(b, PartChange::kRemoved);
  }

  void compare_parts(const PartRecord& a, const PartRecord& b) {
    switch (a.place.kind) {
      case PartKind::kModel:
        return say(a, PartChange::kChanged);
      case PartKind::kParameters:
        if (a.place.index == b.place.index) return say(a, PartChange::kChanged);
        return a.place.index < b.place.index ? say(a, PartChange::kAdded)
                                             : say(b, PartChange::kRemoved);
      case PartKind::kTools:
        return compare_tools(a, b);
      case PartKind::kSystem:
      case PartKind::kMessages:
      case PartKind::kPrompt:
        return compare_messages(a, b);
      case PartKind::kMedia:
        return compare_media(a, b);
    }
  }

  void compare_tools(const PartRecord& a, const PartRecord& b) {
    const bool a_was = has_part(earlier_, a);
    const bool b_is = has_part(now_, b);
    if (a_was && !b_is && !has_named(now_, b)) return say(b, PartChange::kRemoved);
    if (b_is && !a_was && !has_named(earlier_, a)) return say(a, PartChange::kAdded);
    if (!a_was && !b_is && a.name == b.name) return compare_text(a, b);
    const bool moved = has_named(earlier_, a) && has_named(now_, b);
    say(a, moved ? PartChange::kReordered : PartChange::kChanged);
  }

  void compare_messages(const PartRecord& a, const PartRecord& b) {
    if (has_part(earlier_, a)) return say(b, PartChange::kRemoved);
    if (has_part(now_, b)) return say(a, PartChange::kAdded);
    if (a.others == b.others && a.reasoning == b.reasoning && a.calls == b.calls &&
        a.media != b.media && a.text_bytes == b.text_bytes) {
      return compare_numbers_of_media(a, b);
    }
    if (a.text != b.text) return compare_text(a, b);
    found_.lost_bytes += a.text_bytes;
    say(a, PartChange::kChanged);
    if (a.others != b.others) return;
    if (a.calls == b.calls && a.reasoning == 0) found_.change = PartChange::kReasoningDropped;
    if (a.reasoning == b.reasoning && a.calls != b.calls &&
        a.canonical_calls == b.canonical_calls) {
      found_.change = PartChange::kToolCallRewritten;
      found_.lost_bytes += a.bytes - a.text_bytes;
    }
  }

  /// The message lost or gained a picture: it may be in another one now.
  void compare_numbers_of_media(const PartRecord& a, const PartRecord& b) {
    found_.lost_bytes += a.text_bytes;
    const Parts with = a.media > b.media ? now_ : earlier_;
    const Parts without = a.media > b.media ? earlier_ : now_;
    const auto is_media = [](const PartRecord& part) {
      return part.place.kind == PartKind::kMedia;
    };
    const auto item = std::ranges::find_if(with, [&](const auto& part) { return is_media(*part); });
    if (item == with.end()) return say(a, PartChange::kChanged);
    const PartChange change = a.media > b.media ? PartChange::kAdded : PartChange::kRemoved;
    say(**item, has_part(without, **item) ? PartChange::kReordered : change);
  }

  void compare_text(const PartRecord& a, const PartRecord& b) {
    const TextDiff diff = text_diff(a, b);
    const bool is_last = now_.size() == 1 || earlier_.size() == 1;
    found_.shared_bytes += std::min<std::uint64_t>(diff.offset, a.text_bytes);
    if (diff.extends && is_last) return;
    say(a, PartChange::kChanged);
    found_.offset = diff.offset;
    found_.looks = diff.looks;
    found_.lost_bytes += diff.common_end;
  }

  void compare_media(const PartRecord& a, const PartRecord& b) {
    found_.lost_bytes += kMediaBytes;
    if (has_part(earlier_, a) || has_part(now_, b)) return say(a, PartChange::kReordered);
    const bool has_both = a.has_content && b.has_content;
    if (a.name == b.name && a.has_content == b.has_content) {
      return say(a, a.options != b.options ? PartChange::kOptions : PartChange::kReaddressed);
    }
    const bool resized = has_both && (a.width != b.width || a.height != b.height);
    say(a, resized ? PartChange::kResized : PartChange::kChanged);
  }

  void count_tools() {
    for (const auto& same : same_) {
      if (same->place.kind == PartKind::kTools) found_.tools_bytes += same->bytes;
    }
  }

  /// Parts that both have behind the place where they part.
  void count_common() {
    const bool has_rest = now_.size() > 1 || earlier_.size() > 1;
    if (!has_rest && now_.front()->digest != earlier_.front()->digest) return limit_loss();
    std::vector<std::uint64_t> left;
    left.reserve(earlier_.size());
    for (const auto& part : earlier_) left.push_back(part->digest);
    std::ranges::sort(left);
    std::vector<const PartRecord*> parts;
    parts.reserve(now_.size());
    for (const auto& part : now_) parts.push_back(part.get());
    std::ranges::sort(parts, {}, &PartRecord::digest);
    auto next = left.begin();
    for (const PartRecord* const part : parts) {
      next = std::lower_bound(next, left.end(), part->digest);
      if (next == left.end()) break;
      if (*next != part->digest) continue;
      ++next;
      found_.lost_bytes += part->bytes;
    }
    limit_loss();
  }
  void limit_loss() {
    found_.lost_bytes = std::min(found_.lost_bytes, found_.total_bytes - found_.shared_bytes);
  }

  Parts same_;
  Parts now_;
  Parts earlier_;
  std::size_t at_ = 0;
  PromptDivergence found_;
};

}  // namespace

std::string_view to_string(PartChange change) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"changed", "added", "removed", "reordered", "options", "resized", "readdressed",
       "reasoning-dropped", "tool-call-rewritten"});
  static_assert(kNames.size() == kPartChanges);
  return kNames[static_cast<std::size_t>(change)];
}

std::string_view to_string(Looks looks) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"none", "date", "time", "counter", "id", "hash", "number", "nonce", "whitespace", "text"});
  static_assert(kNames.size() == afterimage::kLooks);
  return kNames[static_cast<std::size_t>(looks)];
}

PromptDivergence compare(const PromptRecord& now, const PromptRecord& earlier) {
  return Comparing(now, earlier).run();
}

}  // namespace afterimage
