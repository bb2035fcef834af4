// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "caches/answers/testing/answering_fleet.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::AnsweringProcess;
using testing::for_each_seed;
using testing::scope;
using testing::SharedWorld;

constexpr std::size_t kProcesses = 4;
constexpr std::uint64_t kQuestions = 5;
constexpr int kMaxDepth = 3;  // nesting of concurrent actions

/// An answer that a process got from the model and has not cached yet; it may be delayed for long.
struct PendingAnswer {
  std::size_t process = 0;
  std::string words;
  std::string text;
  AnswerFacts facts;
  AnswerArchive::ReadLease before;
};

struct Totals {
  std::uint64_t served = 0;
  std::uint64_t erased = 0;
  std::uint64_t refused = 0;  // erasures that failed
};

/// Simulates processes, servers and their failures: actions run one after the other, and nested
/// where a real process could be preempted. Invariant: once an erasure is acknowledged, no process
/// serves an answer that existed when it began.
class Story {
 public:
  Story(Rng& rng, Totals& totals) : rng_(rng), totals_(totals) {
    for (std::size_t i = 0; i < kProcesses; ++i) {
      processes_.push_back(std::make_unique<AnsweringProcess>(world_));
      busy_.push_back(false);
      arm(i);
    }
  }

  void step() {
    const std::size_t i = rng_.below(kProcesses);
    if (busy_[i]) return;
    switch (rng_.below(16)) {
      case 0:
      case 1:
      case 2:
        return ask(i);
      case 3:
      case 4:
        return generate(i);
      case 5:
      case 6:
        return insert_one_pending();
      case 7:
        return erase(i);
      case 8:
        return world_.pass(std::chrono::milliseconds(rng_.below(rng_.chance(0.05) ? 60'000 : 900)));
      case 9:
        return inject_fault(i);
      default:
        return refresh(i);
    }
  }
  /// Heals all failures and checks that processes share answers again.
  void end() {
    depth_ = kMaxDepth;  // no more nested actions
    world_.servers.replicates = true;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      processes_[i]->cell->unreachable = processes_[i]->cell->answer_is_lost = false;
    }
    for (int round = 0; round < 2; ++round) {
      for (const auto& process : processes_) EXPECT_TRUE(process->refresh());
    }
    ASSERT_TRUE(processes_[0]->put("the last", "z").has_value());
    for (const auto& process : processes_) {
      EXPECT_EQ(process->ask("the last"), "z");
      process->cache->check_invariants();
    }
  }

 private:
  std::string words() { return "question " + std::to_string(rng_.below(kQuestions)); }

  /// Lets the other processes act while this one waits; on another thread, so that lock-order
  /// checks do not see their locks as nested in this one's.
  void meanwhile() {
    if (depth_ == kMaxDepth) return;
    ++depth_;
    std::thread([this] {
      for (std::uint64_t steps = rng_.below(6); steps > 0; --steps) step();
    }).join();
    --depth_;
  }
  void busy(std::size_t i, const std::function<void()>& work) {
    busy_[i] = true;
    work();
    busy_[i] = false;
  }
  void arm(std::size_t i) {
    processes_[i]->wait = [this](Duration time) {
      for (int part = 0; part < 4; ++part) {
        world_.pass(time / 4);
        meanwhile();
      }
    };
  }
  /// Preempts the process at its next exchange with the servers.
  void interrupt(std::size_t i) {
    testing::SimulatedCell& cell = *processes_[i]->cell;
    if (rng_.chance(0.2)) cell.before_reading = [this] { meanwhile(); };
    if (rng_.chance(0.2)) cell.after_reading = [this] { meanwhile(); };
    if (rng_.chance(0.2)) cell.before_replacing = [this] { meanwhile(); };
  }

  void ask(std::size_t i) {
    if (rng_.chance(0.3)) world_.tier.after_get = [this] { meanwhile(); };
    busy(i, [&] {
      const std::string served = processes_[i]->ask(words(), [&] {
        if (rng_.chance(0.3)) meanwhile();
      });
      if (served.empty()) return;
      ++totals_.served;
      EXPECT_FALSE(gone_.contains(served)) << "process " << i << " serves " << served;
    });
    world_.tier.after_get = nullptr;
  }
  void generate(std::size_t i) {
    pending_.push_back({.process = i,
                        .words = words(),
                        .text = "answer " + std::to_string(++answers_),
                        .facts = {.tags = {"tag" + std::to_string(rng_.below(3))}},
                        .before = processes_[i]->archive->read_lease()});
    known_[pending_.back().text] = pending_.back();
  }
  void insert_one_pending() {
    if (pending_.empty()) return;
    const std::size_t which = rng_.below(pending_.size());
    const PendingAnswer one = pending_[which];
    if (busy_[one.process]) return;
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(which));
    busy(one.process, [&] {
      AnswerArchive& archive = *processes_[one.process]->archive;
      Question question(scope(1), one.words);
      const auto inserted =
          archive.insert_into_cache(question, answer(one.text), one.facts, one.before);
      if (rng_.chance(0.3)) meanwhile();
      // Also after the cache rejected it: a gateway would not, but the archive must tolerate it.
      if (inserted.has_value() || rng_.chance(0.5)) {
        archive.keep(question, answer(one.text), one.facts, one.before);
      }
    });
  }
  void erase(std::size_t i) {
    const std::string tag = "tag" + std::to_string(rng_.below(3));
    const std::string question = words();
    const std::uint64_t what = rng_.below(5);
    std::set<std::string> matching;
    for (const auto& [text, one] : known_) {
      const bool tagged = one.facts.tags.front() == tag;
      if (what == 0 || (what <= 2 && tagged) || (what > 2 && one.words == question)) {
        matching.insert(text);
      }
    }
    interrupt(i);
    busy(i, [&] {
      const AnsweringProcess& process = *processes_[i];
      const bool done = what > 2    ? process.erase_answer_to(question)
                        : what == 0 ? process.erase(AnswerFilter{})
                                    : process.erase({.tag = tag});
      ++(done ? totals_.erased : totals_.refused);
      if (done) gone_.insert(matching.begin(), matching.end());
    });
  }
  void refresh(std::size_t i) {
    interrupt(i);
    busy(i, [&] { static_cast<void>(processes_[i]->refresh()); });
  }
  void inject_fault(std::size_t i) {
    AnsweringProcess& process = *processes_[i];
    switch (rng_.below(12)) {
      case 0:
        std::erase_if(pending_, [i](const PendingAnswer& one) { return one.process == i; });
        return process.start();
      case 1:
      case 2:
        process.cell->unreachable = !process.cell->unreachable;
        return;
      case 3:
        process.cell->answer_is_lost = !process.cell->answer_is_lost;
        return;
      case 4:
        world_.servers.replicates = false;
        return;
      case 5:
        return world_.servers.fail_over();
      case 6:
        if (rng_.chance(0.5)) world_.servers.lose_all();
        return;
      case 7:
        if (world_.servers.master.has_value() && rng_.chance(0.5)) {
          world_.servers.master->at(rng_.below(world_.servers.master->size())) ^= 1;
        }
        return;
      default:
        process.cell->unreachable = process.cell->answer_is_lost = false;
        world_.servers.replicates = true;
    }
  }

  Rng& rng_;
  Totals& totals_;
  SharedWorld world_;
  std::vector<std::unique_ptr<AnsweringProcess>> processes_;
  std::vector<bool> busy_;  // waiting inside an action
  int depth_ = 0;
  int answers_ = 0;
  std::vector<PendingAnswer> pending_;
  std::map<std::string, PendingAnswer> known_;
  std::set<std::string> gone_;
};

TEST(SharedAnswersStory, NoProcessServesAnErasedAnswer) {
  Totals totals;
  for_each_seed(60, [&](Rng& rng) {
    Story story(rng, totals);
    for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) story.step();
    story.end();
  });
  if (std::getenv("AFTERIMAGE_TEST_SEED") != nullptr) return;
  EXPECT_GT(totals.served, 300U) << "too few hits to prove anything";
  EXPECT_GT(totals.erased, 300U);
  EXPECT_GT(totals.refused, 30U);
}

}  // namespace
}  // namespace afterimage
