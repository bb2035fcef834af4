// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Any server bytes are values or an error. Writing a parsed value gives bytes that parse to it; a
// prefix of valid bytes is incomplete, not an error; slot tables, redirections, answers of Sentinels and
// manifests made of the same bytes are valid or an error; what INFO says is read from any text.
#include <algorithm>
#include <cstdint>

#include "afterimage/result.h"
#include "storage/redis/remote_address.h"
#include "storage/redis/resp.h"
#include "storage/redis/sentinels.h"
#include "storage/redis/server_info.h"
#include "storage/redis/slots.h"
#include "storage/remote/manifest.h"

namespace afterimage {
namespace {

void fuzz_value(std::string_view bytes) {
  const ServerInfo info = parse_server_info(bytes);
  AFI_CHECK(info.online <= info.replicas.size());
  const auto parsed = parse_resp(bytes);
  if (!parsed.has_value() || !parsed->has_value()) return;
  AFI_CHECK((*parsed)->size <= bytes.size());
  const auto again = parse_resp(to_resp((*parsed)->value));
  AFI_CHECK(again.has_value() && again->has_value() && (*again)->value == (*parsed)->value);
  for (std::size_t part = 0; part < std::min<std::size_t>((*parsed)->size, 64); ++part) {
    const auto begun = parse_resp(bytes.substr(0, part));
    AFI_CHECK(begun.has_value() && !begun->has_value());
  }
  const RespValue& value = (*parsed)->value;
  const auto primary = sentinel_answer(value, value);
  AFI_CHECK(!primary.has_value() || (is_host(primary->primary.host) && primary->primary.port != 0));
  if (value.items.size() > 1) static_cast<void>(sentinel_answer(value.items[0], value.items[1]));
  const auto ranges = slot_ranges((*parsed)->value, {.host = "asked", .port = 1});
  if (!ranges.has_value()) return;
  std::size_t slots = 0;
  for (const SlotRange& range : *ranges) slots += std::size_t{range.last} - range.first + 1;
  AFI_CHECK(slots <= kSlots);
}

void fuzz_manifest(std::span<const std::byte> bytes) {
  const auto labels = manifest_labels(bytes);
  AFI_CHECK(!labels.has_value() || labels->labels.has_value() == (labels->needed <= bytes.size()));
  const auto manifest = decode_manifest(bytes);
  if (!manifest.has_value()) return;
  AFI_CHECK(manifest_bytes(bytes).value() == bytes.size());
  AFI_CHECK(decode_manifest(encode_manifest(*manifest)) == *manifest);
}

}  // namespace
}  // namespace afterimage

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace afterimage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz_value(bytes);
  const auto key = key_of_manifest(bytes);
  AFI_CHECK(!key.has_value() || manifest_name(*key) == bytes);
  static_cast<void>(parse_redirection(bytes, {.host = "asked", .port = 1}));
  fuzz_manifest(std::as_bytes(std::span(data, size)));
  return 0;
}
