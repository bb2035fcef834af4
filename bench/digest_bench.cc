// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// How fast is the content digest compared with OpenSSL's own call on the same buffer?
#include <benchmark/benchmark.h>
#include <openssl/evp.h>

#include <array>
#include <vector>

#include "afterimage/identity.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

std::vector<std::byte> noise(std::size_t size) {
  Rng rng(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

void BM_ContentDigest(benchmark::State& state) {
  const MediaItem item{.files = {std::make_shared<const std::vector<std::byte>>(
                           noise(static_cast<std::size_t>(state.range(0))))}};
  for (auto _ : state) benchmark::DoNotOptimize(content_digest(item));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_OpenSslSha256(benchmark::State& state) {
  const auto bytes = noise(static_cast<std::size_t>(state.range(0)));
  EVP_MD* md = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  std::array<unsigned char, 32> digest{};
  for (auto _ : state) {
    EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, md, nullptr);
    benchmark::DoNotOptimize(digest);
  }
  EVP_MD_free(md);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_ContentDigest)->Arg(64 << 10)->Arg(256 << 10)->Arg(4 << 20);
BENCHMARK(BM_OpenSslSha256)->Arg(64 << 10)->Arg(256 << 10)->Arg(4 << 20);

}  // namespace
}  // namespace afterimage
