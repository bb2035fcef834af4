// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What a requester sees is distributed as the model's own answers: in simulated time, thousands of
// requesters ask a model whose answers have known probabilities and differ in how long they take and how
// large they are. Ways to get it wrong are simulated, too, and must be noticed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/draws/draws.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

/// One answer of the model.
struct Kind {
  double share;
  Duration took;
  std::size_t size;
};
constexpr std::array<Kind, 5> kKinds{{{.share = 0.40, .took = 20ms, .size = 100},
                                      {.share = 0.25, .took = 60ms, .size = 200},
                                      {.share = 0.20, .took = 300ms, .size = 400},
                                      {.share = 0.10, .took = 1s, .size = 1000},
                                      {.share = 0.05, .took = 3s, .size = 2000}}};

enum class Fault : unsigned char {
  kNone,
  kFirstFinishedWins,   // concurrent requesters ask, and the first to end is kept
  kSameDrawTwice,       // nobody remembers who has had a draw
  kWhoLeavesHasHadIt,   // a client that left and comes back is given another draw
  kCancelledCallsEnd,   // a client that leaves ends the call, and the next one asks again
  kLongOnesAreNotKept,  // as if answers that a limit ended were no answers
  kWaitingIsTooLong,    // who would have to wait for a draw asks for one of its own
  kEvictedBySize,       // the policy is told what a draw is
};
constexpr std::array kFaults{Fault::kFirstFinishedWins,  Fault::kWhoLeavesHasHadIt,
                             Fault::kSameDrawTwice,      Fault::kCancelledCallsEnd,
                             Fault::kLongOnesAreNotKept, Fault::kWaitingIsTooLong,
                             Fault::kEvictedBySize};

/// P(chi-square with an even number of degrees of freedom ≥ x).
double p_value(double x, unsigned degrees) {
  double term = 1;
  double sum = 1;
  for (unsigned i = 1; i < degrees / 2; ++i) sum += term *= x / 2 / i;
  return std::exp(-x / 2) * sum;
}

/// Counts, and how likely each is.
struct Table {
  std::vector<double> shares;
  std::vector<double> counts = std::vector<double>(shares.size());

  [[nodiscard]] double chi_square() const {
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double expected = all * shares[i];
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
  }
  [[nodiscard]] unsigned degrees() const { return static_cast<unsigned>(shares.size()) - 1; }
};

std::vector<double> shares_of_kinds() {
  std::vector<double> shares;
  for (const Kind& kind : kKinds) shares.push_back(kind.share);
  return shares;
}

/// Of pairs: the first kind, the second, the rest.
constexpr std::size_t kClasses = 3;
std::size_t class_of(std::size_t kind) { return std::min(kind, kClasses - 1); }
std::vector<double> shares_of_pairs() {
  std::array<double, kClasses> share{};
  for (std::size_t i = 0; i < kKinds.size(); ++i) share[class_of(i)] += kKinds[i].share;
  std::vector<double> shares;
  for (const double first : share) {
    for (const double second : share) shares.push_back(first * second);
  }
  return shares;
}

/// Gateway, cache, model and clients, in simulated time.
class World {
 public:
  World(Rng& rng, Fault fault) : rng_(rng), fault_(fault) {
    AnswerCacheOptions options;
    options.policy = make_policy(fault == Fault::kEvictedBySize ? "gdsf" : "worth").value();
    cache_ = AnswerCache::create(std::move(options), budget_, clock_).value();
    cache_->add_observer(draws_);
  }
  ~World() { cache_->remove_observer(draws_); }

