// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Two texts, split at the first NUL: vetoes do not depend on their order, there is none for two
// equal texts, and their vectors are comparable.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "caches/language/same_answer.h"
#include "caches/language/vetoes.h"
#include "caches/similarity/hashed_ngrams.h"
#include "caches/similarity/vector_index.h"
#include "fuzz_input.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  const std::string a(input.until('\0'));
  const std::string b(input.rest());
  AFI_CHECK(vetoes(a, b) == vetoes(b, a));
  AFI_CHECK(vetoes(a, a).empty());
  AFI_CHECK(same_answer(a, b) == same_answer(b, a));
  AFI_CHECK(same_answer(a, a) == SameAnswer::kSame);

  static HashedNgrams embedder = HashedNgrams::create(64).value();
  const std::array<EmbedInput, 2> both{EmbedInput{std::string_view(a)},
                                       EmbedInput{std::string_view(b)}};
  const auto vectors = embedder.embed(both);
  if (!vectors.has_value()) return 0;
  AFI_CHECK(vectors->size() == 2);
  for (const Vector& vector : *vectors) {
    if (!vector.empty()) AFI_CHECK(check_vector(vector, 64).has_value());
  }
  return 0;
}
