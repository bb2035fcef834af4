// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace afterimage {
namespace {

// Reports, traces and lists may contain users' requests: only the owner can read them until chmod.
constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOwnerOnlyFolder = 0700;

constexpr std::size_t kBeyondToldSize = 4096;

/// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  /// Closes now and reports failure, which the destructor would have to ignore.
  [[nodiscard]] bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

std::unexpected<Error> system_refused(const char* verb, const std::string& path, int error) {
  return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
              fmt::format("cannot {} '{}': {}", verb, path, std::strerror(error)));
}

std::unexpected<Error> too_large(const std::string& path, std::uint64_t size, Bytes limit) {
  return fail(ErrorCode::kLimitExceeded,
              fmt::format("'{}' has {} bytes; at most {} are read", path, size, limit.value()));
}

bool write_all(int fd, std::span<const std::byte> content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content = content.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// Makes a file's name durable by syncing its folder. Where that is not possible (the folder is not
/// readable, the file system does not support it), durability is left to the system.
bool sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const Descriptor open(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return !open.is_open() || ::fsync(open.get()) == 0 || errno == EINVAL || errno == ENOTSUP;
}

}  // namespace

Result<void> visit_blocks(const std::string& path, Bytes block,
                          const std::function<void(std::span<const std::byte>)>& visit,
                          const std::stop_token& stop) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return system_refused("read", path, errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return system_refused("read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kUnavailable, fmt::format("cannot read '{}': not a regular file", path));
  }
  std::vector<std::byte> bytes(block.value());
  for (std::size_t filled = 0;;) {
    if (stop.stop_requested()) {
      return fail(ErrorCode::kCancelled, fmt::format("reading '{}' was stopped", path));
    }
    const ssize_t count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_refused("read", path, errno);
    filled += static_cast<std::size_t>(count);
    if (filled == bytes.size() || (count == 0 && filled > 0)) {
      visit(std::span(bytes).first(filled));
      filled = 0;
    }
    if (count == 0) return {};
  }
}

Result<std::vector<std::byte>> SystemFiles::read(const std::string& path, Bytes limit) const {
  // Without O_NONBLOCK, opening a named pipe would block until a writer opens it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return system_refused("read", path, errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return system_refused("read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kUnavailable, fmt::format("cannot read '{}': not a regular file", path));
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > limit.value()) return too_large(path, size, limit);
  // Reads to the end regardless of the reported size: files in /proc and cgroups report 0.
  std::vector<std::byte> content(size);
  std::size_t done = 0;
  while (true) {
    if (done == content.size()) content.resize(done + kBeyondToldSize);
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_refused("read", path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
    if (done > limit.value()) return too_large(path, done, limit);
  }
  content.resize(done);
  return content;
}

Result<void> SystemFiles::replace(const std::string& path, std::span<const std::byte> content) {
  const std::string draft = fmt::format("{}.{}.tmp", path, ::getpid());
  // Removes a symbolic link of that name first, which another user may have put into a shared
  // folder.
  ::unlink(draft.c_str());
  Descriptor file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly));
  if (!file.is_open()) return system_refused("write", path, errno);
  const bool written = write_all(file.get(), content) && ::fsync(file.get()) == 0;
  const int error = errno;
  if (!written || !file.close() || ::rename(draft.c_str(), path.c_str()) != 0) {
    const int reason = written ? errno : error;
    ::unlink(draft.c_str());
    return system_refused("write", path, reason);
  }
  if (!sync_folder_of(path)) return system_refused("write", path, errno);
  return {};
}

Result<void> SystemFiles::append(const std::string& path, std::span<const std::byte> content) {
  const bool is_new = ::access(path.c_str(), F_OK) != 0;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwnerOnly));
  if (!file.is_open()) return system_refused("write", path, errno);
  if (!write_all(file.get(), content) || ::fsync(file.get()) != 0 || !file.close() ||
      (is_new && !sync_folder_of(path))) {
    return system_refused("write", path, errno);
  }
  return {};
}

Result<void> SystemFiles::cut(const std::string& path, Bytes size) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) return system_refused("cut", path, errno);
  if (::ftruncate(file.get(), static_cast<off_t>(size.value())) != 0 || ::fsync(file.get()) != 0 ||
      !file.close()) {
    return system_refused("cut", path, errno);
  }
  return {};
}

Result<void> SystemFiles::make_folder(const std::string& path) {
  std::filesystem::path way;
  for (const auto& part : std::filesystem::path(path)) {
    way /= part;
    if (::mkdir(way.c_str(), kOwnerOnlyFolder) == 0 || errno == EEXIST) continue;
    std::error_code ignored;
    const int error = errno;  // not fatal if the folder exists on a read-only file system
    if (!std::filesystem::is_directory(way, ignored)) {
      return system_refused("make the folder", path, error);
    }
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  return system_refused("make the folder", path, ENOTDIR);
}

Result<void> SystemFiles::empty_folder(const std::string& path, const std::string& kept) {
  std::error_code error;
  std::vector<std::filesystem::path> inside;
  std::filesystem::directory_iterator it(path, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (it->path().filename() != kept) inside.push_back(it->path());
  }
  for (std::size_t i = 0; !error && i < inside.size(); ++i) {
    std::filesystem::remove_all(inside[i], error);
  }
  if (error) return system_refused("empty", path, error.value());
  return {};
}

Result<void> SystemFiles::check_replaceable(const std::string& path) const {
  if (is_folder(path)) return system_refused("write", path, EISDIR);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
    return system_refused("write", path, errno);
  }
  return {};
}

Result<std::vector<std::string>> SystemFiles::list(const std::string& folder) const {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) names.push_back(it->path().filename().string());
  }
  if (error) return system_refused("list", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

bool SystemFiles::is_folder(const std::string& path) const {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::string path_beside(const std::string& base_file, const std::string& path) {
  return (std::filesystem::path(base_file).parent_path() / path).lexically_normal().string();
}

}  // namespace afterimage
