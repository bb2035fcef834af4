// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Untrusted encrypted entries and key files: without the key no bytes decrypt, and an encrypted
// entry decrypts to its content until a byte of it is changed.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "storage/encryption/encrypted_entry.h"

using namespace afterimage;

namespace {

TierKey key_of(std::uint8_t n) {
  TierKey key{.entry_class = static_cast<EntryClass>(1 + n % 4)};
  key.bytes.fill(static_cast<std::byte>(n));
  return key;
}

DecryptedEntry open(const EncryptionKeys& keys, const TierKey& key,
                    std::span<const std::byte> sealed, std::vector<std::byte>& into) {
  into.assign(sealed.size() < kEncryptionHeader ? 0 : sealed.size() - kEncryptionHeader,
              std::byte{0});
  return decrypt_entry(keys, key, sealed, into);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const EncryptionKeys kKeys = EncryptionKeys::parse(std::string(64, 'a'), "fuzz").value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto keys = EncryptionKeys::parse(text, "fuzz"); !keys.has_value()) {
    AFI_CHECK(!keys.error().message.empty() && keys.error().message.size() < 200);
  }
  const auto given = std::as_bytes(std::span(data, size));
  std::vector<std::byte> into;
  AFI_CHECK(open(kKeys, key_of(1), given, into).state != DecryptStatus::kOpened);

  testing::FuzzInput input(data, size);
  const TierKey key = key_of(input.u8());
  EntryMeta meta{.cost = Duration(static_cast<std::int64_t>(input.u64()))};
  for (std::uint8_t left = input.u8() % 4; left > 0; --left) {
    const auto dtype = static_cast<DType>(1 + input.u8() % 9);
    meta.tensors.push_back({.dtype = dtype, .shape = Shape{input.u64(), input.u8()}});
  }
  const std::uint32_t where = input.u32();
  const auto flip = static_cast<std::byte>(1 + input.u8() % 255);
  const std::string_view content = input.rest();
  const auto bytes = std::as_bytes(std::span(content));
  std::vector<std::byte> sealed(encrypted_size(meta, bytes.size()));
  AFI_CHECK(encrypt_entry(kKeys, key, meta, bytes, sealed).has_value());
  const DecryptedEntry opened = open(kKeys, key, sealed, into);
  AFI_CHECK(opened.state == DecryptStatus::kOpened && opened.meta == meta);
  AFI_CHECK(std::ranges::equal(std::span(into).subspan(opened.bytes_begin), bytes));
  sealed[where % sealed.size()] ^= flip;
  AFI_CHECK(open(kKeys, key, sealed, into).state != DecryptStatus::kOpened);
  return 0;
}
