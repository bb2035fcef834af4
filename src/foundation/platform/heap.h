// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// Asks the allocator to return free memory to the system. Without it the allocator retains freed
/// memory, and processes waiting for that memory do not get it.
///
/// Cost     A walk over the heap: milliseconds for gigabytes. Does nothing where the C library has
///          no such call.
/// Threads  Any.
void return_free_memory();

}  // namespace afterimage
