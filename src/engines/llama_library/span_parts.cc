// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/span_parts.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kMagic = 0x50494641;  // "AFIP"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kText = 0;
constexpr std::uint32_t kMedia = 1;
constexpr std::uint64_t kMostTokens = 1U << 24U;

void put(std::uint32_t value, std::vector<std::byte>& to) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}

class PartsReader {
 public:
  explicit PartsReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::optional<std::uint32_t> number() {
    const auto from = take(sizeof(std::uint32_t));
    if (!from.has_value()) return std::nullopt;
    std::uint32_t value = 0;
    std::memcpy(&value, from->data(), sizeof value);
    return value;
  }
  std::optional<std::span<const std::byte>> take(std::size_t count) {
    if (count > bytes_.size()) return std::nullopt;
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

std::optional<SpanPart> read_part(PartsReader& from) {
  const auto kind = from.number();
  const auto length = from.number();
  const auto size = from.number();
  if (!size.has_value() || *length == 0 || *length > kMostTokens) return std::nullopt;
  const auto bytes = from.take(*size);
  if (!bytes.has_value()) return std::nullopt;
  if (*kind == kMedia) {
    return SpanMedia{TokenCount(*length), std::vector<std::byte>(bytes->begin(), bytes->end())};
  }
  if (*kind != kText || *size != std::uint64_t{*length} * sizeof(TokenId)) return std::nullopt;
  SpanText tokens(*length);
  std::memcpy(tokens.data(), bytes->data(), bytes->size());
  return tokens;
}

std::optional<std::vector<SpanPart>> read_parts(PartsReader from) {
  if (from.number() != kMagic || from.number() != kVersion) return std::nullopt;
  std::vector<SpanPart> parts;
  while (!from.at_end()) {
    auto part = read_part(from);
    if (!part.has_value()) return std::nullopt;
    parts.push_back(*std::move(part));
  }
  if (parts.empty()) return std::nullopt;
  return parts;
}

}  // namespace

TokenCount length_of(const SpanPart& part) {
  if (const auto* media = std::get_if<SpanMedia>(&part)) return media->length;
  return TokenCount(static_cast<std::uint32_t>(std::get<SpanText>(part).size()));
}

TokenCount length_of(std::span<const SpanPart> parts) {
  TokenCount length{};
  for (const SpanPart& part : parts) length += length_of(part);
  return length;
}

Tensor to_tensor(std::span<const SpanPart> parts) {
  Tensor tensor{.dtype = DType::kU8, .shape = {}, .bytes = {}};
  put(kMagic, tensor.bytes);
  put(kVersion, tensor.bytes);
  for (const SpanPart& part : parts) {
    const auto* const media = std::get_if<SpanMedia>(&part);
    const std::span<const std::byte> bytes =
        media != nullptr ? std::span<const std::byte>(media->description)
                         : std::as_bytes(std::span(std::get<SpanText>(part)));
    put(media != nullptr ? kMedia : kText, tensor.bytes);
    put(length_of(part).value(), tensor.bytes);
    put(static_cast<std::uint32_t>(bytes.size()), tensor.bytes);
    tensor.bytes.insert(tensor.bytes.end(), bytes.begin(), bytes.end());
  }
  tensor.shape = {tensor.bytes.size()};
  return tensor;
}

Result<std::vector<SpanPart>> parts_of(const TensorView& tensor) {
  if (tensor.dtype() == DType::kU8 && tensor.shape().rank() == 1) {
    if (auto parts = read_parts(PartsReader(tensor.bytes()))) return *std::move(parts);
  }
  return fail(ErrorCode::kCorruption,
              "the span parts stored with an item's embeddings are invalid");
}

}  // namespace afterimage
