// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/key_rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "afterimage/engine.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMaxHeadSize = 1U << 16U;
constexpr std::uint32_t kMaxHeads = 1U << 16U;

std::size_t number_bytes(DType dtype) { return dtype == DType::kF16 ? 2 : 4; }

std::unexpected<Error> no_fit(const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, "a key rotation that does not fit the KV: " + what);
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero, or a number below the smallest normal one
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

/// To the nearest, ties to even, as processors do.
std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);  // not a number
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    const float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(scaled)));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23U)) >> 13U));
}

float number_at(DType dtype, const std::byte* from) {
  if (dtype == DType::kF16) {
    std::uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    return half_to_float(half);
  }
  float number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

void put_number(DType dtype, float number, std::byte* to) {
  if (dtype == DType::kF16) {
    const std::uint16_t half = float_to_half(number);
    std::memcpy(to, &half, sizeof half);
    return;
  }
  std::memcpy(to, &number, sizeof number);
}

Result<void> check_groups(const KvLayout& layout) {
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const KvKind kind = layout.groups[i].kind;
    if (kind == KvKind::kFull || kind == KvKind::kShared) continue;
    return fail(ErrorCode::kUnsupported, "KV of media cannot be used at other positions: group " +
                                             std::to_string(i) + " of the model's layers is " +
                                             std::string(to_string(kind)));
  }
  return {};
}

}  // namespace

Result<void> check_rotation(const KeyRotation& rotation, const KvLayout& layout) {
  AFI_TRY_VOID(check_groups(layout));
  if (rotation.dtype != DType::kF32 && rotation.dtype != DType::kF16) {
    return fail(ErrorCode::kUnsupported, "keys of type " + std::string(to_string(rotation.dtype)) +
                                             " cannot be turned; f32 and f16 can");
  }
  const std::size_t pairs = rotation.radians.size();
  const bool has_pairs = pairs > 0 && rotation.head_size <= kMaxHeadSize &&
                         2 * pairs <= rotation.head_size && rotation.axes.size() == pairs;
  if (!has_pairs) {
    return no_fit(std::to_string(pairs) + " pairs on " + std::to_string(rotation.axes.size()) +
                  " axes in heads of " + std::to_string(rotation.head_size));
  }
  if (std::ranges::any_of(rotation.axes, [](std::uint8_t axis) { return axis > 2; })) {
    return no_fit("an axis that is none of 0, 1 and 2");
  }
  if (rotation.keys.empty()) return no_fit("no keys");
  for (const KeyRotation::Keys& keys : rotation.keys) {
    const std::uint64_t size =
        std::uint64_t{keys.heads} * rotation.head_size * number_bytes(rotation.dtype);
    const bool fits = keys.group < layout.groups.size() && keys.heads > 0 &&
                      keys.heads <= kMaxHeads && layout.groups[keys.group].kind == KvKind::kFull &&
                      keys.at <= layout.groups[keys.group].row_bytes.value() &&
                      size <= layout.groups[keys.group].row_bytes.value() - keys.at;
    if (!fits) {
      return no_fit(std::to_string(keys.heads) + " heads at byte " + std::to_string(keys.at) +
                    " of group " + std::to_string(keys.group));
    }
  }
  return {};
}

void rotate_keys(const KeyRotation& rotation, std::size_t group, const TokenPlace& steps,
                 std::span<std::byte> row) {
  const std::size_t pairs = rotation.radians.size();
  const std::size_t size = number_bytes(rotation.dtype);
  const bool halves = rotation.pairs == KeyRotation::Pairs::kHalves;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(steps[rotation.axes[i]]) * rotation.radians[i];
    const auto sine = static_cast<float>(std::sin(angle));
    const auto cosine = static_cast<float>(std::cos(angle));
    const std::size_t first = (halves ? i : 2 * i) * size;
    const std::size_t second = (halves ? i + pairs : 2 * i + 1) * size;
    for (const KeyRotation::Keys& keys : rotation.keys) {
      if (keys.group != group) continue;
      for (std::size_t head = 0; head < keys.heads; ++head) {
        std::byte* const at = row.data() + keys.at + head * rotation.head_size * size;
        const float low = number_at(rotation.dtype, at + first);
        const float high = number_at(rotation.dtype, at + second);
        put_number(rotation.dtype, low * cosine - high * sine, at + first);
        put_number(rotation.dtype, low * sine + high * cosine, at + second);
      }
    }
  }
}

