// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "caches/invalidation/invalidation_log.h"
#include "caches/invalidation/invalidations.h"
#include "foundation/platform/periodic_task.h"
#include "tiers.h"

namespace afterimage::python {

/// Secrets from which a cache derives the tier keys of its entries, one for each namespace. Erasing
/// a namespace changes its secret, because a tier cannot list the entries of a namespace: what was
/// stored before is never asked for again, also by later processes and by those that share the
/// servers. Its bytes stay until the tier needs the space.
///
/// Shape    A secret depends on the invalidation list's own secret and on the number of the last
///          invalidation that concerns the namespace. A lost or damaged list loses all entries.
/// Shared   As AnswerArchive: processes apply each other's invalidations within a lease, and one
///          whose lease has expired does not use the tier. Its memory it uses.
/// Errors   Of erase() only. kUnavailable: it could not be recorded; then nothing is read or stored
///          until an invalidation succeeds.
/// Threads  Any.
class TierNames {
 public:
  /// Removes from memory what is erased: one namespace, or nullptr for everything.
  using EraseMemory = std::function<void(const NamespaceId* space)>;

  /// Everything that `erase_memory` uses outlives the object. Errors as InvalidationPlace::open;
  /// kUnavailable: the list can be neither read nor created.
  static Result<std::unique_ptr<TierNames>> open(TierPtr below, std::string kind,
                                                 const Secret& root, EraseMemory erase_memory);

  /// nullopt: the list of erasures is not up to date, so the tier must not be used now. `space` is
  /// nullptr for entries of no namespace.
  [[nodiscard]] std::optional<Secret> secret_of(const NamespaceId* space) const;
  /// Erases a namespace, or everything, in memory and below. With servers it takes 2.2 seconds;
  /// when it returns, no process that reaches them uses the entries.
  Result<void> erase(const NamespaceId* space);
  /// Why the tier is not used; empty: it is.
  [[nodiscard]] std::string degraded_reason() const;

 private:
  explicit TierNames(EraseMemory erase_memory)
      : erase_memory_(std::move(erase_memory)), list_(Secret{}) {}
  Result<void> read_file();
  Result<void> reset_file();
  Result<void> add(const Invalidation& invalidation);
  Result<void> persist(const Invalidation& invalidation);
  void refresh();
  void apply(InvalidationList next, Duration read_at);

  SystemClock clock_;
  const EraseMemory erase_memory_;
  std::unique_ptr<InvalidationPlace> place_;
  std::mutex changing_;       // serializes changes of the list; taken before mutex_
  mutable std::mutex mutex_;  // guards what follows
  InvalidationList list_;
  Secret names_{};
  Duration usable_until_ = Duration::min();
  bool persisted_ = true;  // the file has what list_ has
  std::string degraded_reason_;
  std::unique_ptr<PeriodicTask> poller_;  // last: it uses the members above
};

}  // namespace afterimage::python
