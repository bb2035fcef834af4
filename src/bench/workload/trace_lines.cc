// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/trace_lines.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10U;
constexpr std::size_t kMaxLine = std::size_t{16} << 20U;
constexpr std::size_t kMaxText = std::size_t{64} << 30U;

bool is_gzip(std::span<const std::byte> content) {
  return content.size() >= 2 && content[0] == std::byte{0x1F} && content[1] == std::byte{0x8B};
}

}  // namespace

struct TraceLines::Inflater {
  Inflater() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    AFI_CHECK(::inflateInit2(&stream, kGzipOnly) == Z_OK);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { ::inflateEnd(&stream); }

  /// Consumes `packed` and returns how many bytes of `space` it filled; nullopt if the data is
  /// damaged or ends early.
  std::optional<std::size_t> unpack(std::span<const std::byte>& packed, std::span<char> space) {
    if (member_ended) {
      if (!is_gzip(packed)) return std::nullopt;
      AFI_CHECK(::inflateReset(&stream) == Z_OK);
    }
    const std::size_t offered = std::min<std::size_t>(packed.size(), 1U << 30U);
    // zlib's input pointer is not const, but it does not write there.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = reinterpret_cast<Bytef*>(space.data());
    stream.avail_out = static_cast<uInt>(space.size());
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    packed = packed.subspan(offered - stream.avail_in);
    member_ended = status == Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END) return std::nullopt;  // Z_BUF_ERROR: no progress
    return space.size() - stream.avail_out;
  }

  z_stream stream{};
  bool member_ended = true;  // a gzip file may have several members
};

TraceLines::TraceLines(std::span<const std::byte> content) : rest_(content) {
  if (is_gzip(content)) inflater_ = std::make_unique<Inflater>();
}
TraceLines::TraceLines(TraceLines&&) noexcept = default;
TraceLines& TraceLines::operator=(TraceLines&&) noexcept = default;
TraceLines::~TraceLines() = default;

/// Unpacks the next piece into `text_`; false at the end.
Result<bool> TraceLines::more() {
  text_.erase(0, std::exchange(returned_, 0));
  const std::size_t before = text_.size();
  if (inflater_ == nullptr) {
    const auto piece = rest_.first(std::min(rest_.size(), kPiece));
    text_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    rest_ = rest_.subspan(piece.size());
  } else {
    text_.resize(before + kPiece);
    const std::span<char> space(text_.data() + before, kPiece);
    std::size_t filled = 0;
    while (filled < kPiece && !(rest_.empty() && inflater_->member_ended)) {
      const std::optional<std::size_t> got = inflater_->unpack(rest_, space.subspan(filled));
      if (!got) {
        return fail(ErrorCode::kCorruption,
                    fmt::format("the gzip data {} after line {}",
                                rest_.empty() ? "ends early" : "is damaged", number_));
      }
      filled += *got;
    }
    text_.resize(before + filled);
  }
  unpacked_ += text_.size() - before;
  if (unpacked_ > kMaxText) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("more than {} bytes of text, after line {}", kMaxText, number_));
  }
  return text_.size() > before;
}

Result<std::optional<std::string_view>> TraceLines::next() {
  for (std::size_t searched = returned_;;) {
    const std::size_t end = text_.find('\n', searched);
    const bool found = end != std::string::npos;
    if ((found ? end : text_.size()) - returned_ > kMaxLine) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("line {} is longer than {} bytes", number_ + 1, kMaxLine));
    }
    if (!found) {
      searched = text_.size() - returned_;
      AFI_TRY(const bool grew, more());
      if (grew) continue;
      if (text_.empty()) return std::nullopt;
    }
    const std::string_view line =
        std::string_view(text_).substr(returned_, found ? end - returned_ : std::string::npos);
    returned_ = found ? end + 1 : text_.size();
    ++number_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return line;
    searched = returned_;
  }
}

}  // namespace afterimage
