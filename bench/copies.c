// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Preloaded into a process: writes one line for each large copy and hash to the file $COPIES_TO: what was
// done, how many bytes, and the callers' addresses. bench/copies.py builds it and reads its lines.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kLeast = 1024, kFrames = 14 };

static int file = -1;
static __thread int is_writing;  // a line is made of copies, too

static void note(const char* what, size_t bytes) {
  if (bytes < kLeast || is_writing || file < 0) return;
  is_writing = 1;
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  char line[512];
  int at = snprintf(line, sizeof line, "%s %zu", what, bytes);
  for (int i = 2; i < count; ++i) at += snprintf(line + at, sizeof line - at, " %p", frames[i]);
  line[at++] = '\n';
  if (write(file, line, at) != at) abort();
  is_writing = 0;
}

__attribute__((constructor)) static void open_file(void) {
  const char* const path = getenv("COPIES_TO");
  if (path != NULL) file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
}

#define ORIGINAL(type, name)                                          \
  static type original = NULL;                                        \
  if (original == NULL) original = (type)dlsym(RTLD_NEXT, name)

typedef void* (*Copy)(void*, const void*, size_t);
void* memcpy(void* to, const void* from, size_t bytes) {
  ORIGINAL(Copy, "memcpy");
  note("copy", bytes);
  return original(to, from, bytes);
}
void* memmove(void* to, const void* from, size_t bytes) {
  ORIGINAL(Copy, "memmove");
  note("copy", bytes);
  return original(to, from, bytes);
}

typedef int (*Hash)(void*, const void*, size_t);
#define HASHES(name)                                       \
  int name(void* state, const void* from, size_t bytes) {  \
    ORIGINAL(Hash, #name);                                 \
    note("hash", bytes);                                   \
    return original(state, from, bytes);                   \
  }
HASHES(EVP_DigestUpdate)
HASHES(XXH3_64bits_update)
HASHES(XXH3_128bits_update)
