// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give a header, a record, a footer or an error; decoded values survive a round trip.
#include <cstdint>
#include <span>

#include "afterimage/result.h"
#include "storage/disk/segment_format.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto record = decode_record_header(bytes)) {
    AFI_CHECK(decode_record_header(encode_record_header(*record)).value() == *record);
    AFI_CHECK(record_header_bytes(record->meta) + record->value_bytes <=
              std::uint64_t{record->blocks} * kDiskBlock);
  }
  static_cast<void>(decode_store(bytes));
  if (size < kDiskBlock) return 0;
  if (const auto header = decode_segment_header(bytes.first(kDiskBlock))) {
    AFI_CHECK(decode_segment_header(encode_segment_header(*header)).value() == *header);
  }
  if (const auto trailer = decode_trailer(bytes.last(kDiskBlock))) {
    const auto entries = decode_footer(*trailer, bytes.first(size - kDiskBlock));
    if (!entries) return 0;
    for (const FooterEntry& entry : *entries) AFI_CHECK(entry.block > 0 && entry.blocks > 0);
  }
  return 0;
}
