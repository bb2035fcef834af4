// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// BlockFolder on the file system: names, allocation and locks. block_io.h moves the bytes.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "foundation/platform/fault_points.h"
#include "storage/block_io/block_files.h"
#include "storage/block_io/block_io.h"

namespace afterimage {

namespace {
constexpr std::size_t kBlock = 4096;
}

std::unexpected<Error> disk_refused(std::string_view verb, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return fail(full              ? ErrorCode::kNoSpace
              : error == ENOENT ? ErrorCode::kNotFound
                                : ErrorCode::kUnavailable,
              fmt::format("cannot {} '{}': {}", verb, path, std::strerror(error)));
}

Result<std::size_t> outcome(const BlockOperation& operation, std::int64_t result) {
  const bool write = operation.kind == BlockOperation::Kind::kWrite;
  if (result < 0) {
    const std::string_view verb = operation.kind == BlockOperation::Kind::kRead ? "read"
                                  : write                                       ? "write"
                                                                                : "sync";
    return disk_refused(verb, operation.file->path(), static_cast<int>(-result));
  }
  const auto moved = static_cast<std::size_t>(result);
  if (write && !AFI_GUARD("write.whole", moved == operation.size)) {
    return fail(ErrorCode::kUnavailable, fmt::format("wrote {} of {} bytes to '{}'", moved,
                                                     operation.size, operation.file->path()));
  }
  return moved;
}

bool TransferProgress::wants_more(const BlockOperation& operation, std::int64_t result) {
  constexpr unsigned kMostInterruptions = 1000;
  result_ = result;
  // A sync is never repeated: see SegmentLog::State::finish_sync.
  if (operation.kind == BlockOperation::Kind::kSync) return false;
  result = AFI_SYSTEM("disk.transfer", result);
  // Direct I/O that continues from within a block fails with EINVAL: it was the end of the file.
  if (result == -EINVAL && moved_ % kBlock != 0) result = 0;
  if (result == -EINTR || result == -EAGAIN) {
    result_ = result;
    return ++interruptions_ < kMostInterruptions;
  }
  interruptions_ = 0;
  if (result > 0) moved_ += static_cast<std::size_t>(result);
  result_ = result < 0 ? result : static_cast<std::int64_t>(moved_);
  return result > 0 && moved_ < operation.size && AFI_STEP("transfer.rest");
}

OpenFile::~OpenFile() { ::close(fd_); }

namespace {

/// Writes zeros, for file systems that can neither allocate nor free blocks (ext2, ext3, older NFS).
/// Returns errno, or 0.
int write_zeros(int fd, std::uint64_t offset, std::uint64_t size) {
  alignas(kBlock) static std::array<std::byte, 64 * kBlock> zeros{};  // as direct I/O needs them
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, zeros.data(), std::min<std::uint64_t>(size, zeros.size()),
                               static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::uint64_t>(n);
  }
  return 0;
}

/// Allocates or frees blocks, or writes zeros where the file system can do neither: allocated blocks
/// exist then, too, and freed ones read as zeros. Returns errno, or 0.
int change_blocks(int fd, int mode, std::uint64_t offset, std::uint64_t size) {
  int error = 0;
  do {
    error = ::fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0
                ? 0
                : errno;
  } while (error == EINTR);
  // Not posix_fallocate: it writes single bytes instead, which direct I/O refuses.
  const bool has_none = error == EOPNOTSUPP || error == ENOSYS;
  return has_none ? write_zeros(fd, offset, size) : error;
}

class SystemBlockFile final : public BlockFile {
 public:
  SystemBlockFile(std::shared_ptr<BlockIo> io, std::shared_ptr<const OpenFile> file)
      : io_(std::move(io)), file_(std::move(file)) {}

  std::unique_ptr<Transfer> read(std::uint64_t offset, std::shared_ptr<AlignedBytes> into,
                                 std::size_t size) override {
    return io_->start({.kind = BlockOperation::Kind::kRead,
                       .file = file_,
                       .offset = offset,
                       .size = size,
                       .memory = std::move(into)});
  }
  std::unique_ptr<Transfer> write(std::uint64_t offset, std::shared_ptr<AlignedBytes> from,
                                  std::size_t size) override {
    return io_->start({.kind = BlockOperation::Kind::kWrite,
                       .file = file_,
                       .offset = offset,
                       .size = size,
                       .memory = std::move(from)});
  }
  std::unique_ptr<Transfer> sync() override {
    return io_->start({.kind = BlockOperation::Kind::kSync, .file = file_});
  }
  Result<void> truncate(std::uint64_t size) override {
    if (::ftruncate(file_->fd(), static_cast<off_t>(size)) == 0) return {};
    return disk_refused("shorten", file_->path(), errno);
  }
  void discard(std::uint64_t offset, std::uint64_t size) override {
    static_cast<void>(
        change_blocks(file_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size));
  }
  [[nodiscard]] Result<std::uint64_t> size() const override {
    struct stat status{};
    if (::fstat(file_->fd(), &status) != 0) return disk_refused("look at", file_->path(), errno);
    return static_cast<std::uint64_t>(status.st_size);
  }

 private:
  std::shared_ptr<BlockIo> io_;
  std::shared_ptr<const OpenFile> file_;
};

class SystemBlockFolder final : public BlockFolder {
 public:
  /// `access`: O_RDWR or O_RDONLY.
  SystemBlockFolder(std::shared_ptr<BlockIo> io, std::shared_ptr<const OpenFile> folder,
                    std::shared_ptr<const OpenFile> lock, int access)
      : io_(std::move(io)), folder_(std::move(folder)), lock_(std::move(lock)), access_(access) {}

