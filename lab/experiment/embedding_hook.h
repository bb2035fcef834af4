/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The Afterimage authors */
#pragma once

#include <stddef.h> /* NOLINT: this header is C's, too */

/* The interface of a shared library for --embedding-hook PATH.so:SYMBOL.
 *
 * SYMBOL is a function of the type below. Before the first sample it is called with NULL for sample
 * and vector and must return the number of floats of each layer, or 0 if it does not make the
 * layer. Then it is called for one sample and layer at a time, never concurrently. It writes that
 * many floats, a vector of any length but zero, and returns their number, or 0 if the sample has no
 * vector. It must not keep any pointer that it is passed. */
#ifdef __cplusplus
extern "C" {
#endif

/* A C name. NOLINTNEXTLINE(readability-identifier-naming) */
struct afterimage_hook_sample {
  const char* dataset_id;
  const char* image_id;
  const char* question;
  const char* prompt;
  const unsigned char* image; /* the file's bytes; NULL: no image */
  size_t image_size;
};

typedef size_t (*afterimage_embedding_hook)(const struct afterimage_hook_sample* sample,
                                            const char* layer, float* vector, size_t dimensions);

#ifdef __cplusplus
}
#endif
