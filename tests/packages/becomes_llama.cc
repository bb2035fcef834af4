// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What the program does first, for llama_program_test.py.
#include <cstdio>

#include "cli/llama_program.h"

int main(int /*argc*/, char** argv) {
  afterimage::become_llama_program(argv);
  std::puts("without llama.cpp");
}
