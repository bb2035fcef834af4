// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/secret.h"
#include "afterimage/tier.h"
#include "caches/answers/answer_observer.h"
#include "caches/similarity/similar_page.h"
#include "caches/similarity/similarity.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"
#include "storage/memory/shared_cell.h"

namespace afterimage {

struct SimilarityArchiveStats {
  std::uint64_t kept = 0;      // candidates written
  std::uint64_t restored = 0;  // candidates read that the match level did not have
  std::uint64_t failed = 0;    // reads and writes, of pages and of the evidence
  std::uint64_t epoch = 0;     // of the evidence
};

/// What an archive needs. All must outlive it.
struct SimilarityArchiveDependencies {
  SimilarityLevel& level;
  AnswerCache& cache;
  Tier& tier;              // stores pages of candidates
  SharedCell& evidence;    // of all scopes, by the match level's layers and verifier
  MemoryBudget& transfer;  // charged for bytes being loaded
  const Clock& clock;
  Secret secret{};  // keys are derived from it
  /// Another number after each erasure that may take pages from the tier, before it does.
  std::function<std::uint64_t()> erasures = {};
};

/// Candidates and evidence of a SimilarityLevel, for later processes and for others that share the
/// tier.
///
///   refresh() -> SimilarityLevel::find -> the model -> SimilarityLevel::insert, keep()
///                                                  -> SimilarityLevel::learn, learned()
///
/// Shape    A scope's candidates are in pages of about kPageBytes, written to the last one. Two
///          processes that write the same page at the same moment may lose a candidate, which costs
///          a hit. Evidence is added by compare-and-swap, and none is lost.
/// Epochs   forget() voids what every process has learnt. The others follow within kReadAgain.
/// Errors   None: what cannot be read or written is counted, and costs hits only.
/// Threads  Any. Calls read and write the tier, one after another.
/// Cost     refresh: a page that is not there, or the last page; at most one read in kReadAgain and
///          kPagesAtOnce pages for a scope. keep, learned: a page is read and written.
/// Source   src/caches/similarity/DESIGN.md, docs/formats/similar.md.
class SimilarityArchive final : public AnswerObserver {
 public:
  static constexpr std::size_t kPageBytes = std::size_t{64} << 10U;
  static constexpr std::size_t kPagesAtOnce = 16;
  static constexpr Duration kReadAgain = std::chrono::seconds(1);

  explicit SimilarityArchive(const SimilarityArchiveDependencies& dependencies);
  ~SimilarityArchive() override;
  SimilarityArchive(const SimilarityArchive&) = delete;
  SimilarityArchive& operator=(const SimilarityArchive&) = delete;

  /// Gives the match level what the tier and other processes know of this scope, and their evidence.
  void refresh(const ScopeId& scope);
  /// To be asked before anything that is kept later is known to be there.
  [[nodiscard]] std::uint64_t erasures() const {
    return dependencies_.erasures ? dependencies_.erasures() : 0;
  }
  /// Stores a candidate of the match level, whose answer was there after `since` was asked for: what erasures() said.
  void keep(const Question& question, std::span<const Vector> vectors, std::uint64_t since);
  /// Stores what match level.learn() returned for this look-up.
  void learned(const Question& question, const SimilarityLookup& found, bool right);
  /// Stores that these candidates of a scope are suspected.
  void suspected(const ScopeId& scope, std::span<const Suspect> suspects);
  /// Voids the evidence of every process, and of the match level.
  void forget();

  void answer_removed(const ScopeId& scope, std::string_view question) override;
  [[nodiscard]] SimilarityArchiveStats stats() const;

 private:
  /// What was read of a scope.
  struct Known {
    std::size_t last = 0;  // number of the last page, where candidates are added
    std::optional<Duration> read_at;
    std::unordered_map<std::string, std::size_t> page_of;  // by question
  };

  [[nodiscard]] TierKey key_of(const ScopeId& scope, std::size_t page) const;
  [[nodiscard]] Known& known(const ScopeId& scope) AFI_REQUIRES(mutex_);
  [[nodiscard]] bool is_due(const std::optional<Duration>& read_at) const;
  /// Empty if there is none that can be used. Its evidence is of the current epoch.
  SimilarPage read(const TierKey& key) AFI_REQUIRES(mutex_);
  /// Of what was read, or known, after `since`: if anything was erased meanwhile, the page is erased again.
  void write(const TierKey& key, const SimilarPage& page, std::uint64_t since) AFI_REQUIRES(mutex_);
  void read_pages(const ScopeId& scope, Known& known) AFI_REQUIRES(mutex_);
  /// Of a match with a candidate, in its page.
  void learn_in_page(const ScopeId& scope, const std::string& candidate, const SimilarityKind& kind,
                     bool right) AFI_REQUIRES(mutex_);
  /// Adds what is not shared yet, and takes over what other processes have added.
  void share_evidence() AFI_REQUIRES(mutex_);
  /// False: another process was first.
  bool try_to_share() AFI_REQUIRES(mutex_);
  void fail_once() AFI_REQUIRES(mutex_) { ++stats_.failed; }

  const SimilarityArchiveDependencies dependencies_;
  const std::vector<std::string> layers_;
  const std::string verified_by_;
  mutable Mutex mutex_;
  std::unordered_map<ScopeKey, Known, DigestHash> scopes_ AFI_GUARDED_BY(mutex_);
  std::uint64_t epoch_ AFI_GUARDED_BY(mutex_) = 0;
  EvidenceTable unshared_ AFI_GUARDED_BY(mutex_);
  std::optional<Duration> evidence_read_at_ AFI_GUARDED_BY(mutex_);
  SimilarityArchiveStats stats_ AFI_GUARDED_BY(mutex_);
  /// Scopes that lost a candidate. A lock of its own, because it is taken under the answer cache's.
  Mutex dropped_mutex_;
  std::set<ScopeKey> dropped_ AFI_GUARDED_BY(dropped_mutex_);
};

}  // namespace afterimage
