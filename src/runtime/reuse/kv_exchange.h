// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <vector>

#include "afterimage/engine.h"
#include "afterimage/kv_layout.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"

/// KV between the prefix cache and an engine: views in one's words as views in the other's. No
/// bytes move.
namespace afterimage {

/// What the cache found, as an engine restores it. kCorruption: less than the layout needs.
Result<KvState> state_of(const CachedKv& cached, const KvLayout& layout, const KvOrigin& origin);

/// What an engine handed out, as the cache takes it.
CapturedKv captured_of(const KvCapture& capture, Duration cost);

}  // namespace afterimage
