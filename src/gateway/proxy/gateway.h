// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/reuse.h"
#include "caches/answers/answer_archive.h"
#include "foundation/http/caller.h"
#include "foundation/http/server.h"
#include "foundation/platform/atomic_snapshot.h"
#include "foundation/platform/random.h"
#include "foundation/platform/workers.h"
#include "foundation/telemetry/log.h"
#include "foundation/telemetry/metrics.h"
#include "gateway/access/tenants.h"
#include "gateway/config/settings.h"
#include "gateway/proxy/answer_history.h"
#include "gateway/proxy/backend.h"
#include "gateway/proxy/counts.h"
#include "gateway/proxy/decisions.h"
#include "gateway/proxy/id_generator.h"
#include "gateway/proxy/shared_responses.h"
#include "gateway/proxy/spaces.h"

namespace afterimage {

/// What holds for requests from now on; those on their way keep what they began with.
struct ConfigSnapshot {
  Settings settings;
  std::unique_ptr<Tenants> tenants;
};

/// What the gateway is built from. Everything outlives it.
struct GatewayParts {
  Backend& backend;
  Reuse& reuse;
  AnswerArchive* archive;  // nullptr: answers are kept in memory only
  HttpCaller& caller;
  IoThreads& threads;
  Metrics& metrics;
  Log& log;
  IdGenerator& ids;
  const Clock& clock;
  Secret root;
};

/// An OpenAI-compatible server that answers from what it keeps, and asks the model for the rest.
///
/// The way of a request: who asks → what is asked → is it kept? → is it on its way? → ask, and give
/// the answer to all who wait for it → keep it. On any trouble with reuse the request goes to the
/// model untouched, and what is answered is not kept; what cannot be identified is not reused.
///
/// Errors   create: kInvalidArgument: settings that cannot hold. Requests: the bodies and codes of
///          the OpenAI API.
/// Threads  Any.
/// Source   src/gateway/DESIGN.md.
class Gateway {
 public:
  static Result<std::unique_ptr<Gateway>> create(const Settings& settings, GatewayParts parts);

  /// Of the public port.
  void handle(HttpRequest request, Responder responder);

  /// New settings for requests to come.
  Result<void> apply(const Settings& settings);
  [[nodiscard]] std::shared_ptr<const ConfigSnapshot> config() const { return config_.load(); }

  /// What would become of the request, in the same words; nothing is counted, asked or kept. The
  /// media that it names by address are not fetched.
  [[nodiscard]] Decision explain(ApiOperation operation, std::string body, HttpHeaders headers);

  /// Not ready any more: for whoever balances load, before the end.
  void start_draining() { draining_ = true; }
  [[nodiscard]] bool draining() const { return draining_; }

  [[nodiscard]] const GatewayParts& parts() const { return parts_; }
  [[nodiscard]] Counts& counts() { return counts_; }
  [[nodiscard]] Decisions& decisions() { return decisions_; }
  [[nodiscard]] AnswerHistory& history() { return history_; }
  [[nodiscard]] SharedResponses& responses() { return responses_; }
  [[nodiscard]] Spaces& spaces() { return spaces_; }
  /// Where bodies are read that take longer than others may wait.
  [[nodiscard]] Workers& readers() { return readers_; }
  /// Where a disk is waited for: however slow it is, bodies are read meanwhile.
  [[nodiscard]] Workers& disk_workers() { return disk_workers_; }
  /// Where an erasing is waited for: one that holds for other processes takes seconds.
  [[nodiscard]] Workers& erasers() { return erasers_; }
  /// A lease that is given back when its last copy goes, on whatever thread: telling the servers
  /// takes time, and has a thread of its own.
  [[nodiscard]] std::shared_ptr<Lease> hold(std::unique_ptr<Lease> lease);
  /// An answer that turned out to be wrong leaves every place where it is kept. Returns at once.
  void forget(const Question& answered);
  /// Ends what runs on threads of the gateway's own.
  void stop();
  /// True with this probability.
  [[nodiscard]] bool chance(double share) { return Rng(chances_++).chance(share); }

 private:
  Gateway(GatewayParts parts, std::shared_ptr<const ConfigSnapshot> config);

  GatewayParts parts_;
  AtomicSnapshot<ConfigSnapshot> config_;
  Counts counts_;
  Decisions decisions_;
  AnswerHistory history_;
  SharedResponses responses_;
  Spaces spaces_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::uint64_t> chances_ = 0;
  Workers readers_;
  Workers disk_workers_;
  Workers erasers_;
  std::shared_ptr<Workers> lease_returners_;  // of turns; shared with those that are held
};

/// An answer of ours in the words of the API.
[[nodiscard]] HttpReply error_reply(unsigned status, std::string_view message,
                                    std::string_view type, std::string_view code);

}  // namespace afterimage
