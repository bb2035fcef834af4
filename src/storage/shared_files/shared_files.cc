// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/shared_files/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <tuple>

namespace afterimage {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMany =
    64;  // with more files, evicting one at a time would read the folder for each put
constexpr std::size_t kRemembered = 100'000;  // files whose checksum need not be verified again
// Read at a time to verify: a processor's nearest caches hold it until its checksum is computed.
constexpr std::size_t kPart = 64 << 10;
static_assert(kPart >= shared_file::kMostHead);
constexpr const char* kLock = ".lock";

/// The message names the folder and not the file, so that a caller can report it once.
std::unexpected<Error> refused(const fs::path& folder, int error) {
  return fail(ErrorCode::kUnavailable,
              fmt::format("cannot write into {}: {}", folder.string(), std::strerror(error)));
}

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= shared_file::kMostName && name.front() != '.' &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

FileDescriptor open_file(const std::string& path, int flags) {
  return FileDescriptor(::open(path.c_str(), flags | O_CLOEXEC, 0600));
}

struct Listed {
  std::string name;
  struct stat status;
};

/// The regular files of a folder. Other processes end and remove their folders at any time.
std::vector<Listed> regular_files(const fs::path& folder) {
  std::vector<Listed> found;
  DIR* opened = ::opendir(folder.c_str());
  if (opened == nullptr) return found;
  while (const dirent* entry = ::readdir(opened)) {
    Listed listed = {.name = entry->d_name, .status = {}};
    if (listed.name == kLock || entry->d_type == DT_DIR) continue;
    if (::fstatat(::dirfd(opened), entry->d_name, &listed.status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(listed.status.st_mode)) {
      found.push_back(std::move(listed));
    }
  }
  ::closedir(opened);
  return found;
}

std::vector<fs::path> processes_in(const fs::path& leases) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(leases, error), end; !error && at != end; at.increment(error)) {
    found.push_back(at->path());
  }
  return found;
}

/// As far as possible: what somebody else put there may stay.
void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

/// One call for both parts, and more only where the system writes less. 0, or the system's error.
int write_all(int file, std::span<const std::byte> head, std::span<const std::byte> data) {
  std::array<std::span<const std::byte>, 2> parts = {head, data};
  while (!parts[0].empty() || !parts[1].empty()) {
    std::array<iovec, 2> pieces{};
    for (std::size_t index = 0; index < parts.size(); ++index) {
      pieces[index] = {const_cast<std::byte*>(parts[index].data()), parts[index].size()};
    }
    const ssize_t written = ::writev(file, pieces.data(), static_cast<int>(pieces.size()));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    auto rest = static_cast<std::size_t>(written);
    for (auto& part : parts) {
      const std::size_t done = std::min(rest, part.size());
      part = part.subspan(done);
      rest -= done;
    }
  }
  return 0;
}

/// As many bytes as there are, at most all of `part`; none: they cannot be read.
std::optional<std::span<std::byte>> read_part(const FileDescriptor& file,
                                              std::span<std::byte> part) {
  std::size_t filled = 0;
  while (filled < part.size()) {
    const ssize_t read = ::read(file.number(), part.data() + filled, part.size() - filled);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return std::nullopt;
    if (read == 0) break;
    filled += static_cast<std::size_t>(read);
  }
  return part.first(filled);
}

/// What an intact file says of its tensor; none: it is damaged or another's.
std::optional<SharedTensorForm> verified_form(const std::string& path, std::string_view name) {
  const auto [file, size] = open_shared_file(path);
  if (!file.is_open()) return std::nullopt;
  std::array<std::byte, kPart> part;
  auto read = read_part(file, part);
  if (!read.has_value()) return std::nullopt;
  auto parsed = shared_file::parse(*read, name, false);
  if (!parsed.has_value()) return std::nullopt;
  std::array<std::byte, shared_file::kMostHead> head;
  const std::span kept = std::span(head).first(parsed->data_offset);
  std::ranges::copy(read->first(kept.size()), kept.begin());
  RunningChecksum running;
  for (auto data = read->subspan(kept.size()); !data.empty(); data = *read) {
    running.add(data);
    read = read_part(file, part);
    if (!read.has_value()) return std::nullopt;
  }
  if (!shared_file::is_intact(kept, running.value())) return std::nullopt;
  return std::move(parsed->form);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(number_);
}

SharedFiles::SharedFiles(fs::path folder, Bytes capacity)
    : folder_(std::move(folder)),
      capacity_(capacity),
      process_(folder_ / "leases" / random_name()),
      held_(process_ / "held") {}

Result<std::unique_ptr<SharedFiles>> SharedFiles::open(fs::path folder, Bytes capacity) {
  std::unique_ptr<SharedFiles> files(new SharedFiles(std::move(folder), capacity));
  AFI_TRY_VOID(files->join());
  return files;
}

SharedFiles::~SharedFiles() { close(); }

void SharedFiles::close() {
  const MutexLock lock(joining_);
  if (!alive_.is_open()) return;
  remove_folder(process_);
  FileDescriptor ended;
  std::swap(ended, alive_);
}

