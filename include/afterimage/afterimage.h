// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

/// The whole public API. Every header is a manual page, and can be included alone.
///
///   #include <afterimage/afterimage.h>
///   using namespace afterimage;
///
///   MyEngine engine;                                          // implements Engine
///   auto reuse = Reuse::create({.budget = 4_GiB}).value();    // caches, and one budget for all
///   auto served = serve(request, engine, *reuse).value();     // computes only what is missing

// Serve requests with reuse.
#include "afterimage/engine.h"       // IWYU pragma: export
#include "afterimage/reuse.h"        // IWYU pragma: export
#include "afterimage/reuse_stats.h"  // IWYU pragma: export
#include "afterimage/serve.h"        // IWYU pragma: export

// Requests, media and tensors.
#include "afterimage/ids.h"       // IWYU pragma: export
#include "afterimage/kv.h"        // IWYU pragma: export
#include "afterimage/media.h"     // IWYU pragma: export
#include "afterimage/request.h"   // IWYU pragma: export
#include "afterimage/sequence.h"  // IWYU pragma: export
#include "afterimage/tensor.h"    // IWYU pragma: export

// Use one cache alone.
#include "afterimage/answer.h"         // IWYU pragma: export
#include "afterimage/answer_cache.h"   // IWYU pragma: export
#include "afterimage/answer_once.h"    // IWYU pragma: export
#include "afterimage/context_cache.h"  // IWYU pragma: export
#include "afterimage/encode_once.h"    // IWYU pragma: export
#include "afterimage/encoder_cache.h"  // IWYU pragma: export
#include "afterimage/prefill_once.h"   // IWYU pragma: export
#include "afterimage/prefix_cache.h"   // IWYU pragma: export
#include "afterimage/question.h"       // IWYU pragma: export

// Identify content.
#include "afterimage/digest.h"    // IWYU pragma: export
#include "afterimage/identity.h"  // IWYU pragma: export
#include "afterimage/secret.h"    // IWYU pragma: export

// Keep entries in host memory, on disk and on shared servers.
#include "afterimage/disk_tier.h"       // IWYU pragma: export
#include "afterimage/encrypted_tier.h"  // IWYU pragma: export
#include "afterimage/shared_store.h"    // IWYU pragma: export
#include "afterimage/tier.h"            // IWYU pragma: export

// Budgets, eviction and memory pressure.
#include "afterimage/eviction_policy.h"  // IWYU pragma: export
#include "afterimage/memory_budget.h"    // IWYU pragma: export
#include "afterimage/pressure.h"         // IWYU pragma: export

// Errors, units and time.
#include "afterimage/clock.h"   // IWYU pragma: export
#include "afterimage/result.h"  // IWYU pragma: export
#include "afterimage/units.h"   // IWYU pragma: export
