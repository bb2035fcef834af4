// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Ogg files with one sound. A file's length is on its last page ("granule position"), less what the
// encoder says it put in front.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"
#include "foundation/media/sound_packets.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kNoTime = UINT64_MAX;               // no packet ends on the page
constexpr std::size_t kMaxPacket = std::size_t{16} << 20U;  // of tags with a picture

struct Page {
  std::uint32_t flags = 0;
  std::uint64_t time = kNoTime;
  std::uint32_t serial = 0;
  std::uint32_t number = 0;
  std::uint32_t checksum = 0;
  std::span<const std::byte> sizes;
  std::span<const std::byte> body;
  std::span<const std::byte> all;

  [[nodiscard]] bool continues() const { return (flags & 1U) != 0; }
  [[nodiscard]] bool is_first() const { return (flags & 2U) != 0; }
  [[nodiscard]] bool is_last() const { return (flags & 4U) != 0; }
};

/// nullopt: these are no page's bytes, or not all of them.
std::optional<Page> page_at(std::span<const std::byte> bytes) {
  ByteCursor cursor(bytes);
  Page page;
  const bool named = as_text(cursor.take(4)) == "OggS";
  const bool known = cursor.little(1) == 0;
  page.flags = cursor.little(1);
  page.time = cursor.little(4);
  page.time |= std::uint64_t{cursor.little(4)} << 32U;
  page.serial = cursor.little(4);
  page.number = cursor.little(4);
  page.checksum = cursor.little(4);
  page.sizes = cursor.take(cursor.little(1));
  std::size_t size = 0;
  for (const std::byte one : page.sizes) size += std::to_integer<std::size_t>(one);
  page.body = cursor.take(size);
  if (!named || !known || cursor.ended_early()) return std::nullopt;
  page.all = bytes.first(bytes.size() - cursor.rest().size());
  return page;
}

/// Four tables, for four bytes at a time.
using Tables = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t sum = i << 24U;
    for (int bit = 0; bit < 8; ++bit) sum = (sum << 1U) ^ ((sum >> 31U) * 0x04C11DB7U);
    tables[0][i] = sum;
  }
  for (std::size_t table = 1; table < 4; ++table) {
    for (std::uint32_t i = 0; i < 256; ++i) {
      const std::uint32_t before = tables[table - 1][i];
      tables[table][i] = (before << 8U) ^ tables[0][before >> 24U];
    }
  }
  return tables;
}

std::uint32_t checksum_of(std::span<const std::byte> bytes, std::uint32_t sum) {
  static constexpr Tables kTables = make_tables();
  while (bytes.size() >= 4) {
    ByteCursor cursor(bytes);
    sum ^= cursor.big(4);
    sum = kTables[3][sum >> 24U] ^ kTables[2][(sum >> 16U) & 255U] ^
          kTables[1][(sum >> 8U) & 255U] ^ kTables[0][sum & 255U];
    bytes = bytes.subspan(4);
  }
  for (const std::byte one : bytes) {
    sum = (sum << 8U) ^ kTables[0][(sum >> 24U) ^ std::to_integer<std::uint32_t>(one)];
  }
  return sum;
}

bool is_undamaged(const Page& page) {
  constexpr std::size_t kChecksumAt = 22;
  constexpr std::array<std::byte, 4> kZeros{};
  std::uint32_t sum = checksum_of(page.all.first(kChecksumAt), 0);
  sum = checksum_of(kZeros, sum);
  return checksum_of(page.all.subspan(kChecksumAt + 4), sum) == page.checksum;
}

/// The pages of the file's sound; those of other streams are skipped.
class Pages {
 public:
  explicit Pages(const MediaFile& file) : file_(&file), rest_(file.bytes) {}
  void choose(std::uint32_t serial) { serial_ = serial; }

  /// False: the file has ended, after the sound's last page.
  Result<bool> next(Page& page) {
    while (!rest_.empty()) {
      const auto found = page_at(rest_);
      if (!found.has_value()) {
        return corrupt(*file_, fmt::format("no whole Ogg page at byte {}",
                                           file_->bytes.size() - rest_.size()));
      }
      rest_ = rest_.subspan(found->all.size());
      if (serial_.has_value() && found->serial != *serial_) {
        if (found->is_first() && began_) {
          return unsupported(*file_, "an Ogg file of several sounds, one after the other");
        }
        continue;
      }
      if (serial_.has_value()) {
        if (ended_) return corrupt(*file_, "an Ogg page after the last one of its sound");
        if (found->number != number_++) return corrupt(*file_, "an Ogg page is missing");
        began_ = found->number > 0;
        ended_ = found->is_last();
      }
      page = *found;
      return true;
    }
    if (!ended_) return corrupt(*file_, "an Ogg file without its last page");
    return false;
  }

