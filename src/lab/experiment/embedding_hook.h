/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The Afterimage authors */
#pragma once

#include <stddef.h> /* NOLINT: this header is C's, too */

/* What a shared library offers so that --embedding-hook PATH.so:SYMBOL finds its vectors.
 *
 * SYMBOL names a function of the type below. Before the first sample it is asked, with no sample
 * and no vector, how many floats each layer has; 0: it makes no such layer. Then, a sample and
 * layer at a time and never two at once, it writes that many floats, of any length but zero, and
 * answers with their number; 0: this sample has none. It keeps no pointer that it was given. */
#ifdef __cplusplus
extern "C" {
#endif

struct afterimage_hook_sample {
  const char* dataset_id;
  const char* image_id;
  const char* question;
  const char* prompt;
  const unsigned char* image; /* the bytes of its file; NULL: there is none */
  size_t image_size;
};

typedef size_t (*afterimage_embedding_hook)(const struct afterimage_hook_sample* sample,
                                            const char* layer, float* vector, size_t dimensions);

#ifdef __cplusplus
}
#endif
