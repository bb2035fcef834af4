// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Without libFuzzer: runs a fuzz target on every file of a corpus folder and on a number of
// mutations of them. The same seeds give the same mutations on every machine.
//
//   media_fuzz fuzz/corpus/media 2000
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "foundation/platform/files.h"
#include "foundation/platform/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace afterimage;
using Input = std::vector<std::byte>;

void run(const Input& input) {
  // A copy of the exact size, so that the sanitizer finds a read beyond the end.
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(exact.data()), exact.size());
}

Input mutate(Input input, Rng& rng) {
  for (std::uint64_t edits = 1 + rng.below(8); edits > 0 && !input.empty(); --edits) {
    const std::size_t at = rng.below(input.size());
    const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (rng.below(5)) {
      case 0:
        *here ^= std::byte{1} << static_cast<int>(rng.below(8));
        break;
      case 1:
        *here = static_cast<std::byte>(rng.below(256));
        break;
      case 2:
        *here = rng.chance(0.5) ? std::byte{0} : std::byte{0xFF};
        break;
      case 3:
        input.insert(here, static_cast<std::byte>(rng.below(256)));
        break;
      default:
        input.erase(here, rng.chance(0.9) ? here + 1 : input.end());
        break;
    }
  }
  return input;
}

Result<std::vector<Input>> read_corpus(const std::string& folder) {
  const SystemFiles files;
  AFI_TRY(const std::vector<std::string> names, files.list(folder));
  std::vector<Input> corpus;
  for (const std::string& name : names) {
    AFI_TRY(Input input, files.read(folder + "/" + name, 1_MiB));
    corpus.push_back(std::move(input));
  }
  if (corpus.empty()) return fail(ErrorCode::kNotFound, folder + ": the corpus folder is empty");
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER MUTATIONS\n", argv[0]);
    return 2;
  }
  const auto corpus = read_corpus(argv[1]);
  if (!corpus) {
    std::fprintf(stderr, "%s\n", to_string(corpus.error()).c_str());
    return 2;
  }
  const std::uint64_t mutations = std::strtoull(argv[2], nullptr, 10);
  for (const Input& input : *corpus) run(input);
  for (std::uint64_t seed = 1; seed <= mutations; ++seed) {
    Rng rng(seed);
    run(mutate((*corpus)[rng.below(corpus->size())], rng));
  }
  std::printf("%zu files and %llu mutations of them: no failures\n", corpus->size(),
              static_cast<unsigned long long>(mutations));
  return 0;
}