 private:
  const MediaFile* file_;
  std::span<const std::byte> rest_;
  std::optional<std::uint32_t> serial_;
  std::uint32_t number_ = 0;
  bool began_ = false;
  bool ended_ = false;
};

class OggPackets final : public SoundPackets {
 public:
  OggPackets(const MediaFile& file, std::uint32_t serial, bool whole)
      : file_(&file), pages_(file), whole_(whole) {
    pages_.choose(serial);
  }

  Result<bool> next(std::span<const std::byte>& packet) override {
    packet_.clear();
    for (bool within = false;;) {
      if (sizes_.empty()) {
        AFI_TRY(const bool more, turn());
        if (!more && within) return corrupt(*file_, "an Ogg packet without its end");
        if (!more) return false;
        if (page_.continues() != within) return corrupt(*file_, "an Ogg packet without its end");
        continue;
      }
      const auto size = std::to_integer<std::size_t>(sizes_.front());
      sizes_ = sizes_.subspan(1);
      const auto part = body_.first(size);
      body_ = body_.subspan(size);
      packet_.insert(packet_.end(), part.begin(), part.end());
      if (packet_.size() > kMaxPacket) return corrupt(*file_, "an Ogg packet of over 16 MiB");
      within = size == 255;
      if (!within) break;
    }
    packet = packet_;
    return true;
  }
  [[nodiscard]] const Page& page() const { return page_; }
  [[nodiscard]] bool at_page_end() const { return sizes_.empty(); }

 private:
  Result<bool> turn() {
    AFI_TRY(const bool more, pages_.next(page_));
    if (!more) return false;
    if (whole_ && !is_undamaged(page_)) {
      return corrupt(*file_, fmt::format("Ogg page {} is damaged", page_.number));
    }
    sizes_ = page_.sizes;
    body_ = page_.body;
    return true;
  }

  const MediaFile* file_;
  Pages pages_;
  bool whole_;
  Page page_;
  std::span<const std::byte> sizes_;
  std::span<const std::byte> body_;
  std::vector<std::byte> packet_;
};

std::optional<SoundCodec> codec_of(std::span<const std::byte> head) {
  const std::string_view text = as_text(head);
  if (text.starts_with("OpusHead") && text.size() >= 19) return SoundCodec::kOpus;
  if (text.starts_with(std::string_view("\x01vorbis", 7))) return SoundCodec::kVorbis;
  if (text.starts_with(std::string_view("\x7F"
                                        "FLAC\x01",
                                        6)) &&
      text.size() >= 51) {
    return SoundCodec::kFlac;
  }
  return std::nullopt;
}

/// Vorbis' three packets in one, as its decoder takes them.
Result<void> take_vorbis_setup(OggPackets& packets, const MediaFile& file, SoundStream& stream) {
  std::vector<std::byte> head = stream.setup;
  std::span<const std::byte> comment;
  AFI_TRY(const bool second, packets.next(comment));
  const std::vector<std::byte> kept(comment.begin(), comment.end());
  std::span<const std::byte> books;
  AFI_TRY(const bool third, packets.next(books));
  if (!second || !third) return corrupt(file, "a Vorbis sound without its setup");
  stream.setup = {std::byte{2}};
  for (const std::size_t size : {head.size(), kept.size()}) {
    stream.setup.insert(stream.setup.end(), size / 255, std::byte{255});
    stream.setup.push_back(static_cast<std::byte>(size % 255));
  }
  for (const auto& part :
       {std::span<const std::byte>(head), std::span<const std::byte>(kept), books}) {
    stream.setup.insert(stream.setup.end(), part.begin(), part.end());
  }
  return {};
}

