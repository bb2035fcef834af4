// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "afterimage/secret.h"
#include "foundation/platform/fault_points.h"
#include "storage/block_io/block_io.h"

namespace afterimage {
namespace {

Result<Secret> read_secret(int fd, const std::string& path, std::string_view if_lost) {
  const OpenFile file(fd, path);
  struct stat status{};
  if (::fstat(fd, &status) != 0) return disk_refused("read", path, errno);
  const bool whole = S_ISREG(status.st_mode) && status.st_size == sizeof(Secret);
  if (!whole || (status.st_mode & 077) != 0) {
    return fail(
        ErrorCode::kCorruption,
        fmt::format("'{}' is not a file of {} bytes that only its owner can read. If its mode or "
                    "content was changed by mistake, restore it (chmod 600); if it is lost, {}",
                    path, sizeof(Secret), if_lost));
  }
  Secret secret;
  if (::read(fd, secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    return disk_refused("read", path, errno);
  }
  return secret;
}

// Writes a draft and renames it, so that a crash leaves no secret or a complete one.
Result<Secret> make_secret(const std::string& folder, const std::string& path) {
  AFI_TRY(const Secret secret, random_secret());
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return disk_refused("create", draft, errno);
  const OpenFile file(fd, draft);
  AFI_FAILING_POINT("secret.drafted");
  const bool written =
      ::write(fd, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size()) &&
      ::fsync(fd) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  if (!written) return disk_refused("write", path, errno);
  AFI_POINT("secret.named");
  const int parent = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return disk_refused("open", folder, errno);
  const OpenFile opened(parent, folder);
  if (::fsync(parent) != 0) return disk_refused("sync", folder, errno);
  return secret;
}

}  // namespace

Result<Secret> store_secret(const std::string& folder) {
  const std::string path = folder + "/secret";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd >= 0) {
    return read_secret(fd, path,
                       "empty the folder: without the secret no entry in it can be found");
  }
  if (errno != ENOENT) return disk_refused("open", path, errno);
  return make_secret(folder, path);
}

Result<Secret> secret_in_file(const std::string& path) {
  constexpr std::string_view kMake =
      "create one (umask 077; head -c 32 /dev/urandom > FILE) and copy it to every process that "
      "shares the cache";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) return read_secret(fd, path, kMake);
  if (errno != ENOENT) return disk_refused("open", path, errno);
  return fail(ErrorCode::kNotFound, fmt::format("there is no '{}': {}", path, kMake));
}

}  // namespace afterimage
