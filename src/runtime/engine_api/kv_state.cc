// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>

#include "afterimage/engine.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }
std::string number(TokenCount count) { return number(count.value()); }

std::string name_of(const KvLayout& layout, std::size_t group) {
  return "group " + number(group) + " (" + std::string(to_string(layout.groups[group].kind)) + ")";
}

// Resolves kEndOfRun to the last aligned position within `covered`.
TokenCount resolved(TokenCount position, TokenCount covered, const KvLayout& layout) {
  if (position != kEndOfRun) return position;
  return covered - TokenCount(covered.value() % layout.alignment.value());
}

/// `what` names the subject in the message: "a state" or "a snapshot".
Result<void> check_position(const std::string& what, TokenCount at, const KvLayout& layout,
                            const Sequence& prompt) {
  if (at.value() % layout.alignment.value() != 0) {
    return fail(ErrorCode::kInvalidArgument, what + " at " + number(at) +
                                                 "; this engine resumes only at multiples of " +
                                                 number(layout.alignment));
  }
  for (const MediaSpan& span : prompt.spans) {
    if (span.splittable || at <= span.offset || at >= span.end()) continue;
    return fail(ErrorCode::kInvalidArgument,
                what + " at " + number(at) + ", inside the unsplittable " +
                    std::string(to_string(span.modality)) + " [" + number(span.offset) + ", " +
                    number(span.end()) + ")");
  }
  return {};
}

std::unexpected<Error> corrupt(const std::string& what, const Error& error) {
  return fail(ErrorCode::kCorruption, what + ": " + error.message);
}

}  // namespace

KvOrigin kv_origin(const ModelIdentity& identity, const KvLayout& layout) {
  FieldWriter fields("afterimage/kv-origin/1");
  fields.text("model", identity.model)
      .text("weights_epoch", identity.weights_epoch)
      .text("encoder", identity.encoder)
      .text("adapter", identity.adapter)
      .text("chat_template", identity.chat_template)
      .number("kv_dtype", static_cast<std::uint64_t>(identity.kv_dtype))
      .number("alignment", layout.alignment.value())
      .number("groups", layout.groups.size());
  for (const LayerGroup& group : layout.groups) {
    fields.number("kind", static_cast<std::uint64_t>(group.kind))
        .number("layers", group.layers)
        .number("window", group.window.value())
        .number("owner", group.owner)
        .number("row_bytes", group.row_bytes.value())
        .number("state_bytes", group.state_bytes.value());
  }
  return KvOrigin{sha256(fields.message())};
}

std::uint64_t rows_at(const LayerGroup& group, TokenCount covered) {
  switch (group.kind) {
    case KvKind::kFull:
      return covered.value();
    case KvKind::kSliding:
      return std::min(covered, group.window).value();
    case KvKind::kRecurrent:
      return 1;
    case KvKind::kShared:
      break;
  }
  return 0;
}

Bytes row_size(const LayerGroup& group) {
  return group.kind == KvKind::kRecurrent ? group.state_bytes : group.row_bytes;
}

Result<void> check_resume(const KvSlice& slice, const KvLayout& layout, const KvOrigin& origin,
                          const Sequence& prompt) {
  if (slice.origin != origin) {
    return fail(ErrorCode::kInvalidArgument, "a state of origin " + slice.origin.hex() +
                                                 "; this engine's origin is " + origin.hex());
  }
  if (slice.end.value() == 0 || slice.end.value() >= prompt.tokens.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "a state of " + number(slice.end) + " tokens for a prompt of " +
                    number(prompt.tokens.size()) +
                    "; at least one must be restored and one computed");
  }
  AFI_TRY_VOID(check_position("a state", slice.end, layout, prompt));
  const std::string what = "a state of " + number(slice.end) + " tokens";
  if (slice.begin != TokenCount(0)) {
    return fail(ErrorCode::kCorruption, what + " begins at " + number(slice.begin));
  }
  if (auto checked = check_slice(slice, layout); !checked.has_value()) {
    return corrupt(what, checked.error());
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    std::uint64_t found = 0;
    for (const KvRows& rows : rows_to_restore(slice, layout, i)) found += rows.count.value();
    const std::uint64_t expected = rows_at(layout.groups[i], slice.end);
    if (found == expected) continue;
    return fail(ErrorCode::kCorruption, what + ": " + name_of(layout, i) + " has " + number(found) +
                                            " rows; it must have " + number(expected));
  }
  return {};
}

std::span<const KvRows> rows_to_restore(const KvSlice& slice, const KvLayout& layout,
                                        std::size_t group) {
  if (layout.groups[group].kind == KvKind::kFull) return slice.rows[group];
  if (slice.snapshots.empty() || slice.snapshots.back().at != slice.end) return {};
  return slice.snapshots.back().groups[group];
}

Result<void> check_wanted(const KvWanted& wanted, const KvLayout& layout, const Sequence& prompt,
                          TokenCount resumed_from) {
  const std::uint64_t length = prompt.tokens.size();
  const bool ends_in_prompt = wanted.rows_to == kEndOfRun || wanted.rows_to.value() <= length;
  if (wanted.rows_from.value() > length || wanted.rows_from > wanted.rows_to || !ends_in_prompt) {
    return fail(ErrorCode::kInvalidArgument, "rows [" + number(wanted.rows_from) + ", " +
                                                 number(wanted.rows_to) + ") of a prompt of " +
                                                 number(length));
  }
  TokenCount before{};
  for (const TokenCount at : wanted.snapshots) {
    const bool in_order = at > before && at >= resumed_from;
    if (!in_order || (at != kEndOfRun && at.value() > length)) {
      return fail(ErrorCode::kInvalidArgument, "a snapshot at " + number(at) + " after one at " +
                                                   number(before) + ", in a run from " +
                                                   number(resumed_from) + " to " + number(length));
    }
    if (at != kEndOfRun) AFI_TRY_VOID(check_position("a snapshot", at, layout, prompt));
    before = at;
  }
  return {};
}

bool within_prompt(const KvWanted& wanted) {
  const bool snapshot_at_end = !wanted.snapshots.empty() && wanted.snapshots.back() == kEndOfRun;
  return wanted.rows_to != kEndOfRun && !snapshot_at_end;
}

Result<void> check_capture(const KvSlice& capture, const KvWanted& wanted, TokenCount covered,
                           const KvLayout& layout) {
  const TokenCount to = resolved(wanted.rows_to, covered, layout);
  const TokenCount from = std::min(wanted.rows_from, to);
  if (capture.begin != from || capture.end != to || to > covered ||
      capture.snapshots.size() != wanted.snapshots.size()) {
    return fail(ErrorCode::kCorruption,
                "of " + number(covered) + " covered tokens, the engine captured rows [" +
                    number(capture.begin) + ", " + number(capture.end) + ") and " +
                    number(capture.snapshots.size()) + " snapshots; requested were [" +
                    number(from) + ", " + number(to) + ") and " + number(wanted.snapshots.size()));
  }
  for (std::size_t i = 0; i < wanted.snapshots.size(); ++i) {
    const TokenCount at = resolved(wanted.snapshots[i], covered, layout);
    if (capture.snapshots[i].at == at) continue;
    return fail(ErrorCode::kCorruption, "the engine's snapshot at " + number(at) + " is at " +
                                            number(capture.snapshots[i].at));
  }
  if (auto checked = check_slice(capture, layout); !checked.has_value()) {
    return corrupt("the engine's capture", checked.error());
  }
  return {};
}

}  // namespace afterimage