/// The packets before the first one of sound.
Result<void> take_setup(OggPackets& packets, const MediaFile& file, SoundStream& stream) {
  std::span<const std::byte> packet;
  AFI_TRY(const bool any, packets.next(packet));
  if (!any) return corrupt(file, "an Ogg file without packets");
  stream.setup.assign(packet.begin(), packet.end());
  ByteCursor head(stream.setup);
  switch (stream.codec) {
    case SoundCodec::kVorbis:
      return take_vorbis_setup(packets, file, stream);
    case SoundCodec::kFlac: {
      head.take(7);
      std::uint32_t more = head.big(2);
      if (more == 0) return unsupported(file, "FLAC in Ogg without the number of its headers");
      for (; more > 0; --more) {
        AFI_TRY(const bool there, packets.next(packet));
        if (!there) return corrupt(file, "a FLAC sound without its headers");
      }
      stream.setup.erase(stream.setup.begin(), stream.setup.begin() + 17);  // STREAMINFO's 34 bytes
      stream.setup.resize(34);
      return {};
    }
    default: {
      head.take(10);
      stream.before = head.little(2);
      AFI_TRY(const bool tags, packets.next(packet));
      if (!tags || !as_text(packet).starts_with("OpusTags")) {
        return corrupt(file, "an Opus sound without its tags");
      }
      return {};
    }
  }
}

/// When the file begins: not at 0 if it was cut from a longer one.
Result<std::uint64_t> time_of_start(OggPackets& packets, SoundCodec codec) {
  std::uint64_t samples = 0;
  std::span<const std::byte> packet;
  for (;;) {
    AFI_TRY(const bool more, packets.next(packet));
    if (!more || codec != SoundCodec::kOpus) return 0;
    samples += opus_samples(packet);
    if (!packets.at_page_end()) continue;
    const Page& page = packets.page();
    if (page.is_last() || page.time == kNoTime || page.time < samples) return 0;
    return page.time - samples;
  }
}

/// The time on the last page that has one.
Result<std::uint64_t> time_of_end(const MediaFile& file, std::uint32_t serial) {
  Pages pages(file);
  pages.choose(serial);
  std::uint64_t time = 0;
  for (Page page;;) {
    AFI_TRY(const bool more, pages.next(page));
    if (!more) return time;
    if (page.time != kNoTime) time = page.time;
  }
}

}  // namespace

std::uint32_t opus_samples(std::span<const std::byte> packet) {
  if (packet.empty()) return 0;
  const auto head = std::to_integer<std::uint32_t>(packet[0]);
  const std::uint32_t kind = head >> 3U;
  const std::uint32_t each = kind < 12   ? std::array{480U, 960U, 1920U, 2880U}[kind % 4]
                             : kind < 16 ? std::array{480U, 960U}[kind % 2]
                                         : std::array{120U, 240U, 480U, 960U}[kind % 4];
  std::uint32_t frames = (head & 3U) == 0 ? 1 : 2;
  if ((head & 3U) == 3) {
    frames = packet.size() < 2 ? 0 : std::to_integer<std::uint32_t>(packet[1]) & 63U;
  }
  constexpr std::uint32_t kLongest = 5760;  // 120 ms
  return each * frames <= kLongest ? each * frames : 0;
}

Result<SoundStream> open_ogg(const MediaFile& file, bool whole) {
  SoundStream stream;
  std::optional<std::uint32_t> serial;
  Pages first(file);
  for (Page page; !serial.has_value();) {
    AFI_TRY(const bool more, first.next(page));
    if (!more || !page.is_first()) break;
    if (const auto codec = codec_of(page.body)) {
      serial = page.serial;
      stream.codec = *codec;
    }
  }
  if (!serial.has_value()) {
    return unsupported(file, "an Ogg file without a sound of Opus, Vorbis or FLAC");
  }
  AFI_TRY(const std::uint64_t end, time_of_end(file, *serial));
  OggPackets measured(file, *serial, false);
  AFI_TRY_VOID(take_setup(measured, file, stream));
  AFI_TRY(const std::uint64_t start, time_of_start(measured, stream.codec));
  if (end - start < stream.before || end < start) {
    return corrupt(file, "an Ogg file that ends before its sound begins");
  }
  stream.samples = end - start - stream.before;
  auto packets = std::make_unique<OggPackets>(file, *serial, whole);
  SoundStream again;
  again.codec = stream.codec;
  AFI_TRY_VOID(take_setup(*packets, file, again));
  stream.packets = std::move(packets);
  return stream;
}

}  // namespace afterimage
