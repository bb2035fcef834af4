// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// The pages of the documents that were read last, so that the next question about one need not
/// rasterise it again.
///
/// Unit     Capacity counts the bytes of the pages' files. A document that is larger is not kept.
/// Threads  Any.
class PageMemory {
 public:
  using Key = std::array<std::byte, kDigestBytes>;
  using Pages = std::vector<FileBytes>;

  explicit PageMemory(Bytes capacity) : capacity_(capacity) {}

  [[nodiscard]] std::optional<Pages> find(const Key& key);
  /// Forgets those used least recently until it fits.
  void keep(const Key& key, const Pages& pages);

 private:
  struct Kept {
    Pages pages;
    Bytes size;
    std::list<Key>::iterator place;
  };

  const Bytes capacity_;
  Mutex mutex_;
  std::map<Key, Kept> kept_ AFI_GUARDED_BY(mutex_);
  std::list<Key> by_use_ AFI_GUARDED_BY(mutex_);  // the last used first
  Bytes used_ AFI_GUARDED_BY(mutex_){0};
};

}  // namespace afterimage
