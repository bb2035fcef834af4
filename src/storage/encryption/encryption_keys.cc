// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "afterimage/digest.h"
#include "afterimage/encrypted_tier.h"
#include "foundation/crypto/sha256.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/fault_points.h"

namespace afterimage {
namespace {

constexpr std::string_view kIdLabel = "afterimage/seal-key-id/1";
constexpr std::string_view kEntryLabel = "afterimage/seal-entry/1";
constexpr std::size_t kLongestFile = 4096;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = std::min(line.find_first_not_of(kSpaces), line.size());
  const std::size_t end = line.find_last_not_of(kSpaces);
  return end == std::string_view::npos ? "" : line.substr(begin, end + 1 - begin);
}

std::unexpected<Error> refused(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  return fail(code, fmt::format("cannot read the keys in '{}': {}", path,
                                std::system_category().message(error)));
}

/// A file that is closed at the end of its scope.
class OpenKeyFile {
 public:
  explicit OpenKeyFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenKeyFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenKeyFile(const OpenKeyFile&) = delete;
  OpenKeyFile& operator=(const OpenKeyFile&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

EncryptionKeys::~EncryptionKeys() {
  for (Key& key : keys_) OPENSSL_cleanse(key.secret.data(), key.secret.size());
}

Result<EncryptionKeys> EncryptionKeys::parse(std::string_view text, const std::string& where) {
  EncryptionKeys keys;
  keys.keys_.reserve(kMost);  // a growing vector would leave copies of keys behind
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const auto secret = digest_from_hex(line);
    if (!secret.has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("line {} of {} is not a key: write 64 hexadecimal digits, as "
                              "`openssl rand -hex 32` prints them",
                              number, where));
    }
    if (keys.keys_.size() == kMost) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} has more than {} keys: remove the oldest", where, kMost));
    }
    Key& key = keys.keys_.emplace_back(Key{.secret = *secret});
    const auto id = hmac_sha256(key.secret, bytes_of(kIdLabel));
    std::copy_n(id.begin(), key.id.size(), key.id.begin());
  }
  if (keys.keys_.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("there is no key in {}: make one with `openssl rand -hex 32`", where));
  }
  return keys;
}

Result<EncryptionKeys> EncryptionKeys::read(const std::string& path) {
  const OpenKeyFile file(path);
  if (file.fd() < 0) return refused(path, errno);
  struct stat status{};
  if (::fstat(file.fd(), &status) != 0) return refused(path, errno);
  if (!S_ISREG(status.st_mode)) return refused(path, EINVAL);
  if ((status.st_mode & 077) != 0) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("users other than the owner can read the keys in '{}': chmod 600", path));
  }
  std::array<char, kLongestFile> text{};
  std::size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < text.size(); size += static_cast<std::size_t>(got)) {
    got = ::read(file.fd(), text.data() + size, text.size() - size);
    if (got < 0) return refused(path, errno);
  }
  auto keys = size == text.size() ? fail(ErrorCode::kInvalidArgument,
                                         fmt::format("'{}' is too long to be a list of keys", path))
                                  : parse({text.data(), size}, fmt::format("'{}'", path));
  OPENSSL_cleanse(text.data(), text.size());
  return keys;
}

Result<EncryptionKeys> EncryptionKeys::from_environment(const std::string& name) {
  auto text = environment(name);
  if (!text.has_value()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the environment variable '{}' is not set", name));
  }
  std::ranges::replace(*text, ',', '\n');
  auto keys = parse(*text, fmt::format("the environment variable '{}'", name));
  OPENSSL_cleanse(text->data(), text->size());
  return keys;
}

bool EncryptionKeys::entry_key(const EncryptionKeyId& id, const TierKey& key, Secret& into) const {
  const auto found = std::ranges::find(keys_, id, &Key::id);
  if (found == keys_.end()) return false;
  // The entry's key is also authenticated: either alone prevents swapping entries.
  Secret extracted = hmac_sha256(AFI_STEP("seal.name") ? key.bytes : Secret{}, found->secret);
  std::array<std::byte, kEntryLabel.size() + 2> info{};
  std::ranges::copy(bytes_of(kEntryLabel), info.begin());
  info[kEntryLabel.size()] = static_cast<std::byte>(key.entry_class);
  info[kEntryLabel.size() + 1] = std::byte{1};  // the first and only block of HKDF
  into = hmac_sha256(extracted, info);
  OPENSSL_cleanse(extracted.data(), extracted.size());
  return true;
}

}  // namespace afterimage
