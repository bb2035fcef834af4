// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <vector>

#include "afterimage/engine.h"
#include "afterimage/sequence.h"

namespace afterimage {

/// Places of M-RoPE, as in Qwen2-VL: text counts on along all axes together. An image's tokens share
/// the time at which it begins, and add row and column in its grid; the text after it goes on after
/// its longer side. Items without a grid (MediaSpan::columns) count like text.
///
/// Shape    One element a token, and one more: the place after the last.
std::vector<TokenPlace> mrope_places(const Sequence& prompt);

}  // namespace afterimage
