// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>

#include "afterimage/result.h"
#include "lab/datasets/image_roots.h"
#include "lab/experiment/layer_vectors.h"
#include "lab/experiment/spec.h"

namespace afterimage {

/// Vectors of the layers of a spec, made by a Python hook "package.module:Factory". Factory() gives
/// a function of a sample, a dict with dataset_id, image_id, question, prompt and image (the file's
/// bytes, or None); the function returns {layer: numbers}. A layer that it leaves out has no vector
/// of this sample. The hook runs in a process of its own: `python3` of the PATH, which finds modules
/// of the working directory; what it prints goes to stderr. `images` outlives the result.
///
/// Errors   kUnavailable: there is no python3, or the hook cannot be loaded; from of(): the hook
///          raised or ended. Python's own words are on stderr. kInvalidArgument, from of(): a
///          layer's vector has other dimensions.
Result<std::unique_ptr<LayerVectors>> python_vectors(const ExperimentSpec& spec,
                                                     const ImageRoots& images);

}  // namespace afterimage
