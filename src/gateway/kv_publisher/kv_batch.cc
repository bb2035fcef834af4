// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/kv_publisher/kv_batch.h"

#include <bit>
#include <string_view>

#include "gateway/fleet/kv_events.h"

namespace afterimage {
namespace {

constexpr std::string_view kMedium = "CPU";  // where this process keeps KV
constexpr char kNil = '\xC0';

void put_big_endian(std::string& out, std::uint64_t value, unsigned width) {
  while (width-- > 0) out.push_back(static_cast<char>((value >> (8 * width)) & 0xFFU));
}

/// Of fewer than 16 elements.
void put_array(std::string& out, unsigned size) { out.push_back(static_cast<char>(0x90U | size)); }

void put_text(std::string& out, std::string_view text) {
  out.push_back('\xD9');
  put_big_endian(out, text.size(), 1);
  out.append(text);
}

void put_number(std::string& out, std::uint32_t value) {
  out.push_back('\xCE');
  put_big_endian(out, value, 4);
}

void put_key(std::string& out, const ChainKey& key) {
  out.push_back('\xC4');
  put_big_endian(out, key.bytes.size(), 1);
  out.append(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
}

}  // namespace

void KvBatch::cleared() {
  put_array(bytes_, 1);
  put_text(bytes_, "AllBlocksCleared");
  ++events_;
}

void KvBatch::stored(const HeldLink& link) {
  put_array(bytes_, 9);
  put_text(bytes_, "BlockStored");
  put_array(bytes_, 1);
  put_key(bytes_, link.key);
  if (link.parent.has_value()) {
    put_key(bytes_, *link.parent);
  } else {
    bytes_.push_back(kNil);
  }
  put_array(bytes_, 0);  // token_ids: the content is named by its key
  put_number(bytes_, link.tokens);
  bytes_.push_back(kNil);  // lora_id
  put_text(bytes_, kMedium);
  bytes_.push_back(kNil);  // lora_name
  put_array(bytes_, 1);    // extra_keys of the one block
  const bool is_media = link.media != ContentDigest();
  put_array(bytes_, is_media ? 2 : 1);
  put_text(bytes_, kContentMark);
  if (is_media) put_text(bytes_, link.media.hex());
  ++events_;
}

void KvBatch::removed(const ChainKey& key) {
  put_array(bytes_, 3);
  put_text(bytes_, "BlockRemoved");
  put_array(bytes_, 1);
  put_key(bytes_, key);
  put_text(bytes_, kMedium);
  ++events_;
}

std::string KvBatch::payload(double unix_seconds) const {
  std::string out;
  put_array(out, 2);
  out.push_back('\xCB');
  put_big_endian(out, std::bit_cast<std::uint64_t>(unix_seconds), 8);
  out.push_back('\xDD');
  put_big_endian(out, events_, 4);
  return out + bytes_;
}

}  // namespace afterimage