Result<void> SharedFiles::join() {
  const MutexLock lock(joining_);
  if (::access((process_ / "alive").c_str(), F_OK) == 0) return {};
  return make_folders();
}

Result<void> SharedFiles::make_folders() {
  std::error_code error;
  fs::create_directories(folder_.parent_path(), error);
  if (error) return refused(folder_, error.value());
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return refused(folder_, errno);
  AFI_TRY(const FileDescriptor locked, lock());
  drop_dead_processes();
  for (const fs::path& folder : {process_.parent_path(), process_, held_}) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refused(folder_, errno);
  }
  FileDescriptor alive = open_file(process_ / "alive", O_CREAT | O_RDWR);
  if (!alive.is_open() || ::flock(alive.number(), LOCK_EX) != 0) return refused(folder_, errno);
  alive_ = std::move(alive);
  return {};
}

void SharedFiles::drop_dead_processes() const {
  for (const fs::path& process : processes_in(folder_ / "leases")) {
    const FileDescriptor alive = open_file(process / "alive", O_RDWR);
    if (!alive.is_open() || ::flock(alive.number(), LOCK_EX | LOCK_NB) == 0) remove_folder(process);
  }
}

Result<FileDescriptor> SharedFiles::lock() const {
  FileDescriptor file = open_file(folder_ / kLock, O_CREAT | O_RDWR);
  if (!file.is_open()) return refused(folder_, errno);
  while (::flock(file.number(), LOCK_EX) != 0) {
    if (errno != EINTR) return refused(folder_, errno);
  }
  return file;
}

Result<bool> SharedFiles::put(std::string_view name, const SharedTensorForm& form,
                              std::span<const std::byte> data) {
  if (!is_file_name(name)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no file's name", name));
  }
  if (form.dtype.size() > shared_file::kMostDType || form.shape.size() > shared_file::kMostRank) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("expected at most {} extents and {} letters of dtype",
                            shared_file::kMostRank, shared_file::kMostDType));
  }
  if (holds(name)) return false;
  const std::vector<std::byte> head = shared_file::head(name, form, data);
  const Bytes size(head.size() + data.size());
  const std::string unfinished = fmt::format("{}/{}.{}", held_.native(), name, next_number_++);
  AFI_TRY(const FileDescriptor file, make(unfinished, size));
  if (!file.is_open()) return false;
  struct stat status{};
  int error = write_all(file.number(), head, data);
  if (error == 0 && (::fstat(file.number(), &status) != 0 ||
                     ::rename(unfinished.c_str(), path_of(name).c_str()) != 0)) {
    error = errno;
  }
  if (error == ENOENT) return false;  // somebody removed the folder
  if (error != 0) {
    ::unlink(unfinished.c_str());
    return refused(folder_, error);
  }
  remember(name, {.inode = status.st_ino,
                  .bytes = status.st_size,
                  .written = status.st_mtim,
                  .seconds = form.seconds,
                  .shape = form.shape});
  return true;
}

Result<FileDescriptor> SharedFiles::make(const std::string& path, Bytes size) {
  auto file = make_locked(path, size);
  if (file.has_value() || ::access(held_.c_str(), F_OK) == 0) return file;
  AFI_TRY_VOID(join());  // somebody removed the folder
  return make_locked(path, size);
}

/// The file has its size under the lock already, so a count meanwhile includes
/// all of it.
Result<FileDescriptor> SharedFiles::make_locked(const std::string& path, Bytes size) const {
  AFI_TRY(const FileDescriptor locked, lock());
  if (!reserve(locked, size)) return FileDescriptor();
  FileDescriptor file = open_file(path, O_CREAT | O_EXCL | O_WRONLY);
  if (!file.is_open()) return refused(folder_, errno);
  if (::ftruncate(file.number(), static_cast<off_t>(size.value())) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return refused(folder_, error);
  }
  return file;
}

/// Counts the space as used before it is: a process that dies leaves the count too high, never too
/// low.
bool SharedFiles::reserve(const FileDescriptor& lock, Bytes size) const {
  if (size > capacity_) return false;
  std::uint64_t counted = 0;
  std::optional<Bytes> used;
  if (::pread(lock.number(), &counted, sizeof(counted), 0) == sizeof(counted)) {
    used = Bytes(counted);
  }
  if (!used.has_value() || *used > capacity_ || size > capacity_ - *used) used = evict_for(size);
  if (!used.has_value()) return false;
  counted = (*used + size).value();
  return ::pwrite(lock.number(), &counted, sizeof(counted), 0) == sizeof(counted);
}

