// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// Replaces this process with the program that was built with llama.cpp, if a package has installed it: beside this program (wheels,
/// archives) or in ../lib/afterimage (Debian). Returns if it is not there, or if the processor lacks instructions that llama.cpp was
/// compiled for.
///
/// The file's name ends with the version: one that an update left behind has another name, and is not run.
void become_llama_program(char** argv);

}  // namespace afterimage
