// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/encoder_cache.h"
#include "afterimage/memory_budget.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// What agents keep between their steps and could make again: retrieved documents, results of tools, a
/// conversation's state. Bytes under a name; what they mean is the caller's business.
///
/// Unit     Bytes, charged to a budget that other caches may share; and tokens, as the caller counts them.
/// Threads  Any.
/// Source   An EncoderCache holds them: eviction, pressure and idle limits are its.
class ContextCache {
 public:
  struct Options {
    std::uint64_t max_tokens = UINT64_MAX;  // of all contexts together
    EntryCount max_entries = EntryCount(1'000'000);
    std::string policy = "worth";  // one of policy_names()
    bool keep_idle_order = false;  // for BudgetClient::evict_idle()
  };
  /// What the caller says of a context.
  struct Facts {
    std::uint64_t tokens = 0;  // that it is in a prompt, for Options::max_tokens
    Duration cost{0};          // to make it again, which each hit saves; 0: unknown
    /// The step that made it, and those that may follow: contexts of the step that comes last leave first.
    WorkflowHint step = {};
  };
  /// A context, resident while this lives. Move-only.
  class Held {
   public:
    [[nodiscard]] std::span<const std::byte> bytes() const;

   private:
    friend class ContextCache;
    explicit Held(Pin pin) : pin_(std::move(pin)) {}
    Pin pin_;
  };

  /// `budget`, `clock` and `shared` outlive the cache; `shared`: the other users of the budget, or nullptr.
  /// kInvalidArgument: no such policy, or max_entries is 0.
  static Result<std::unique_ptr<ContextCache>> create(const Options& options, MemoryBudget& budget,
                                                      const Clock& clock,
                                                      SharedBudget* shared = nullptr);
  ~ContextCache();
  ContextCache(const ContextCache&) = delete;
  ContextCache& operator=(const ContextCache&) = delete;

  /// Copies the bytes in under this name, in place of what was there, and evicts until they fit.
  /// kNoSpace: they do not; kUnavailable: memory is so short that nothing is admitted.
  Result<void> set(std::string_view name, std::span<const std::byte> bytes, const Facts& facts);
  /// nullopt: it is not there. `step`: who asks, and what may follow.
  [[nodiscard]] std::optional<Held> get(std::string_view name, const WorkflowHint& step = {});
  /// Of a context that is resident; no use.
  [[nodiscard]] std::optional<EncoderEntryInfo> info(std::string_view name) const;
  /// False: it was not there.
  bool erase(std::string_view name);
  void clear();
  [[nodiscard]] EncoderCacheStats stats() const;
  /// For SharedBudget::join().
  [[nodiscard]] BudgetClient& client();

 private:
  struct State;
  explicit ContextCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
