// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// The error of a build without llama.cpp.
inline constexpr const char* kHowToGetLlama =
    "this program was built without llama.cpp: pip install 'afterimage[llama]' adds it, for "
    "processors with AVX2, FMA and F16C; in the source folder, scripts/build-llama.sh does, and a "
    "new build";

}  // namespace afterimage
