// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "storage/disk/segment_format.h"

namespace afterimage::testing {

/// A falsified record header with a valid checksum: no read may accept it for the entry in the
/// index.
struct Forgery {
  const char* name;
  void (*change)(RecordHeader&);
};

inline constexpr Forgery kForgeries[] = {
    {"key, its first bit", [](RecordHeader& h) { h.key->bytes.front() ^= std::byte{1}; }},
    {"key, its last bit", [](RecordHeader& h) { h.key->bytes.back() ^= std::byte{0x80}; }},
    {"class", [](RecordHeader& h) { h.key->entry_class = EntryClass::kAnswer; }},
    {"epoch", [](RecordHeader& h) { h.epoch.back() ^= std::byte{1}; }},
    {"place", [](RecordHeader& h) { h.offset += kDiskBlock; }},
    {"sequence", [](RecordHeader& h) { ++h.sequence; }},
    {"blocks", [](RecordHeader& h) { ++h.blocks; }},
    {"length of the value", [](RecordHeader& h) { --h.value_bytes; }},
    {"checksum, low", [](RecordHeader& h) { h.value_checksum.low ^= 1U; }},
    {"checksum, high", [](RecordHeader& h) { h.value_checksum.high ^= 1U; }},
};

}  // namespace afterimage::testing
