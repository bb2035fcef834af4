// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/seal/sealed_cell.h"

#include <vector>

#include "afterimage/seal/sealed_entry.h"

namespace afterimage {

Result<std::optional<SharedCell::Value>> SealedCell::read() {
  AFI_TRY(std::optional<Value> found, cell_.read());
  if (!found.has_value()) return std::nullopt;
  const std::vector<std::byte> sealed = std::exchange(found->bytes, {});
  std::vector<std::byte> opened(sealed.size() < kSealHeader ? 0 : sealed.size() - kSealHeader);
  const OpenedEntry entry = open_entry(keys_, place_, sealed, opened);
  if (entry.state == SealState::kOtherKey) {
    return fail(ErrorCode::kUnavailable,
                "what is shared was sealed under another key: add it to the list of keys");
  }
  if (entry.state == SealState::kOpened) {
    found->bytes.assign(opened.begin() + static_cast<std::ptrdiff_t>(entry.bytes_begin),
                        opened.end());
  }
  return found;
}

Result<bool> SealedCell::replace(const std::optional<std::string>& expected,
                                 std::span<const std::byte> next) {
  std::vector<std::byte> sealed(sealed_size({}, next.size()));
  AFI_TRY_VOID(seal_entry(keys_, place_, {}, next, sealed));
  return cell_.replace(expected, sealed);
}

}  // namespace afterimage
