// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Preloaded into an engine's process: ends it between the writing of a file in a folder named "items" and its becoming visible,
// at the file of the number KILL_AT_RENAME. One file at a time, so that those before it are visible and no other is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rename(const char* from, const char* to) {
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  static int count = 0;
  const char* const number = getenv("KILL_AT_RENAME");
  int (*const original)(const char*, const char*) = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  const char* const name = strrchr(to, '/');
  const size_t folder = strlen("/items");
  if (number == NULL || name == NULL || name < to + folder || strncmp(name - folder, "/items", folder) != 0) return original(from, to);
  pthread_mutex_lock(&one_at_a_time);
  if (++count == atoi(number)) kill(getpid(), SIGKILL);
  const int result = original(from, to);
  pthread_mutex_unlock(&one_at_a_time);
  return result;
}
