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

bool is_full(const LayerGroup& group) { return group.kind == KvKind::kFull; }

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

Result<void> check_slice(const std::string& name, const TensorView& slice, Bytes row) {
  const bool fits =
      slice.dtype() == DType::kU8 && slice.shape().rank() == 2 && slice.shape()[1] == row.value();
  if (fits) return {};
  return fail(ErrorCode::kCorruption, name + " has a slice " +
                                          std::string(to_string(slice.dtype())) +
                                          to_string(slice.shape()) + "; its rows are " +
                                          number(row.value()) + " bytes, u8");
}

Result<void> check_slices(const std::string& name, std::span<const TensorView> slices,
                          std::uint64_t rows, Bytes row) {
  std::uint64_t found = 0;
  for (const TensorView& slice : slices) {
    AFI_TRY_VOID(check_slice(name, slice, row));
    found += slice.shape()[0];
  }
  if (found == rows) return {};
  return fail(ErrorCode::kCorruption,
              name + " has " + number(found) + " rows; it must have " + number(rows));
}

Result<void> check_tensor(const std::string& name, const Tensor& tensor, std::uint64_t rows,
                          Bytes row) {
  if (rows == 0 && tensor.bytes.empty()) return {};
  const auto view = tensor.view();
  if (!view) return fail(ErrorCode::kCorruption, name + ": " + view.error().message);
  return check_slices(name, {&*view, 1}, rows, row);
}

Result<void> check_snapshot(const KvSnapshot& snapshot, TokenCount at, const KvLayout& layout) {
  const std::string what = "the engine's snapshot at " + number(at);
  if (snapshot.at != at || snapshot.groups.size() != layout.groups.size()) {
    return fail(ErrorCode::kCorruption, what + " is at " + number(snapshot.at) + " and has " +
                                            number(snapshot.groups.size()) +
                                            " groups; the layout has " +
                                            number(layout.groups.size()));
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const LayerGroup& group = layout.groups[i];
    const std::uint64_t rows = is_full(group) ? 0 : rows_at(group, at);
    AFI_TRY_VOID(
        check_tensor(what + ", " + name_of(layout, i), snapshot.groups[i], rows, row_size(group)));
  }
  return {};
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

Result<void> check_state(const KvState& state, const KvLayout& layout, const KvOrigin& origin,
                         const Sequence& prompt) {
  if (state.origin != origin) {
    return fail(ErrorCode::kInvalidArgument, "a state of origin " + state.origin.hex() +
                                                 "; this engine's origin is " + origin.hex());
  }
  if (state.covered.value() == 0 || state.covered.value() >= prompt.tokens.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "a state of " + number(state.covered) + " tokens for a prompt of " +
                    number(prompt.tokens.size()) +
                    "; at least one must be restored and one computed");
  }
  AFI_TRY_VOID(check_position("a state", state.covered, layout, prompt));
  if (state.groups.size() != layout.groups.size()) {
    return fail(ErrorCode::kCorruption, "a state of " + number(state.groups.size()) +
                                            " groups; this engine has " +
                                            number(layout.groups.size()));
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const LayerGroup& group = layout.groups[i];
    AFI_TRY_VOID(
        check_slices("a state of " + number(state.covered) + " tokens: " + name_of(layout, i),
                     state.groups[i], rows_at(group, state.covered), row_size(group)));
  }
  return {};
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

Result<void> check_capture(const KvCapture& capture, const KvWanted& wanted,
                           const KvLayout& layout) {
  const TokenCount to = resolved(wanted.rows_to, capture.covered, layout);
  const TokenCount from = std::min(wanted.rows_from, to);
  if (capture.rows_from != from || capture.rows_to != to || to > capture.covered ||
      capture.rows.size() != layout.groups.size() ||
      capture.snapshots.size() != wanted.snapshots.size()) {
    return fail(ErrorCode::kCorruption,
                "of " + number(capture.covered) + " covered tokens, the engine captured rows [" +
                    number(capture.rows_from) + ", " + number(capture.rows_to) + ") of " +
                    number(capture.rows.size()) + " groups and " +
                    number(capture.snapshots.size()) + " snapshots; requested were [" +
                    number(from) + ", " + number(to) + ") of " + number(layout.groups.size()) +
                    " and " + number(wanted.snapshots.size()));
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const std::uint64_t rows = is_full(layout.groups[i]) ? (to - from).value() : 0;
    AFI_TRY_VOID(check_tensor("the engine's rows of " + name_of(layout, i), capture.rows[i], rows,
                              row_size(layout.groups[i])));
  }
  for (std::size_t i = 0; i < wanted.snapshots.size(); ++i) {
    AFI_TRY_VOID(check_snapshot(capture.snapshots[i],
                                resolved(wanted.snapshots[i], capture.covered, layout), layout));
  }
  return {};
}

}  // namespace afterimage