double key_difference(const KeyRotation& rotation, std::size_t index, std::span<const std::byte> a,
                      std::span<const std::byte> b) {
  const KeyRotation::Keys& keys = rotation.keys.at(index);
  const std::size_t size = number_bytes(rotation.dtype);
  double difference = 0;
  double length = 0;
  for (std::size_t i = 0; i < std::size_t{keys.heads} * rotation.head_size; ++i) {
    const double own = number_at(rotation.dtype, a.data() + keys.at + i * size);
    const double other = number_at(rotation.dtype, b.data() + keys.at + i * size);
    difference += (own - other) * (own - other);
    length += other * other;
  }
  return length > 0 ? std::sqrt(difference / length) : 0;
}

TokenPlace Engine::place_of(const Sequence& /*prompt*/, TokenCount at) const {
  const auto index = static_cast<std::int32_t>(at.value());
  return {index, index, index};
}

std::vector<std::vector<KvRows>> rows_of(const MediaSpan& span, const KvSlice& slice) {
  std::vector<std::vector<KvRows>> groups;
  for (const std::vector<KvRows>& pieces : slice.rows) {
    groups.push_back(rows_between(pieces, span.offset, span.end()));
    for (KvRows& rows : groups.back()) rows.first = rows.first - span.offset;
  }
  return groups;
}

TokenCount first_moved(const Sequence& prompt, std::span<const MovedMedia> moved) {
  if (moved.empty()) return TokenCount(static_cast<std::uint32_t>(prompt.tokens.size()));
  return prompt.spans.at(moved.front().span).offset + moved.front().recomputed;
}

namespace {

Result<void> check_item(const MovedMedia& item, const KvLayout& layout, const MediaSpan& span) {
  const std::string what = "the moved media item at token " + std::to_string(span.offset.value());
  if (item.recomputed >= span.length) {
    return fail(ErrorCode::kInvalidArgument, what + " has " + std::to_string(span.length.value()) +
                                                 " tokens, and all of them would be computed");
  }
  if (item.rows.size() != layout.groups.size()) {
    return fail(ErrorCode::kInvalidArgument, what + " has rows of another layout");
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    TokenCount next{};
    for (const KvRows& rows : item.rows[i]) {
      const std::uint64_t size = rows.count.value() * layout.groups[i].row_bytes.value();
      if (rows.first != next || rows.bytes.size() != size) {
        return fail(ErrorCode::kInvalidArgument, what + " has rows in disorder");
      }
      next += rows.count;
    }
    const bool has_rows = layout.groups[i].kind == KvKind::kFull;
    if (next == (has_rows ? span.length : TokenCount(0))) continue;
    return fail(ErrorCode::kInvalidArgument, what + " has " + std::to_string(next.value()) +
                                                 " rows for " +
                                                 std::to_string(span.length.value()) + " tokens");
  }
  return {};
}

}  // namespace

Result<void> check_moved(const KvUse& use, const KvLayout& layout, const Sequence& prompt,
                         TokenCount resumed_from) {
  if (use.moved.empty()) return {};
  std::size_t next = 0;
  for (const MovedMedia& item : use.moved) {
    const bool known = item.span >= next && item.span < prompt.spans.size();
    if (!known || prompt.spans[item.span].offset + item.recomputed < resumed_from ||
        prompt.spans[item.span].end().value() >= prompt.tokens.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "moved media item " + std::to_string(item.span) +
                      " is out of order, before the resume point, not in the prompt or its end");
    }
    AFI_TRY_VOID(check_item(item, layout, prompt.spans[item.span]));
    next = item.span + 1;
  }
  const TokenCount exact = first_moved(prompt, use.moved);
  const bool after =
      use.wanted.rows_to > exact || use.on_end != nullptr ||
      std::ranges::any_of(use.wanted.snapshots, [&](TokenCount at) { return at > exact; });
  if (!after) return {};
  return fail(ErrorCode::kInvalidArgument, "a run with moved KV from token " +
                                               std::to_string(exact.value()) +
                                               " on captures later tokens, which are not exact");
}

}  // namespace afterimage
