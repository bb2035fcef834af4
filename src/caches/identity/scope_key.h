// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/digest.h"

namespace afterimage {

/// Identifies everything besides the question's own words that changes an answer.
using ScopeKey = Digest<struct ScopeKeyTag>;

}  // namespace afterimage
