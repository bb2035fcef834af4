// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/reuse.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/workers.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

/// One step of a client's workflow: an agent's turn, by the names that the client gives.
struct ClientStep {
  std::string tenant;
  std::string workflow;
  std::string step;
  auto operator<=>(const ClientStep&) const = default;
};

/// Brings up, from disk or servers, what the next step of a client's workflow will need, while the client
/// is busy between two steps: the KV and encoder outputs that the last request of that step used.
///
/// What comes next is what the client says, or else the step that has mostly followed. A prefetch is
/// useful if its step is the workflow's next and comes within `useful_within`; runs of one workflow at
/// the same time need names of their own. A tenant of whose last eight less than two were
/// useful gets only every eighth, until that changes: so a wrong or hostile hint costs a bounded number of
/// loads of its tenant's own entries.
///
/// Errors   None: what cannot be loaded is computed by the request that needs it.
/// Threads  Any. Loads run on one thread of its own.
/// Cost     A few look-ups a request. Remembers keys and tokens, no content.
/// Source   src/gateway/engine_backend/DESIGN.md.
class StepPrefetcher {
 public:
  struct Options {
    std::size_t steps = 1024;            // remembered; the least recently used go
    std::uint64_t tokens = 8ULL << 20U;  // of their prompts, together
    Duration useful_within = std::chrono::minutes(2);
    std::size_t waiting = 64;
  };
  using Prefetch = std::function<Result<Prefetched>(const PrefetchTarget&)>;

  /// `clock` and what `prefetch` uses outlive it.
  StepPrefetcher(const Options& options, Prefetch prefetch, const Clock& clock);
  ~StepPrefetcher() { stop(); }
  StepPrefetcher(const StepPrefetcher&) = delete;
  StepPrefetcher& operator=(const StepPrefetcher&) = delete;

  /// A request of the step has arrived.
  void begins(const ClientStep& step);
  /// It has been answered. `next`: what the client expects; empty: unknown.
  void ends(const ClientStep& step, const std::vector<std::string>& next,
            std::shared_ptr<const PrefetchTarget> used);

  [[nodiscard]] PrefetchCounts counts() const;
  /// The steps that were used last, at most so many.
  [[nodiscard]] std::vector<SeenStep> steps(std::size_t most) const;
  /// Waits until every load that was asked for has ended: for tests.
  void await_loads() const;
  /// No prefetch begins any more; waits for the one that runs.
  void stop() { loader_.stop(); }

 private:
  static constexpr std::uint32_t kJudged = 8;  // prefetches by which a tenant is judged
  static constexpr std::uint32_t kLeastUseful = 2;

  struct Step {
    std::shared_ptr<const PrefetchTarget> used;
    std::uint64_t requests = 0;
    std::map<std::string, std::uint32_t> followed_by;
    std::optional<Duration> useful_until;  // it was loaded, and has not come since
    std::list<ClientStep>::iterator in_order;
    void note_next(const std::string& next);
  };
  struct Tenant {
    std::uint32_t judged = 0;   // at most kJudged
    std::uint32_t history = 0;  // a bit each, the newest first: whether it was useful
    std::uint32_t declined = 0;
  };

  void forget_oldest() AFI_REQUIRES(mutex_);
  void judge(const std::string& tenant, bool useful) AFI_REQUIRES(mutex_);
  void expire(const ClientStep& name, Step& step) AFI_REQUIRES(mutex_);
  [[nodiscard]] bool may_load(const std::string& tenant) AFI_REQUIRES(mutex_);
  [[nodiscard]] std::vector<std::string> expected_after(const Step& step) const
      AFI_REQUIRES(mutex_);
  void prefetch_step(const ClientStep& name) AFI_REQUIRES(mutex_);
  void loaded(const ClientStep& name, const Result<Prefetched>& loaded);

  const Options options_;
  const Prefetch prefetch_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<ClientStep, Step> steps_ AFI_GUARDED_BY(mutex_);
  std::list<ClientStep> order_ AFI_GUARDED_BY(mutex_);  // the least recently used first
  std::uint64_t tokens_ AFI_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Tenant> tenants_ AFI_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, std::string> last_step_
      AFI_GUARDED_BY(mutex_);  // by tenant and workflow
  PrefetchCounts counts_ AFI_GUARDED_BY(mutex_);
  std::uint64_t loading_ AFI_GUARDED_BY(mutex_) = 0;  // asked for, and not ended
  mutable Condition ended_;
  Workers loader_;
};

}  // namespace afterimage
