// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "fire/fire.h"

namespace afterimage::fire {

/// Parts of the row `forged`: forged server replies, and forged encrypted entries.
void forge_remote(Tally& tally);
void forge_encrypted(Tally& tally);

}  // namespace afterimage::fire
