// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/tier.h"

namespace afterimage {

/// Tensors one after the other, each starting at a multiple of 64: their layout in a Tier. Refers
/// to the tensors' bytes.
struct PackedTensors {
  std::vector<TensorSpec> forms;
  std::vector<std::span<const std::byte>> pieces;
};
PackedTensors pack(std::span<const TensorView> tensors);

/// The tensors of an entry; valid while the entry lives. Padding after the last tensor may be
/// missing, so a single tensor can be put as it is. kCorruption: the tensor specs do not match the
/// size of the entry.
Result<TensorViews> unpack(const TierEntry& entry);

}  // namespace afterimage