std::optional<Bytes> SharedFiles::evict_for(Bytes size) const {
  const Bytes most = capacity_ - size;
  Bytes used = count_bytes();
  if (used <= most) return used;
  std::vector<Listed> evictable = regular_files(folder_);
  std::erase_if(evictable, [](const Listed& file) {
    return file.status.st_nlink != 1;  // evicting a leased file frees nothing
  });
  Bytes freeable;
  for (const Listed& file : evictable)
    freeable += Bytes(static_cast<std::uint64_t>(file.status.st_size));
  if (sub_sat(used, freeable) > most) return std::nullopt;
  // Links change ctime: a lease is a use, and so is its release.
  std::ranges::sort(evictable, {}, [](const Listed& file) {
    const timespec& used_last = file.status.st_ctim;
    return std::tuple(used_last.tv_sec, used_last.tv_nsec, std::string_view(file.name));
  });
  const Bytes spare(evictable.size() > kMany ? capacity_.value() / kMany : 0);
  for (const Listed& file : evictable) {
    if (used <= sub_sat(most, spare)) break;
    ::unlink((folder_ / file.name).c_str());
    used = sub_sat(used, Bytes(static_cast<std::uint64_t>(file.status.st_size)));
  }
  return used;
}

Bytes SharedFiles::used_bytes() const {
  // Otherwise a file that is evicted meanwhile and the one in its place could both be counted.
  const auto locked = lock();
  return count_bytes();
}

/// A file with leases counts once, and a file that is only leased counts too. Files that are
/// finished meanwhile move into the folder, which is therefore read last.
Bytes SharedFiles::count_bytes() const {
  std::unordered_map<ino_t, off_t> sizes;
  const auto count = [&](const fs::path& folder) {
    for (const Listed& file : regular_files(folder))
      sizes[file.status.st_ino] = file.status.st_size;
  };
  for (const fs::path& process : processes_in(folder_ / "leases")) count(process / "held");
  count(folder_);
  Bytes used;
  for (const auto& [inode, size] : sizes) used += Bytes(static_cast<std::uint64_t>(size));
  return used;
}

std::optional<SharedFiles::Lease> SharedFiles::lease(std::string_view name) {
  if (!is_file_name(name)) return std::nullopt;
  std::string path = fmt::format("{}/{}.{}", held_.native(), name, next_number_++);
  if (!link(name, path)) return std::nullopt;
  if (const auto seen = verify(path, name)) {
    return Lease{.name = std::string(name),
                 .path = std::move(path),
                 .bytes = Bytes(static_cast<std::uint64_t>(seen->bytes)),
                 .seconds = seen->seconds,
                 .shape = seen->shape};
  }
  erase(name);
  ::unlink(path.c_str());
  return std::nullopt;
}

bool SharedFiles::link(std::string_view name, const std::string& path) {
  const std::string file = path_of(name);
  if (::link(file.c_str(), path.c_str()) == 0) return true;
  if (errno != ENOENT || ::access(held_.c_str(), F_OK) == 0 || !holds(name)) return false;
  return join().has_value() &&
         ::link(file.c_str(), path.c_str()) == 0;  // somebody removed the folder
}

std::optional<SharedFiles::Seen> SharedFiles::verify(const std::string& path,
                                                     std::string_view name) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  {
    const MutexLock lock(mutex_);
    const auto seen = verified_.find(std::string(name));
    if (seen != verified_.end() && seen->second.is(status)) return seen->second;
  }
  const auto form = verified_form(path, name);
  if (!form.has_value()) return std::nullopt;
  Seen seen = {.inode = status.st_ino,
               .bytes = status.st_size,
               .written = status.st_mtim,
               .seconds = form->seconds,
               .shape = form->shape};
  remember(name, seen);
  return seen;
}

/// An inode is used again as soon as its file is gone, and links change ctime.
bool SharedFiles::Seen::is(const struct stat& status) const {
  return inode == status.st_ino && bytes == status.st_size &&
         written.tv_sec == status.st_mtim.tv_sec && written.tv_nsec == status.st_mtim.tv_nsec;
}

void SharedFiles::remember(std::string_view name, const Seen& seen) {
  const MutexLock lock(mutex_);
  if (verified_.size() >= kRemembered) verified_.clear();
  verified_[std::string(name)] = seen;
}

void SharedFiles::release(const Lease& lease) { ::unlink(lease.path.c_str()); }

bool SharedFiles::holds(std::string_view name) const {
  return is_file_name(name) && ::access(path_of(name).c_str(), F_OK) == 0;
}

void SharedFiles::erase(std::string_view name) {
  if (is_file_name(name)) ::unlink(path_of(name).c_str());
}

std::string SharedFiles::path_of(std::string_view name) const {
  return fmt::format("{}/{}", folder_.native(), name);
}

std::pair<FileDescriptor, Bytes> open_shared_file(const std::string& path) {
  FileDescriptor file = open_file(path, O_RDONLY | O_NONBLOCK);  // of a pipe, nobody is waited for
  struct stat status{};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {FileDescriptor(), Bytes()};
  }
  return {std::move(file), Bytes(static_cast<std::uint64_t>(status.st_size))};
}

bool fill_from(const FileDescriptor& file, std::span<std::byte> whole) {
  const auto read = read_part(file, whole);
  return read.has_value() && read->size() == whole.size();
}

}  // namespace afterimage