  Result<std::shared_ptr<BlockFile>> create(const std::string& name, std::uint64_t size) override {
    AFI_TRY(const std::shared_ptr<const OpenFile> file, open_file(name, O_CREAT | O_EXCL));
    const int error = change_blocks(file->fd(), 0, 0, size);
    if (error != 0) {
      ::unlinkat(folder_->fd(), name.c_str(), 0);
      return disk_refused("allocate space for", file->path(), error);
    }
    return std::make_shared<SystemBlockFile>(io_, file);
  }
  Result<std::shared_ptr<BlockFile>> open(const std::string& name) override {
    AFI_TRY(const std::shared_ptr<const OpenFile> file, open_file(name, 0));
    return std::make_shared<SystemBlockFile>(io_, file);
  }
  Result<void> remove(const std::string& name) override {
    if (::unlinkat(folder_->fd(), name.c_str(), 0) == 0) return {};
    return disk_refused("remove", path() + "/" + name, errno);
  }
  [[nodiscard]] Result<std::vector<std::string>> list() const override {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator it(path(), error);
    for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
      // Skips symbolic links, which could lead anywhere.
      if (it->symlink_status(error).type() == std::filesystem::file_type::regular) {
        names.push_back(it->path().filename().string());
      }
    }
    if (error) return disk_refused("list", path(), error.value());
    std::ranges::sort(names);
    return names;
  }
  std::unique_ptr<Transfer> sync() override {
    return io_->start({.kind = BlockOperation::Kind::kSync, .file = folder_});
  }
  [[nodiscard]] std::uint64_t max_file_bytes() const override {
    struct rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return ~std::uint64_t{0};
    return limit.rlim_cur == RLIM_INFINITY ? ~std::uint64_t{0} : limit.rlim_cur;
  }
  [[nodiscard]] std::string path() const override { return folder_->path(); }

 private:
  Result<std::shared_ptr<const OpenFile>> open_file(const std::string& name, int flags) {
    const std::string full = path() + "/" + name;
    int fd = -1;
    do {
      const int direct = direct_ ? O_DIRECT : 0;
      fd = ::openat(folder_->fd(), name.c_str(),
                    access_ | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags | direct, 0600);
      // The file system has no direct I/O; the failed attempt may have created the file.
      if (fd >= 0 || errno != EINVAL || !direct_) break;
      direct_ = false;
      if ((flags & O_CREAT) != 0) ::unlinkat(folder_->fd(), name.c_str(), 0);
    } while (true);
    if (fd < 0) return disk_refused("open", full, errno);
    return std::make_shared<OpenFile>(fd, full);
  }

  std::shared_ptr<BlockIo> io_;
  std::shared_ptr<const OpenFile> folder_;
  std::shared_ptr<const OpenFile> lock_;
  int access_;
  std::atomic<bool> direct_{true};
};

Result<std::shared_ptr<const OpenFile>> open_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return disk_refused("open the folder", path, errno);
  return std::make_shared<const OpenFile>(fd, path);
}

/// nullptr: there is no lock file, and `flags` do not create one.
Result<std::shared_ptr<const OpenFile>> lock_folder(const OpenFile& folder, int flags,
                                                    std::string_view advice) {
  const std::string& path = folder.path();
  while (true) {
    const int fd = ::openat(folder.fd(), "lock", flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT && (flags & O_CREAT) == 0) return nullptr;
    if (fd < 0) {
      const char* verb = (flags & O_CREAT) != 0 ? "write to the folder" : "open the lock of";
      return disk_refused(verb, path, errno);
    }
    auto lock = std::make_shared<const OpenFile>(fd, path + "/lock");
    if (!AFI_GUARD("folder.lock", ::flock(fd, LOCK_EX | LOCK_NB) == 0)) {
      return fail(ErrorCode::kUnavailable,
                  errno == EWOULDBLOCK
                      ? fmt::format("'{}' is in use by another process: {}", path, advice)
                      : fmt::format("cannot lock '{}': {}", path, std::strerror(errno)));
    }
    struct stat status{};
    if (::fstat(fd, &status) == 0 && status.st_nlink > 0) return lock;
    // The lock file was removed in between, so this lock excludes nobody: try again.
  }
}

}  // namespace

Result<std::unique_ptr<BlockFolder>> open_block_folder(const std::string& path,
                                                       DiskBackend backend) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return disk_refused("create the folder", path, errno);
  }
  AFI_TRY(const auto folder, open_folder(path));
  AFI_TRY(const auto lock,
          lock_folder(*folder, O_RDWR | O_CREAT, "use a separate folder for each process"));
  std::shared_ptr<BlockIo> io = backend == DiskBackend::kBest ? make_uring_io() : nullptr;
  if (io == nullptr) io = make_thread_io();
  return std::make_unique<SystemBlockFolder>(std::move(io), folder, lock, O_RDWR);
}

Result<std::unique_ptr<BlockFolder>> look_into_block_folder(const std::string& path) {
  AFI_TRY(const auto folder, open_folder(path));
  AFI_TRY(const auto lock, lock_folder(*folder, O_RDONLY, "stop that process first"));
  return std::make_unique<SystemBlockFolder>(make_thread_io(), folder, lock, O_RDONLY);
}

}  // namespace afterimage
