// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "fire/fire.h"

namespace afterimage::fire {

/// Parts of the row `forged`: of servers' answers, and of what is sealed.
void forge_remote(Tally& tally);
void forge_encrypted(Tally& tally);

}  // namespace afterimage::fire
