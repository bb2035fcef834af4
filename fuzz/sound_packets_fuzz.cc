// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Any bytes are packets of a sound, which lie in the file, or an error. Without checksums and decoders, so
// that all of it is reached.
#include <cstddef>
#include <cstdint>
#include <span>

#include "afterimage/result.h"
#include "foundation/media/sound_packets.h"

namespace {

using namespace afterimage;

void read_all(const MediaFile& file, SoundStream stream) {
  std::size_t bytes = 0;
  for (std::span<const std::byte> packet;;) {
    const auto more = stream.packets->next(packet);
    if (!more.has_value() || !*more) break;
    bytes += packet.size();
    AFI_CHECK(opus_samples(packet) <= 5760);
    AFI_CHECK(flac_samples(packet) <= 65'536);
  }
  AFI_CHECK(bytes <= file.bytes.size());
}

}  // namespace

/// The first byte selects the reader.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 13) return 0;
  const MediaFile file{.bytes = std::as_bytes(std::span(data, size)).subspan(1), .name = "fuzz"};
  switch (data[0] % 4) {
    case 0:
      if (auto stream = open_ogg(file, false)) read_all(file, *std::move(stream));
      break;
    case 1:
      if (auto stream = open_amr(file)) read_all(file, *std::move(stream));
      break;
    case 2:
      if (auto stream = open_adts(file)) read_all(file, *std::move(stream));
      break;
    default:
      if (const auto edit = edit_of_sound(file.bytes); edit.has_value() && edit->is_simple) {
        AFI_CHECK(edit->movie_unit != 0 && edit->track_unit != 0);
      }
      if (const auto samples = flac_length(file, file.bytes)) {
        AFI_CHECK(*samples <= 65'536 * file.bytes.size());
      }
  }
  (void)is_adts(file.bytes);
  return 0;
}
