// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
/// Encode once in forty lines: a slow encoder, requested three times for two images.
#include <chrono>
#include <cstdio>
#include <memory>

#include "afterimage/encode_once.h"
#include "afterimage/identity.h"

using namespace afterimage;

namespace {

MediaItem picture(std::vector<std::byte> bytes) {
  return {.modality = Modality::kImage,
          .files = {std::make_shared<const std::vector<std::byte>>(std::move(bytes))}};
}

/// Stands in for a vision tower: [256, 64] floats.
Result<EncoderOutput> encode() {
  std::puts("encoding");
  return EncoderOutput{{.dtype = DType::kF32,
                        .shape = Shape{256, 64},
                        .bytes = std::vector<std::byte>(std::size_t{256} * 64 * 4)}};
}

Result<void> run() {
  const SystemClock clock;
  MemoryBudget budget(64_MiB);
  AFI_TRY(const auto cache, EncoderCache::create({}, budget));
  EncodeOnce front(*cache, clock);
  AFI_TRY(const Namespace space,
          Namespace::of({.model = "my-vlm", .weights_epoch = "1", .encoder = "my-vit"},
                        TenantId("acme"), Secret{}));
  for (const unsigned shade : {0U, 255U, 0U}) {
    const MediaItem item = picture(std::vector<std::byte>(1000, std::byte(shade)));
    const EncoderKey key =
        space.encoder_key(item, content_digest(item), {.processor = "resize-224"});
    AFI_TRY(const Embeddings found, front.get_or_encode(key, item.modality, encode));
    std::printf("picture %u: %s\n", shade, to_string(found.tensors()[0].shape()).c_str());
  }
  std::printf("encoded %llu times, used %llu bytes\n",
              static_cast<unsigned long long>(front.stats().led),
              static_cast<unsigned long long>(budget.used().value()));
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (!done.has_value()) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return done.has_value() ? 0 : 1;
}
