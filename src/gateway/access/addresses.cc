// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "foundation/text/ascii.h"
#include "foundation/text/percent.h"
#include "gateway/config/host_pattern.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxAddressBytes = 8192;

std::unexpected<Error> refuse_address(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

using Address4 = std::uint32_t;  // big-endian value: the first byte is the highest
using Address6 = std::array<std::uint8_t, 16>;

struct Range4 {
  Address4 first;
  int bits;
};

constexpr Address4 ip(unsigned a, unsigned b, unsigned c, unsigned d) {
  return a << 24U | b << 16U | c << 8U | d;
}

// https://www.iana.org/assignments/iana-ipv4-special-registry: every range that is not globally
// reachable, and multicast. 192.0.0.0/24 and 192.88.99.0/24 are refused as a whole, although single
// addresses in them are reachable.
constexpr std::array kNotPublic4{
    Range4{ip(0, 0, 0, 0), 8},      Range4{ip(10, 0, 0, 0), 8},     Range4{ip(100, 64, 0, 0), 10},
    Range4{ip(127, 0, 0, 0), 8},    Range4{ip(169, 254, 0, 0), 16}, Range4{ip(172, 16, 0, 0), 12},
    Range4{ip(192, 0, 0, 0), 24},   Range4{ip(192, 0, 2, 0), 24},   Range4{ip(192, 88, 99, 0), 24},
    Range4{ip(192, 168, 0, 0), 16}, Range4{ip(198, 18, 0, 0), 15},  Range4{ip(198, 51, 100, 0), 24},
    Range4{ip(203, 0, 113, 0), 24}, Range4{ip(224, 0, 0, 0), 4},    Range4{ip(240, 0, 0, 0), 4},
};

struct Range6 {
  Address6 first;
  std::size_t bits;
};

// https://www.iana.org/assignments/iana-ipv6-special-registry inside 2000::/3, the only range that
// is routed. 2001::/23 (protocols such as Teredo, whose addresses embed two others) is refused as a
// whole, although single prefixes in it are reachable.
constexpr std::array kNotPublic6{
    Range6{{0x20, 0x01}, 23},
    Range6{{0x20, 0x01, 0x0d, 0xb8}, 32},
    Range6{{0x3f, 0xff}, 20},
};
constexpr Range6 kRouted{{0x20}, 3};

/// IPv6 ranges whose addresses embed an IPv4 address.
struct Embedding {
  Range6 range;
  std::size_t at;  // offset of the embedded address, in bytes
};
constexpr std::array kEmbeddings{
    Embedding{{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96}, 12},  // mapped
    Embedding{{{0x00, 0x64, 0xff, 0x9b}, 96}, 12},                    // NAT64, RFC 6052
    Embedding{{{0x20, 0x02}, 16}, 2},                                 // 6to4
};

bool is_public4(Address4 address) {
  return std::ranges::none_of(kNotPublic4, [address](const Range4& range) {
    return ((address ^ range.first) >> (32 - range.bits)) == 0;
  });
}

bool is_in(const Range6& range, const Address6& address) {
  const std::size_t whole = range.bits / 8;
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole),
                  range.first.begin())) {
    return false;
  }
  const std::size_t rest = range.bits % 8;
  return rest == 0 || ((address[whole] ^ range.first[whole]) >> (8 - rest)) == 0;
}

bool is_public6(const Address6& address) {
  for (const Embedding& embedding : kEmbeddings) {
    if (!is_in(embedding.range, address)) continue;
    const std::size_t at = embedding.at;
    return is_public4(ip(address[at], address[at + 1], address[at + 2], address[at + 3]));
  }
  return is_in(kRouted, address) && std::ranges::none_of(kNotPublic6, [&](const Range6& range) {
           return is_in(range, address);
         });
}

Result<void> check_spelling(std::string_view address) {
  if (address.size() > kMaxAddressBytes) {
    return refuse_address(
        fmt::format("the address has {} bytes; the limit is {}", address.size(), kMaxAddressBytes));
  }
  const bool plain =
      std::ranges::all_of(address, [](char c) { return c > ' ' && c < 0x7F && c != '\\'; });
  if (plain) return {};
  return refuse_address(
      "the address contains spaces, control characters, backslashes or characters that are not "
      "ASCII: percent-encode them");
}

// File URLs.

/// nullopt: an invalid escape, or an encoded NUL or slash, which no file name contains.
std::optional<std::string> file_path(std::string_view text) {
  const std::string lower = ascii::lowered(text);
  if (lower.contains("%00") || lower.contains("%2f")) return std::nullopt;
  return percent_decoded(text);
}

Result<std::string> path_of(std::string_view address) {
  constexpr std::string_view kScheme = "file://";
  constexpr std::string_view kHere = "localhost";
  AFI_TRY_VOID(check_spelling(address));
  std::string_view rest = address;
  if (rest.starts_with(kScheme)) {
    rest.remove_prefix(kScheme.size());
    if (ascii::lowered(rest.substr(0, kHere.size())) == kHere) rest.remove_prefix(kHere.size());
    if (rest.starts_with('/') && rest.find_first_of("?#") == std::string_view::npos) {
      if (auto path = file_path(rest); path.has_value()) return *std::move(path);
    }
  }
  return refuse_address("this is not a file URL: write file:///folder/name");
}

/// The path with every symbolic link resolved; nullopt: it does not exist.
std::optional<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), &::free);
  if (real == nullptr) return std::nullopt;
  return real.get();
}

bool is_below(std::string_view path, const std::string& folder) {
  const auto real = real_path(folder);
  return real.has_value() && path.starts_with(*real) &&
         (path.substr(real->size()).starts_with('/') || *real == "/");
}

}  // namespace

Result<Url> allowed_url(std::string_view address, const MediaSettings& settings) {
  AFI_TRY_VOID(check_spelling(address));
  AFI_TRY(Url url, canonical_url(address));
  const bool allowed = std::ranges::any_of(settings.hosts, [&](const std::string& text) {
    const auto pattern = parse_host_pattern(text);
    return pattern.has_value() && matches(*pattern, url);
  });
  if (!allowed) {
    return refuse_address(
        fmt::format("fetching from {} port {} is not allowed: an operator can add it to "
                    "media.hosts, or send the bytes in a data URL",
                    url.host, url.port));
  }
  if (!settings.private_addresses && is_numeric_host(url.host) && !is_public_address(url.host)) {
    return refuse_address(
        fmt::format("{} is not a public address: an operator can allow private ones with "
                    "media.private_addresses",
                    url.host));
  }
  return url;
}

bool is_public_address(std::string_view numeric) {
  // inet_pton would stop at a NUL and accept the text before it.
  if (numeric.contains('\0')) return false;
  const std::string text(numeric);
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return is_public4(ntohl(v4.s_addr));
  Address6 v6{};
  return ::inet_pton(AF_INET6, text.c_str(), v6.data()) == 1 && is_public6(v6);
}

Result<std::string> allowed_file(std::string_view address, const MediaSettings& settings) {
  AFI_TRY(const std::string path, path_of(address));
  const auto real = real_path(path);
  const bool inside =
      real.has_value() && std::ranges::any_of(settings.folders, [&](const std::string& folder) {
        return is_below(*real, folder);
      });
  if (!inside) {
    return refuse_address(
        "no such file in the folders that an operator allows in media.folders: add its folder, or "
        "send the bytes in a data URL");
  }
  struct stat status{};
  if (::lstat(real->c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return refuse_address("this address names a folder or a device, not a regular file");
  }
  return *real;
}

}  // namespace afterimage
