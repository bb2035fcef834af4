// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/identity.h"
#include "afterimage/media.h"
#include "engines/reference/kernel_table.h"
#include "engines/reference/reference_engine.h"

namespace afterimage {

/// Includes every option that changes what the model computes, and whether its kernels fuse.
ModelIdentity identity_of(const ReferenceOptions& options, const Kernels& kernels);

/// Includes every option that changes the input of that modality's encoder.
PreprocessRecipe recipe_of(Modality modality, const ReferenceOptions& options);

}  // namespace afterimage
