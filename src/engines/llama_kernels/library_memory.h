// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// Lets llama.cpp's CPU backend map its large buffers, and clear those of KV by asking the kernel for new pages,
/// huge ones where it has some, instead of writing zeros into small ones: of a gigabyte that is most of the time a
/// model needs to start. A thread brings all of them in the seconds after it: memory that is missing is missed then,
/// not when a conversation has grown.
///
/// Threads  Before the library allocates; again has no effect.
void use_fresh_pages();

}  // namespace afterimage
