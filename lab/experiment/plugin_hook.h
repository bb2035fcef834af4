// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>

#include "lab/experiment/layer_vectors.h"

namespace afterimage {

/// Vectors made by a shared library: embedding_hook.h. It runs in this process and is fully
/// trusted.
///
/// Errors   kUnavailable: it cannot be loaded or lacks the symbol; kInvalidArgument: a layer has
///          other dimensions than the spec says.
Result<std::unique_ptr<LayerVectors>> plugin_vectors(const ExperimentSpec& spec,
                                                     const ImageRoots& images);

/// Scales what a hook made; false: its length is zero or not finite, and it is no vector.
[[nodiscard]] bool to_length_1(Vector& vector);

}  // namespace afterimage
