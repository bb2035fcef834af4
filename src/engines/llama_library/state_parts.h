// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "afterimage/result.h"

/// A sequence's serialized state without a copy of it in one piece. The library serializes through
/// an interface that takes numbers and parts of tensors one after the other; here the parts of
/// tensors stay where the model computes with them.
namespace afterimage {

/// A serialized state, in order: `read` sees tensors in place, or on a device's copy in memory.
using StatePieces = std::span<const std::span<const std::byte>>;
using ReadState = std::function<Result<void>(StatePieces)>;

/// The next part of a state to restore: these bytes, or `rows` bytes that are not there yet.
struct StatePart {
  std::span<const std::byte> bytes;
  std::size_t rows = 0;
};
/// Where the rows belong, in order: for each part, places of its size together.
using StatePlaces = std::span<const std::span<std::byte>>;
using FillState = std::function<Result<void>(StatePlaces)>;

}  // namespace afterimage
