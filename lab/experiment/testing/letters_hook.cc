// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// A hook as a stranger would write it: the layer "letters" counts letters of the question, and
// "silent" has no vector for anybody.
#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lab/experiment/embedding_hook.h"

extern "C" std::size_t letters(const afterimage_hook_sample* sample, const char* layer,
                               float* vector, std::size_t dimensions) {
  constexpr std::size_t kLetters = 26;
  if (std::string_view(layer) == "silent") return sample == nullptr ? 1 : 0;
  if (std::string_view(layer) != "letters") return 0;
  if (sample == nullptr) return kLetters;
  if (dimensions != kLetters) return 0;
  std::fill_n(vector, kLetters, 0.0F);
  for (const char c : std::string_view(sample->question)) {
    if (c >= 'a' && c <= 'z') vector[c - 'a'] += 1.0F;
  }
  return kLetters;
}
