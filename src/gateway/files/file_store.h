// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "gateway/protocol/chat_content.h"
#include "gateway/protocol/tenant_store.h"

namespace afterimage {

/// A file that a client uploaded, without its bytes.
struct FileInfo {
  std::string id;    // "file-…"
  std::string name;  // as the client calls it; never a path here
  std::string purpose;
  std::string type;  // media type: of an image or sound by its bytes, otherwise as declared
  std::uint64_t size = 0;
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t expires = 0;
  std::string digest;  // SHA-256, which names its bytes
};

/// Uploaded files, each visible to its tenant alone, as TenantStore keeps them. Bytes that a tenant
/// uploads twice are stored once.
///
/// Errors   add: kLimitExceeded: larger than the capacity. content, info, erase: kNotFound: there is none,
///          it has left, or it is another tenant's; which of these, nobody learns.
/// Threads  Any.
class FileStore {
 public:
  /// `capacity` 0: files are not kept here. `clock` outlives it.
  FileStore(Bytes capacity, Duration ttl, const Clock& clock);

  /// `file` has an id, a name, a purpose, a declared type and its time; the rest is added.
  Result<FileInfo> add(const std::string& tenant, FileInfo file, std::string_view bytes);
  [[nodiscard]] Result<FileInfo> info(const std::string& tenant, std::string_view id);
  [[nodiscard]] Result<UploadedFile> content(const std::string& tenant, std::string_view id);
  Result<void> erase(const std::string& tenant, std::string_view id);
  /// Erases files, with their bytes; returns how many. `digest`: of these bytes.
  std::uint64_t erase_content(std::string_view digest);
  std::uint64_t erase_tenants(const std::function<bool(std::string_view tenant)>& chosen);
  /// The newest first.
  [[nodiscard]] std::vector<std::shared_ptr<const FileInfo>> list(const std::string& tenant);
  [[nodiscard]] bool is_enabled() const { return contents_.capacity() > Bytes(0); }
  /// Of the files' bytes.
  [[nodiscard]] Bytes bytes() const { return contents_.bytes(); }

 private:
  Mutex changes_;                      // one at a time: bytes and names belong together
  TenantStore<std::string> contents_;  // by digest
  TenantStore<FileInfo> files_;        // by id
};

/// The media type of a file: by its first bytes if they are an image's or a sound's, otherwise `declared`;
/// without a useful declaration text or application/octet-stream.
[[nodiscard]] std::string media_type_of(std::string_view bytes, std::string_view declared);

}  // namespace afterimage
