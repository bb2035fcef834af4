// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/clock.h"
#include "afterimage/question.h"
#include "afterimage/units.h"
#include "caches/similarity/similar_answers.h"
#include "foundation/platform/mutex.h"
#include "gateway/access/cache_control.h"
#include "gateway/prompts/prompt_report.h"
#include "gateway/protocol/stabilise.h"
#include "gateway/proxy/answer_history.h"
#include "gateway/proxy/reasons.h"
#include "gateway/proxy/route.h"

namespace afterimage {

/// How a request ended, as metrics, logs and pages name it.
enum class Outcome : unsigned char { kHit, kJoined, kMiss, kBypass, kRefresh, kError };
inline constexpr std::size_t kOutcomes = 6;
/// "hit", "joined", "miss", "bypass", "refresh", "error".
std::string_view to_string(Outcome outcome);

struct DecidedMedia {
  Modality modality = Modality::kImage;
  std::string digest;  // hex
  Bytes bytes;
};

/// The look-up by similarity: the closest question, and why its answer was served or not.
struct SimilarStep {
  Verdict verdict = Verdict::kMissed;
  std::string candidate;                      // empty: no question is similar
  float similarity = 0;                       // the cosine
  std::vector<std::string> vetoes;            // by which words the questions differ too much
  std::string verification;                   // what the verifier said; empty: it was not asked
  std::string verifier_error;                 // why it said nothing
  std::optional<float> score = {};            // its score of the candidate
  std::optional<double> right_at_least = {};  // the lower bound that decided
  Duration age{0};
  Duration took{0};
};

/// What a request asked, and the stored answer that it got, for somebody who says that the answer
/// was wrong.
struct Answered {
  Question asked;
  std::optional<std::string> stored_as =
      std::nullopt;  // the question whose answer it got, if another
  std::optional<SimilarLookup> similar = std::nullopt;  // by which it was found
  std::vector<Question> inputs = {};                    // of a batch: entries of their own
};

/// What became of one request, and why: the decision record.
struct Decision {
  std::uint64_t id = 0;
  WallTime at{};
  std::string tenant;
  std::string cache_namespace;  // the tenant whose namespace it uses
  std::string operation;
  std::string protocol = "openai";  // or "messages", "responses": translated to the operation
  std::string model;
  Outcome outcome = Outcome::kError;
  std::string level;  // of the match levels that served; empty: none
  Reason reason = Reason::kNone;
  std::string why;  // a sentence for a person
  Duration took{0};
  Duration first_byte{0};
  Duration saved{0};
  std::uint64_t saved_prompt_tokens = 0;
  std::uint64_t saved_output_tokens = 0;
  unsigned status = 0;
  std::string request_id;
  std::string trace_id;                    // of the request's W3C traceparent, if any
  std::string question;                    // its beginning
  std::string scope;                       // hex
  std::vector<std::string> ignored;        // what of the request has no influence on the answer
  std::vector<StabilisedPart> stabilised;  // what of the prompt was changed
  bool repeats = false;  // a bypass: this process has seen an equal request before
  std::optional<StoreResult> stored = std::nullopt;  // absent: nothing was to be stored
  std::optional<MissReason> miss = std::nullopt;     // why the look-up found nothing
  std::uint32_t draw = 0;                            // of a sampled request; 0: none
  /// Of a request that reached the model's server: what its prompt shares with an earlier one.
  std::optional<PromptReport> prompt = std::nullopt;
  std::vector<MatchStep> match_levels;
  std::optional<SimilarStep> similar = std::nullopt;  // the match level below these
  std::vector<DecidedMedia> media;
  std::shared_ptr<const Route> route = nullptr;  // nullptr: no replica was chosen
  std::shared_ptr<const Answered> answered =
      nullptr;  // nullptr: no stored answer has to do with it
};

/// The beginning of a text, as decisions keep it and pages show it, without half a character at the end.
[[nodiscard]] std::string beginning_of(std::string_view text);
/// Steps with the beginnings of their candidates.
[[nodiscard]] MatchStep shown(const MatchStep& step);
[[nodiscard]] std::vector<MatchStep> shown(std::span<const MatchStep> steps);

/// The last thousand decisions, and the newest 16 MiB of what they answered.
/// Threads  Any.
class Decisions {
 public:
  static constexpr std::size_t kMaxAnswered = 16UL * 1024 * 1024;
  explicit Decisions(std::size_t keep = 1000, std::size_t max_answered = kMaxAnswered)
      : keep_(keep), max_answered_(max_answered) {}

  /// Takes it, gives it its id, and returns that: 1, 2, ….
  std::uint64_t add(Decision&& decision);
  /// What became of the answer is known only after the decision was added: its client left early.
  void set_stored(std::uint64_t id, StoreResult stored);
  /// The server has said how much of the prompt it reused.
  void set_prompt(std::uint64_t id, const PromptReport& prompt);
  /// Forgets the texts of these requests: questions, and what they were compared with. Their answers can no
  /// longer be reported as wrong.
  void forget_texts(const std::function<bool(const Decision&)>& chosen);
  /// Forgets the examples of these tenants' prompts.
  void forget_examples(const std::function<bool(std::string_view tenant_id)>& chosen);
  /// The newest `limit` of those whose id is above `after`, the oldest first.
  [[nodiscard]] std::vector<Decision> list(std::uint64_t after, std::size_t limit) const;
  [[nodiscard]] std::optional<Decision> find(std::uint64_t id) const;
  /// The newest of that request and that tenant; empty: of any tenant.
  [[nodiscard]] std::optional<Decision> find(std::string_view request_id,
                                             std::string_view tenant) const;
  /// Removes what the answer was about, so that it is reported only once. False: it was removed.
  bool take_answered(std::uint64_t id);
  /// The newest id; 0: none yet.
  [[nodiscard]] std::uint64_t last() const;

 private:
  /// The id before those that are kept.
  [[nodiscard]] std::uint64_t first_kept() const AFI_REQUIRES(mutex_) {
    return last_ - kept_.size();
  }
  /// Where the decision with this id is, or was, or will be.
  [[nodiscard]] std::size_t place_of(std::uint64_t id) const { return (id - 1) % keep_; }
  [[nodiscard]] Decision* find_kept(std::uint64_t id) AFI_REQUIRES(mutex_);
  void forget_answered(Decision& decision) AFI_REQUIRES(mutex_);

  const std::size_t keep_;
  const std::size_t max_answered_;  // bytes
  mutable Mutex mutex_;
  std::uint64_t last_ AFI_GUARDED_BY(mutex_) = 0;
  std::vector<Decision> kept_ AFI_GUARDED_BY(mutex_);  // a ring
  std::size_t answered_bytes_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t answered_from_ AFI_GUARDED_BY(mutex_) = 1;  // earlier ones have none
};

}  // namespace afterimage
