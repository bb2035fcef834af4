// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "foundation/platform/mutex.h"
#include "gateway/openai/record.h"
#include "gateway/proxy/decisions.h"
#include "gateway/proxy/gateway.h"
#include "gateway/proxy/request_terms.h"
#include "gateway/proxy/shared_response.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

/// What becomes of the answer to one request: it is stored, or its decision says why not.
///
/// Threads  Any: answers are stored on the backend's thread, decisions are recorded on the request's,
///          in either order.
class AnswerStoring {
 public:
  /// All arguments outlive it. `terms`: nullopt until they are known.
  AnswerStoring(Gateway& gateway, const ConfigSnapshot& config, const RequestSubject& asked,
                const std::optional<ServingTerms>& terms)
      : gateway_(gateway), config_(config), asked_(asked), terms_(terms) {}

  /// Makes the forms under which the answer will be stored.
  void fold(Question question);

  /// An answer, as it came.
  struct Answered {
    const SharedResponse& response;
    Result<ApiRecord> record;
    std::shared_ptr<Lease> lease;  // goes when others can find what was stored, or nothing is
    Duration took;                 // to compute it
    const std::optional<SimilarLookup>& similar;  // what was found of similar questions
    std::string_view request_id;                  // for the log
    std::optional<Draw> draw = std::nullopt;      // that it is
  };
  /// Stores the answer, unless something speaks against it, before anybody reads its end: the next
  /// request finds it.
  void keep(Answered answered);
  /// Whether the answer was stored; nullopt: nobody knows yet.
  [[nodiscard]] std::optional<StoreResult> result() const;
  /// Adds the decision to those of the gateway. What became of the answer is added when it is known.
  /// Returns its id.
  std::uint64_t record(Decision&& decision);

 private:
  [[nodiscard]] StoreResult store(Answered answered, std::optional<Duration> ttl);
  /// Each input of a batch for itself. nullopt: the response does not have a vector for each.
  [[nodiscard]] std::optional<StoreResult> store_inputs(const Answered& answered,
                                                        std::optional<Duration> ttl);
  [[nodiscard]] StoreResult store_draw(const Answered& answered, std::optional<Duration> ttl);
  /// kStored: nothing about the answer itself speaks against it.
  [[nodiscard]] StoreResult may_store(const Answered& answered, bool is_draw) const;
  [[nodiscard]] Result<void> insert(Question& question, const Answer& answer,
                                    const AnswerFacts& facts,
                                    const AnswerArchive::ReadLease& before) const;
  [[nodiscard]] StoreResult not_inserted(const Answered& answered, const Error& error) const;
  [[nodiscard]] StoreResult why_without_record(const Answered& answered) const;
  [[nodiscard]] AnswerFacts facts(Duration took, std::optional<Duration> ttl) const;
  [[nodiscard]] Question folded_question();
  void learn(const Question& question, const Answered& answered) const;

  Gateway& gateway_;
  const ConfigSnapshot& config_;
  const RequestSubject& asked_;
  const std::optional<ServingTerms>& terms_;
  mutable Mutex mutex_;
  std::optional<StoreResult> result_ AFI_GUARDED_BY(mutex_);
  std::uint64_t decision_ AFI_GUARDED_BY(mutex_) = 0;      // its id; 0: not recorded yet
  std::optional<Question> folded_ AFI_GUARDED_BY(mutex_);  // the question with its forms
};

/// There should be a record of a response. A bounded answer has none on purpose
/// (BackendListener::on_bounded).
[[nodiscard]] bool lacks_record(const Result<ApiRecord>& record);

}  // namespace afterimage
