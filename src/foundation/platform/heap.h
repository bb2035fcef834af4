// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// Asks the allocator to hand the memory that nobody uses back to the system: what was freed is
/// otherwise kept for later, and those who wait for it wait in vain.
///
/// Cost     A walk over the heap, milliseconds for gigabytes. Nothing to do where the C library
///          offers no way.
/// Threads  Any.
void return_free_memory();

}  // namespace afterimage
