// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/question.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "gateway/prompts/prompt_report.h"
#include "gateway/proxy/reasons.h"
#include "storage/memory/checksum.h"

namespace afterimage {

/// What became of the answers to the questions that were asked last, so that a miss can say why.
///
/// Shape    At most `capacity` questions, the oldest forgotten first; about 100 bytes each.
/// Threads  Any.
class AnswerHistory {
 public:
  static constexpr std::size_t kCapacity = 10'000;
  explicit AnswerHistory(std::size_t capacity = kCapacity) : capacity_(capacity) {}

  struct Entry {
    StoreResult result = StoreResult::kStored;
    std::optional<Duration> expires = std::nullopt;  // of what was stored; absent: never
  };
  /// `replaces`: whatever was stored before is gone. Else a stored answer stays the last word when
  /// this one was not stored.
  void record(const Question& question, const Entry& entry, bool replaces);
  [[nodiscard]] std::optional<Entry> find(const Question& question) const;
  [[nodiscard]] std::size_t size() const;

 private:
  /// Not proof against forgery: two questions with one key would share an explanation, and nothing else.
  using Key = Checksum;
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return key.low; }
  };
  static Key key_of(const Question& question);

  const std::size_t capacity_;
  mutable Mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_ AFI_GUARDED_BY(mutex_);
  std::deque<Key> oldest_first_ AFI_GUARDED_BY(mutex_);
};

/// Of a look-up at `now` that went down `steps` and found nothing.
struct MissExplanation {
  MissReason reason = MissReason::kNeverSeen;
  std::string why;  // a sentence for a person
};
[[nodiscard]] MissExplanation explain_miss(std::span<const MatchStep> steps,
                                           const std::optional<AnswerHistory::Entry>& known,
                                           Duration now);

/// How the prompt of a question that was never seen differs from the closest earlier one of its client, for
/// a person.
[[nodiscard]] std::string differs_from_closest(const PromptReport& prompt);

}  // namespace afterimage
