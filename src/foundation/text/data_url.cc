// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/data_url.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "foundation/text/ascii.h"
#include "foundation/text/base64_avx2.h"
#include "foundation/text/percent.h"
#include "foundation/types/request_work.h"

namespace afterimage {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint32_t kNoDigit = 0x8000'0000U;

/// The bits that a digit adds to the three bytes of its group, for each of its four positions.
/// Invalid characters set the highest bit, which no digit uses, so one test at the end finds them.
constexpr auto kDigits = [] {
  std::array<std::array<std::uint32_t, 256>, 4> digits{};
  for (auto& place : digits) place.fill(kNoDigit);
  for (std::uint32_t value = 0; value < 64; ++value) {
    for (std::uint32_t place = 0; place < 4; ++place) {
      digits[place][static_cast<unsigned char>(kAlphabet[value])] = value << (18 - 6 * place);
    }
  }
  return digits;
}();

std::uint32_t group_of(const char* four) {
  const auto digit = [&](std::size_t place) {
    return kDigits[place][static_cast<unsigned char>(four[place])];
  };
  return digit(0) | digit(1) | digit(2) | digit(3);
}

void store_group(std::byte* out, std::uint32_t group) {
  out[0] = static_cast<std::byte>(group >> 16U);
  out[1] = static_cast<std::byte>(group >> 8U);
  out[2] = static_cast<std::byte>(group);
}

bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
}

std::unexpected<Error> no_base64(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "it is not base64: " + std::string(why));
}

}  // namespace

Result<std::vector<std::byte>> decode_base64(std::string_view text) {
  RequestWork::add(request_work().base64_decodes);
  if (text.size() % 4 != 0) {
    return no_base64("its length of " + std::to_string(text.size()) + " is no multiple of four");
  }
  if (text.empty()) return std::vector<std::byte>{};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const std::size_t last = text.size() - 4;
  std::uint32_t seen = 0;
  bool is_valid = true;
  const std::size_t wide = decode_base64_avx2(text, bytes.data(), is_valid);
  std::byte* out = bytes.data() + wide / 4 * 3;
  for (std::size_t at = wide; at < last; at += 4, out += 3) {
    const std::uint32_t group = group_of(text.data() + at);
    seen |= group;
    store_group(out, group);
  }
  std::array<char, 4> tail{};
  std::memcpy(tail.data(), text.data() + last, 4);
  std::fill(tail.end() - static_cast<std::ptrdiff_t>(padding), tail.end(), 'A');
  const std::uint32_t group = group_of(tail.data());
  store_group(out, group);
  if (!is_valid || ((seen | group) & kNoDigit) != 0) {
    return no_base64("it holds a character outside the base64 alphabet, or '=' before its end");
  }
  if ((group & ((1U << (8 * padding)) - 1)) != 0) {
    return no_base64("its last digit has bits beyond the last byte");
  }
  bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(padding), bytes.end());
  return bytes;
}

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8U | (i < here ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t place = 0; place < 4; ++place) {
      text.push_back(place <= here ? kAlphabet[group >> (18 - 6 * place) & 63U] : '=');
    }
  }
  return text;
}

bool is_media_type(std::string_view type) {
  const std::size_t slash = std::min(type.find('/'), type.size());
  return slash > 0 && slash + 1 < type.size() && std::ranges::all_of(type, [](char c) {
           return ascii::is_letter(c) || ascii::is_digit(c) ||
                  std::string_view("/-+._").contains(c);
         });
}

bool is_data_url(std::string_view url) { return equal_ignoring_case(url.substr(0, 5), "data:"); }

Result<DataUrl> decode_data_url(std::string_view url) {
  constexpr std::string_view kBase64 = ";base64";
  const std::size_t comma = url.find(',');
  if (!is_data_url(url) || comma == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument,
                "it is not a data URL such as data:image/png;base64,iVBORw0K…");
  }
  std::string_view type = url.substr(5, comma - 5);
  std::string_view data = url.substr(comma + 1);
  std::string plain;
  if (data.contains('%')) {
    std::optional<std::string> decoded = percent_decoded(data);
    if (!decoded.has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  "a percent sign is not followed by two hexadecimal digits");
    }
    plain = *std::move(decoded);
    data = plain;
  }
  DataUrl read;
  const bool is_base64 = type.size() >= kBase64.size() &&
                         equal_ignoring_case(type.substr(type.size() - kBase64.size()), kBase64);
  if (is_base64) {
    type.remove_suffix(kBase64.size());
    AFI_TRY(read.bytes, decode_base64(data));
  } else {
    const auto bytes = std::as_bytes(std::span(data));
    read.bytes.assign(bytes.begin(), bytes.end());
  }
  if (read.bytes.empty()) return fail(ErrorCode::kInvalidArgument, "its data URL has no content");
  read.type = type;
  return read;
}

}  // namespace afterimage