  void run() {
    for (std::size_t question = 0; question < kQuestions; ++question) plan(question);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      clock_.advance(event.at - clock_.now());
      event.happens();
    }
    draws_.check_invariants();
    cache_->check_invariants();
  }

  /// What one requester of each question saw first, chosen before anybody asked.
  Table first{.shares = shares_of_kinds()};
  /// What the requester saw who asked first, left soon, and came back.
  Table returned{.shares = shares_of_kinds()};
  /// What one requester of each question saw first and then.
  Table pairs{.shares = shares_of_pairs()};
  std::size_t served = 0;  // without asking the model
  std::size_t repeated = 0;
  [[nodiscard]] AnswerCacheStats cached() const { return cache_->stats(); }

 private:
  static constexpr std::size_t kQuestions = 1000;
  static constexpr int kClients = 8;  // of a question

  /// One request.
  struct Client {
    std::size_t question;
    RequesterId who;
    std::optional<Duration> leaves_after = std::nullopt;  // nullopt: it waits
    bool counts_first = false;
    bool comes_back = false;  // and waits then
    /// What its requester sees with two requests, in the order in which it asks.
    std::shared_ptr<std::array<std::optional<std::size_t>, 2>> pair = nullptr;
    std::size_t of_pair = 0;
    /// The draws that its requester was given. One that failed is not among them.
    std::shared_ptr<std::set<std::uint64_t>> had;
  };
  struct Call {
    std::optional<Draw> draw;
    std::size_t kind;
    bool fails;
    bool over = false;
    std::vector<std::shared_ptr<Client>> waiting;
  };
  struct Event {
    Duration at;
    std::uint64_t number;
    std::function<void()> happens;
    bool operator<(const Event& other) const {
      return std::pair(other.at, other.number) < std::pair(at, number);
    }
  };

  void later(Duration wait, std::function<void()> happens) {
    events_.push(
        {.at = clock_.now() + wait, .number = ++events_so_far_, .happens = std::move(happens)});
  }
  Duration exponential(Duration mean) {
    const double units = -std::log(1 - rng_.uniform());
    return Duration(static_cast<Duration::rep>(units * static_cast<double>(mean.count())));
  }

  /// The first to ask leaves soon. Of those who come later one is counted, and one asks twice.
  void plan(std::size_t question) {
    Duration at = 20ms * question;
    const int counted = 1 + static_cast<int>(rng_.below(kClients - 3));
    const auto made = [&] {
      return std::make_shared<Client>(Client{.question = question,
                                             .who = {.low = rng_(), .high = rng_()},
                                             .had = std::make_shared<std::set<std::uint64_t>>()});
    };
    std::shared_ptr<Client> twice;
    for (int i = 0; i < kClients; ++i) {
      std::shared_ptr<Client> client = made();
      if (i == counted) {
        client->counts_first = true;
      } else if (i == counted + 1) {
        client->pair = std::make_shared<std::array<std::optional<std::size_t>, 2>>();
        twice = client;
      } else if (i == kClients - 1) {
        client = std::make_shared<Client>(*twice);
        client->of_pair = 1;
      } else if (i == 0 || rng_.chance(0.5)) {
        client->leaves_after = exponential(100ms);
      }
      client->comes_back = i == 0;
      later(at, [this, client] { ask(client); });
      at += exponential(rng_.chance(0.7) ? 30ms : 1500ms);
    }
  }

  [[nodiscard]] static Question asked_of(const Client& client) {
    return {ScopeId{}, std::to_string(client.question)};
  }

  void ask(const std::shared_ptr<Client>& client) {
    const Question asked = asked_of(*client);
    RequesterId who = client->who;
    if (fault_ == Fault::kSameDrawTwice) who = {.low = rng_(), .high = rng_()};
    while (true) {
      const DrawClaim claim =
          draws_.claim(sampled_request_id(asked, "whole", ""), who, {.most = 4}, clock_.now());
      if (claim.draw.has_value() && !client->had->insert(claim.draw->serial).second) ++repeated;
      if (!claim.draw.has_value() || claim.is_new) return start(client, claim.draw);
      if (claim.is_stored) {
        Question question = question_of(*claim.draw, asked);
        const AnswerLookup found = cache_->find(question, {.serve = MatchLevel::kExact});
        if (found.answer.has_value()) {
          ++served;
          return see(*client, static_cast<std::size_t>(found.answer->record.front() - 'a'));
        }
        draws_.drop(*claim.draw);
        continue;
      }
      if (fault_ == Fault::kFirstFinishedWins) return start(client, claim.draw);
      if (fault_ == Fault::kWaitingIsTooLong) return start(client, std::nullopt);
      ++served;
      return wait(client, calls_.at(claim.draw->serial));
    }
  }

  void start(const std::shared_ptr<Client>& client, const std::optional<Draw>& draw) {
    double left = rng_.uniform();
    std::size_t kind = 0;
    while (kind + 1 < kKinds.size() && left >= kKinds[kind].share) left -= kKinds[kind++].share;
    const auto call =
        std::make_shared<Call>(Call{.draw = draw, .kind = kind, .fails = rng_.chance(0.05)});
    if (draw.has_value()) calls_[draw->serial] = call;
    wait(client, call);
    later(kKinds[kind].took, [this, call, question = asked_of(*client)] { end(*call, question); });
  }

  void wait(const std::shared_ptr<Client>& client, const std::shared_ptr<Call>& call) {
    call->waiting.push_back(client);
    if (!client->leaves_after.has_value()) return;
    later(*client->leaves_after, [this, client, call] {
      if (call->over || std::erase(call->waiting, client) == 0) return;
      leave(client, *call);
      if (fault_ != Fault::kCancelledCallsEnd || !call->waiting.empty()) return;
      call->over = true;
      if (call->draw.has_value()) draws_.drop(*call->draw);
    });
  }

  void leave(const std::shared_ptr<Client>& client, const Call& call) {
    if (call.draw.has_value() && fault_ != Fault::kWhoLeavesHasHadIt) {
      draws_.leave(*call.draw, client->who);
      client->had->erase(call.draw->serial);
    }
    if (!client->comes_back) return;
    const auto again = std::make_shared<Client>(*client);
    again->leaves_after.reset();
    later(50ms, [this, again] { ask(again); });
  }

  void end(Call& call, const Question& asked) {
    if (std::exchange(call.over, true)) return;
    if (call.fails) {
      if (call.draw.has_value()) draws_.drop(*call.draw);
      for (const auto& client : std::exchange(call.waiting, {})) ask(client);
      return;
    }
    if (call.draw.has_value()) keep(call, asked);
    for (const auto& client : std::exchange(call.waiting, {})) see(*client, call.kind);
  }

  void keep(const Call& call, const Question& asked) {
    const Kind& kind = kKinds[call.kind];
    const bool refused = fault_ == Fault::kLongOnesAreNotKept && call.kind >= 3;
    Question question = question_of(*call.draw, asked);
    if (fault_ == Fault::kFirstFinishedWins && cache_->find(question).answer.has_value()) return;
    const Answer answer{.finish_reason = call.kind >= 3 ? "length" : "stop",
                        .record = std::string(kind.size, static_cast<char>('a' + call.kind))};
    AnswerFacts facts{.cost = kind.took, .age = kind.took, .keep_partial = true};
    if (fault_ != Fault::kEvictedBySize) facts.weight = draws_.weigh(Bytes(kind.size), kind.took);
    const bool stored = !refused && cache_->insert(question, answer, facts).has_value() &&
                        draws_.stored(*call.draw);
    if (stored) return;
    cache_->erase(question);
    draws_.drop(*call.draw);
  }

  void see(const Client& client, std::size_t kind) {
    if (client.counts_first) ++first.counts[kind];
    if (client.comes_back) ++returned.counts[kind];
    if (client.pair == nullptr) return;
    auto& [one, two] = *client.pair;
    (client.of_pair == 0 ? one : two) = kind;
    if (one.has_value() && two.has_value()) {
      ++pairs.counts[class_of(*one) * kClasses + class_of(*two)];
    }
  }

  Rng& rng_;
  const Fault fault_;
  ManualClock clock_;
  MemoryBudget budget_{256_KiB};
  std::unique_ptr<AnswerCache> cache_;
  Draws draws_;
  std::priority_queue<Event> events_;
  std::uint64_t events_so_far_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  // by the draw that each is
};

