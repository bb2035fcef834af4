// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <string>

#include "afterimage/kv.h"

namespace afterimage {
namespace {

/// The fault in groups[i], or nullptr.
const char* fault_of(const KvLayout& layout, std::size_t i) {
  const LayerGroup& group = layout.groups[i];
  if (group.layers == 0) return "has no layers";
  switch (group.kind) {
    case KvKind::kFull:
      return group.row_bytes.value() == 0 ? "has rows of zero bytes" : nullptr;
    case KvKind::kSliding:
      if (group.window.value() == 0) return "has no window";
      return group.row_bytes.value() == 0 ? "has rows of zero bytes" : nullptr;
    case KvKind::kRecurrent:
      return group.state_bytes.value() == 0 ? "has a state of zero bytes" : nullptr;
    case KvKind::kShared: {
      if (group.owner >= i) return "shares with a group that is not an earlier one";
      const KvKind owner = layout.groups[group.owner].kind;
      const bool has_rows = owner == KvKind::kFull || owner == KvKind::kSliding;
      return has_rows ? nullptr : "shares with a group that has no rows";
    }
  }
  return "has an unknown kind";
}

}  // namespace

std::string_view to_string(KvKind kind) {
  switch (kind) {
    case KvKind::kFull:
      return "full";
    case KvKind::kSliding:
      return "sliding";
    case KvKind::kShared:
      return "shared";
    case KvKind::kRecurrent:
      return "recurrent";
  }
  return "unknown";
}

Result<void> check_layout(const KvLayout& layout) {
  if (layout.groups.empty()) {
    return fail(ErrorCode::kInvalidArgument, "a KV layout needs at least one group");
  }
  if (layout.alignment.value() == 0) {
    return fail(ErrorCode::kInvalidArgument, "a KV layout's alignment must be at least 1 token");
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    if (const char* fault = fault_of(layout, i); fault != nullptr) {
      return fail(ErrorCode::kInvalidArgument, "group " + std::to_string(i) + " of a KV layout (" +
                                                   std::string(to_string(layout.groups[i].kind)) +
                                                   ") " + fault);
    }
  }
  return {};
}

}  // namespace afterimage
