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

/// Tensors as one run of bytes, each beginning at a multiple of 64: how they lie in a Tier.
struct PackedTensors {
  std::vector<TensorSpec> forms;
  std::vector<std::byte> bytes;
};
PackedTensors pack(std::span<const TensorView> tensors);

/// The tensors of an entry; valid while the entry lives. What fills up the last of them may be
/// missing: one tensor may be put as it lies. kCorruption: its forms and its bytes do
/// not belong together.
Result<TensorViews> unpack(const TierEntry& entry);

}  // namespace afterimage