/// Over all seeds.
struct Verdict20 {
  std::vector<double> p_values;
  double chi_square = 0;
  unsigned degrees = 0;

  void add(const Table& table) {
    p_values.push_back(p_value(table.chi_square(), table.degrees()));
    chi_square += table.chi_square();
    degrees += table.degrees();
  }
  [[nodiscard]] double pooled() const { return p_value(chi_square, degrees); }
  /// Of 20 p-values below 0.01, three or more have a probability of 0.001.
  [[nodiscard]] bool is_the_models() const {
    return std::ranges::count_if(p_values, [](double p) { return p < 0.01; }) < 3 &&
           pooled() > 0.001;
  }
  void print(std::string_view name) const {
    fmt::print("{}: pooled p = {:.3g}; p =", name, pooled());
    for (const double p : p_values) fmt::print(" {:.2g}", p);
    fmt::print("\n");
  }
};

TEST(DrawsDistribution, IsTheModelsOwn) {
  Verdict20 first;
  Verdict20 returned;
  Verdict20 pairs;
  testing::for_each_seed(20, [&](Rng& rng) {
    World world(rng, Fault::kNone);
    world.run();
    first.add(world.first);
    returned.add(world.returned);
    pairs.add(world.pairs);
    EXPECT_EQ(world.repeated, 0U);
    EXPECT_GT(world.served, 3000U);
    EXPECT_GT(world.cached().evictions, 500U);
  });
  first.print("what a requester sees first");
  returned.print("the answer to a requester that leaves and comes back");
  pairs.print("what a requester sees first and second");
  EXPECT_TRUE(first.is_the_models());
  EXPECT_TRUE(returned.is_the_models());
  EXPECT_TRUE(pairs.is_the_models());
}

TEST(DrawsDistribution, NoticesEachWayToGetItWrong) {
  for (const Fault fault : kFaults) {
    Verdict20 first;
    Verdict20 returned;
    Verdict20 pairs;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      Rng rng(seed);
      World world(rng, fault);
      world.run();
      first.add(world.first);
      returned.add(world.returned);
      pairs.add(world.pairs);
    }
    const std::string name = fmt::format("fault {}", static_cast<int>(fault));
    first.print(name + ", first");
    returned.print(name + ", back");
    pairs.print(name + ", pairs");
    EXPECT_LT(std::min({first.pooled(), returned.pooled(), pairs.pooled()}), 1e-4) << name;
  }
}

}  // namespace
}  // namespace afterimage
