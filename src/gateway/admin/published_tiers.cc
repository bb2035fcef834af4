// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <functional>
#include <string>

#include "afterimage/shared_store.h"
#include "caches/answers/answer_archive.h"
#include "gateway/admin/admin.h"
#include "gateway/admin/published.h"
#include "storage/remote/redis_leases.h"
#include "storage/remote/remote_tier.h"

namespace afterimage {
namespace {

void write_tier(MetricsWriter& out, const std::string& tier, const TierStats& stats) {
  const auto total = [&](const char* name, const char* help, std::uint64_t value) {
    count(out, name, help, value, {{"tier", tier}});
  };
  total("afterimage_tier_hits_total", "Entries that a tier below memory returned, verified",
        stats.hits);
  total("afterimage_tier_misses_total",
        "Entries that a tier below memory was asked for and did not return, for whatever reason",
        stats.misses);
  total("afterimage_tier_puts_total", "Entries that a tier below memory accepted", stats.puts);
  total("afterimage_tier_refused_total", "Entries that a tier below memory did not accept",
        stats.refused);
  total("afterimage_tier_damaged_total", "Entries of a tier below memory that failed verification",
        stats.damaged);
  total("afterimage_tier_failures_total", "Calls that the disk or the servers failed",
        stats.failures);
  out.gauge("afterimage_tier_degraded", "1 while a tier does less than it should", {{"tier", tier}},
            stats.degraded_reason.empty() ? 0 : 1);
}

void write_remote(MetricsWriter& out, const RemoteTierStats& stats, const RedisLeasesStats& turns) {
  count(out, "afterimage_remote_lost_total",
        "Entries that the remote tier accepted and that did not arrive on a server", stats.lost);
  count(out, "afterimage_remote_incomplete_total",
        "Entries on servers of which a chunk was missing, evicted for example", stats.incomplete);
  count(out, "afterimage_remote_circuit_rejected_total",
        "Entries that missed without a call, because the circuit breaker of their server was open",
        stats.circuit_rejected);
  count(out, "afterimage_remote_breaks_total", "Times that a circuit breaker of a server opened",
        stats.cluster.times_opened);
  count(out, "afterimage_remote_redirected_total",
        "Commands that a cluster redirected to another server", stats.cluster.redirected);
  count_by(out, "afterimage_lease_attempts_total",
           "Attempts to take the lease to encode or prefill an item, by result", "result",
           {{"acquired", turns.acquired},
            {"elsewhere", turns.elsewhere},
            {"unavailable", turns.unavailable},
            {"expired", turns.expired}});
}

void write_archive(MetricsWriter& out, const AnswerArchiveStats& stats) {
  count_by(out, "afterimage_archive_answers_total",
           "Answers put into or found in a tier below memory, by result", "outcome",
           {{"kept", stats.kept},
            {"refused", stats.refused},
            {"restored", stats.restored},
            {"erased", stats.erased},
            {"expired", stats.expired},
            {"failed", stats.failed}});
  out.gauge("afterimage_shared_answers_known",
            "1 while answers are shared and this gateway knows all invalidations", {},
            stats.shared && stats.may_serve ? 1 : 0);
  count(out, "afterimage_shared_answers_without_lease_total",
        "Cached answers not served because this process had no lease to serve answers",
        stats.without_lease);
  count(out, "afterimage_invalidations_applied_total",
        "Invalidations applied from the shared log, this gateway's own included", stats.applied);
  count(out, "afterimage_shared_answers_generations_total",
        "Generations of the shared list, 1 after the start", stats.generations);
  count(out, "afterimage_shared_answers_read_failures_total", "Failed reads of the shared list",
        stats.read_failures);
}

}  // namespace

void publish_tiers(Metrics& metrics, const Tier* gpu, const Tier* disk, const SharedStore* remote,
                   const AnswerArchive* archive) {
  metrics.on_scrape([gpu, disk, remote, archive](MetricsWriter& out) {
    write_tier(out, "gpu", gpu == nullptr ? TierStats() : gpu->stats());
    write_tier(out, "disk", disk == nullptr ? TierStats() : disk->stats());
    write_tier(out, "remote", remote == nullptr ? TierStats() : remote->tier().stats());
    write_remote(out, remote == nullptr ? RemoteTierStats() : remote->remote_tier().remote_stats(),
                 remote == nullptr ? RedisLeasesStats() : remote->redis_leases().stats());
    write_archive(out, archive == nullptr ? AnswerArchiveStats() : archive->stats());
  });
}

}  // namespace afterimage
