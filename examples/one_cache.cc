// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
/// One encoder cache and nothing else, for a program that links afterimage::cache alone.
#include <cstddef>
#include <cstdio>
#include <vector>

#include "afterimage/encoder_cache.h"

using namespace afterimage;

namespace {

Result<void> run() {
  MemoryBudget budget(1_MiB);  // a hard cap
  AFI_TRY(const auto cache, EncoderCache::create({}, budget));
  AFI_TRY(const EncoderKey key, EncoderKey::from_hex(std::string(64, 'a')));  // of your own making
  if (!cache->find(key).has_value()) {
    const std::vector<std::byte> rows(std::size_t{256} * 64 * 4);  // what the encoder gave
    AFI_TRY(const TensorView view, TensorView::over(DType::kF32, Shape{256, 64}, rows));
    AFI_TRY(const Pin stored, cache->insert(key, {{view}}, {.modality = Modality::kImage}));
  }
  const auto found = cache->find(key);  // pinned while it lives
  if (!found.has_value()) return fail(ErrorCode::kNotFound, "the entry has gone");
  std::printf("%s, %llu bytes\n", to_string((*found)->tensors()[0].shape()).c_str(),
              static_cast<unsigned long long>((*found)->bytes().value()));
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (!done.has_value()) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return done.has_value() ? 0 : 1;
}
