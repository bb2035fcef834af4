// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/rotation.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

using Kind = RotaryFacts::Kind;

/// The axis that turns pair `pair`; nullopt: the one on which every token is at 0.
std::optional<std::uint8_t> axis_of(const RotaryFacts& facts, std::uint32_t pair) {
  if (facts.kind == Kind::kNeighbours || facts.kind == Kind::kHalves) return 0;
  const auto& sections = facts.sections;
  const std::uint32_t all = std::accumulate(sections.begin(), sections.end(), 0U);
  const std::uint32_t at = pair % all;
  if (facts.kind == Kind::kInterleaved) {
    const auto axis = static_cast<std::uint8_t>(at % 3);
    return at < 3 * sections.at(axis) ? std::optional(axis) : std::nullopt;
  }
  if (at < sections[0]) return 0;
  if (at < sections[0] + sections[1]) return 1;
  return at < sections[0] + sections[1] + sections[2] ? std::optional<std::uint8_t>(2)
                                                      : std::nullopt;
}

Result<void> check_facts(const RotaryFacts& facts) {
  if (!facts.unsupported.empty()) return fail(ErrorCode::kUnsupported, facts.unsupported);
  const bool has_sections = facts.kind == Kind::kSections || facts.kind == Kind::kInterleaved;
  const auto& sections = facts.sections;
  const std::uint64_t all = std::uint64_t{sections[0]} + sections[1] + sections[2] + sections[3];
  const bool fits = facts.turned >= 2 && facts.turned % 2 == 0 && facts.turned <= facts.head_size &&
                    facts.base > 0 && facts.scale > 0 &&
                    (!has_sections || (all > 0 && all <= facts.head_size));
  if (fits) return {};
  return fail(ErrorCode::kUnsupported,
              "its file does not describe its rotary embeddings: " + std::to_string(facts.turned) +
                  " of " + std::to_string(facts.head_size) + " numbers turn");
}

}  // namespace

Result<KeyRotation> rotation_of(const RotaryFacts& facts, const SequenceRows& rows) {
  AFI_TRY_VOID(check_facts(facts));
  AFI_TRY(SequenceRows::Keys keys, rows.keys(facts.head_size));
  const bool neighbours = facts.kind == Kind::kNeighbours;
  KeyRotation rotation{
      .dtype = keys.dtype,
      .pairs = neighbours ? KeyRotation::Pairs::kNeighbours : KeyRotation::Pairs::kHalves,
      .head_size = facts.head_size,
      .radians = {},
      .axes = {},
      .keys = std::move(keys.layers)};
  for (std::uint32_t i = 0; i < facts.turned / 2; ++i) {
    const double power = -2.0 * i / facts.turned;
    const auto axis = axis_of(facts, i);
    const double step = facts.scale * std::pow(static_cast<double>(facts.base), power);
    rotation.radians.push_back(axis.has_value() ? static_cast<float>(step) : 0.0F);
    rotation.axes.push_back(axis.value_or(0));
  }
  AFI_TRY_VOID(check_rotation(rotation, rows.layout()));
  return rotation;
}

TokenPlace place_in(const Sequence& prompt, TokenCount at) {
  std::int32_t next = 0;  // position
  TokenCount counted{};   // tokens before it
  const auto number = [](TokenCount count) { return static_cast<std::int32_t>(count.value()); };
  for (const MediaSpan& span : prompt.spans) {
    if (at < span.offset) break;
    next += number(span.offset - counted);
    if (at < span.end()) {
      const std::int32_t inside = number(at - span.offset);
      if (span.columns > 0) {
        const auto columns = static_cast<std::int32_t>(span.columns);
        return {next, next + inside / columns, next + inside % columns};
      }
      if (span.positions == 0) next += inside;
      return {next, next, next};
    }
    next += span.positions > 0 ? static_cast<std::int32_t>(span.positions) : number(span.length);
    counted = span.end();
  }
  next += number(at - counted);
  return {next, next, next};
}

}  // namespace afterimage
