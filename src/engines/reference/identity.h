// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/media.h"
#include "afterimage/model.h"
#include "afterimage/reference_engine.h"
#include "engines/reference/kernel_table.h"

namespace afterimage {

/// All options that change what the model computes, and whether its kernels fuse.
ModelIdentity identity_of(const ReferenceOptions& options, const Kernels& kernels);

/// All options that change what reaches the encoder of that modality.
PreprocessRecipe recipe_of(Modality modality, const ReferenceOptions& options);

}  // namespace afterimage
