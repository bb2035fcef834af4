// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afterimage/secret.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "gateway/prompts/print_table.h"
#include "gateway/prompts/prompt_record.h"
#include "gateway/prompts/prompt_report.h"

namespace afterimage {

/// Which server had a prompt, as numbers that tell servers, and the starts of one, apart.
struct PromptServer {
  std::uint64_t server = 0;
  std::uint64_t starts = 0;
};

/// The last prompts of each tenant, as digests and lengths. Prompts of two tenants are never compared.
///
/// Memory   At most `capacity`, of all tenants together; then the oldest prompt of the tenant that holds the
///          most leaves. The next turn of a conversation takes the place of the one before it.
/// Cost     Depends on the prompt, not on how many are kept. What is added, counted and named takes its
///          place with settle(), or with the next look-up: a response need not wait for that.
/// Threads  Any.
class PromptHistory {
 public:
  using Shared = std::shared_ptr<const PromptRecord>;

  /// `capacity` 0: nothing is kept. `secret`: of this process.
  PromptHistory(Bytes capacity, const Secret& secret) : recorder_(secret), capacity_(capacity) {}
  [[nodiscard]] bool is_enabled() const { return capacity_ > Bytes(0); }

  /// A prompt, the closest earlier one, and where they part.
  struct Comparison {
    Shared now;
    Shared earlier;                    // nullptr: there is none
    PromptServer server = {};          // that had the earlier one
    std::uint64_t earlier_tokens = 0;  // as that server counted it; 0: unknown
    /// Of the prompts that a server has read since, the one that shares the most from the beginning.
    Shared later;  // nullptr: there is none
    PromptServer later_server = {};
    PromptReport report;  // before the server has said anything
  };
  /// Compares the prompt of a request with the one of `tenant` that shares the most from its beginning. If
  /// none shares anything, with the one that has the same first message, the same system prompt or the same
  /// tools, else with the last of the same conversation, else with the last of the same operation.
  [[nodiscard]] Comparison compare_with_closest(const std::string& tenant,
                                                const ApiRequest& request, PromptOrigin origin);
  /// The same with the prompt whose answer had this id. nullopt: none of `tenant`, or it has left.
  [[nodiscard]] std::optional<PromptReport> compare_with_response(const std::string& tenant,
                                                                  const PromptRecord& now,
                                                                  std::string_view id);

  /// A server has read the prompt. `tokens`: as it counted them; 0: it has not said so yet.
  void add(const std::string& tenant, const Shared& prompt, const PromptServer& server = {},
           std::uint64_t tokens = 0);
  /// The server has said how many tokens a prompt has that was added.
  void counted(const std::string& tenant, const Shared& prompt, std::uint64_t tokens);
  /// The answer to a prompt that was added has this id, as its client sees it.
  void name(const std::string& tenant, std::string_view id, const Shared& prompt);
  /// Puts what was added, counted and named into its place, and frees what has to leave for it.
  void settle();
  /// Returns how many prompts left.
  std::uint64_t erase_tenants(const std::function<bool(std::string_view tenant)>& chosen);

  [[nodiscard]] std::size_t size();
  [[nodiscard]] Bytes bytes();
  void check_invariants();

 private:
  using Order = std::uint64_t;  // of age, from 1 on
  struct Named {
    Order prompt;
    std::uint64_t bytes;  // a later turn took its place, which begins with so many bytes of it
  };
  /// A prompt that a server has read.
  struct Seen {
    Shared prompt;
    PromptServer server;
    std::uint64_t tokens = 0;  // 0: unknown
  };
  /// The prompt that shares the most, and of those that were seen since, the next.
  struct Closest {
    std::optional<Seen> closest;
    std::optional<Seen> later;
  };
  /// What add(), counted() and name() were told.
  struct News {
    enum class Kind : unsigned char { kAdded, kCounted, kNamed };
    Kind kind;
    std::string tenant;
    Seen seen;
    std::uint64_t id = 0;
  };
  struct Kept {
    Seen seen;
    std::vector<std::uint64_t> ids;  // of its answers
  };
  struct Held {
    explicit Held(std::uint64_t secret)
        : by_link(secret), by_part(secret), by_conversation(secret) {}

    std::map<Order, Kept> by_age;
    PrintTable by_link;          // the newest prompt with that link
    PrintTable by_part;          // the newest with that system prompt, first message or first tool
    PrintTable by_conversation;  // the newest
    std::unordered_map<std::uint64_t, Named> by_id;
    Bytes bytes{0};
  };
  using Tenants = std::map<std::string, Held, std::less<>>;
  struct HeldBytes {
    std::uint64_t bytes = 0;
    const std::string* tenant = nullptr;  // its key in tenants_
    bool operator<(const HeldBytes& other) const {
      return bytes != other.bytes ? bytes < other.bytes : *tenant < *other.tenant;
    }
  };

  [[nodiscard]] static std::size_t shared_links(const Held& held,
                                                const std::vector<std::uint64_t>& links);
  [[nodiscard]] static Closest closest_by_links(const Held& held,
                                                const std::vector<std::uint64_t>& links,
                                                std::size_t shared);
  [[nodiscard]] Closest find_by_links(const std::string& tenant,
                                      const std::vector<std::uint64_t>& links,
                                      const PromptOrigin& origin);
  [[nodiscard]] std::optional<Seen> find_by_parts(const std::string& tenant,
                                                  const PromptRecord& prompt);
  [[nodiscard]] std::uint64_t print_of(const std::string& conversation) const {
    return recorder_.key().print(conversation);
  }
  void tell(News news);
  void settle_locked() AFI_REQUIRES(mutex_);
  void take_in(News& news) AFI_REQUIRES(mutex_);
  void add_locked(News& news) AFI_REQUIRES(mutex_);
  void name_locked(Tenants::iterator tenant, Order prompt, const News& news) AFI_REQUIRES(mutex_);
  void insert(Tenants::iterator tenant, Kept kept) AFI_REQUIRES(mutex_);
  void remove(Tenants::iterator tenant, Order order) AFI_REQUIRES(mutex_);
  void charge(Tenants::iterator tenant, Bytes more, Bytes less) AFI_REQUIRES(mutex_);
  void trim_to_capacity() AFI_REQUIRES(mutex_);
  void take_place_of(Tenants::iterator tenant, Order before, Order order) AFI_REQUIRES(mutex_);
  void drop_if_empty(Tenants::iterator tenant) AFI_REQUIRES(mutex_);

  const PromptRecorder recorder_;
  const Bytes capacity_;
  Mutex mutex_;
  std::vector<News> news_ AFI_GUARDED_BY(mutex_);  // not in its place yet
  Tenants tenants_ AFI_GUARDED_BY(mutex_);
  std::set<HeldBytes> by_size_ AFI_GUARDED_BY(mutex_);
  Order last_ AFI_GUARDED_BY(mutex_) = 0;
  Bytes bytes_ AFI_GUARDED_BY(mutex_){0};
};

}  // namespace afterimage
