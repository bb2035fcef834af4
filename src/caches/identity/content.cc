// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/identity.h"
#include "afterimage/result.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "foundation/types/request_work.h"

namespace afterimage {
namespace {

// The data follow the fields without a copy; their length is one of the fields.
DecodedDigest digest_of(const FieldWriter& fields, std::span<const std::byte> data) {
  Sha256 hash;
  hash.update(fields.message());
  hash.update(data);
  return DecodedDigest{hash.finish()};
}

}  // namespace

ContentDigest content_digest(const MediaItem& item) {
  AFI_CHECK(!item.files.empty());
  for (std::size_t i = 0; i < item.files.size(); ++i) RequestWork::add(request_work().media_hashes);
  if (item.files.size() == 1) return ContentDigest{sha256(*item.files.front())};
  FieldWriter fields("afterimage/frames/1");
  fields.number("frame_rate_mhz", item.frame_rate_mhz).number("frames", item.files.size());
  for (const FileBytes& file : item.files) fields.bytes("frame", sha256(*file));
  return ContentDigest{sha256(fields.message())};
}

DecodedDigest decoded_digest(const Pixels& pixels) {
  FieldWriter fields("afterimage/pixels/1");
  fields.number("width", pixels.width)
      .number("height", pixels.height)
      .text("format", pixels.format)
      .number("dtype", static_cast<std::uint64_t>(pixels.dtype))
      .bytes("palette", pixels.palette)
      .number("data", pixels.data.size());
  return digest_of(fields, pixels.data);
}

DecodedDigest decoded_digest(const AudioSamples& samples) {
  FieldWriter fields("afterimage/samples/1");
  fields.number("sample_rate_hz", samples.sample_rate_hz)
      .number("channels", samples.channels)
      .number("dtype", static_cast<std::uint64_t>(samples.dtype))
      .number("data", samples.data.size());
  return digest_of(fields, samples.data);
}

}  // namespace afterimage
