// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/answer_archive.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "afterimage/tier.h"
#include "caches/answers/testing/archive_machine.h"
#include "caches/answers/testing/filters.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "foundation/platform/testing/memory_files.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::filters_of_each_kind;
using testing::kErasures;
using testing::named_facts;
using testing::scope;

const TenantId kOwner("ann");
constexpr const char* kWords = "What is the best way to see the dog?";
constexpr const char* kCanonicalVariant = "what's the best way to see the dog";
constexpr const char* kNearVariant = "What is best way to see dogs?";

/// A tier with faults and callbacks that a test controls.
class TroubledTier final : public Tier {
 public:
  explicit TroubledTier(MemoryBudget& budget) : kept_(budget) {}

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    if (refuses_puts) return fail(ErrorCode::kUnavailable, "no puts");
    if (before_put) std::exchange(before_put, nullptr)();
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    auto entry = kept_.get(instead.contains(key) ? instead.at(key) : key, room);
    if (after_get) std::exchange(after_get, nullptr)();
    return entry;
  }
  Result<void> erase(const TierKey& key) override {
    if (refuses_erasing) return fail(ErrorCode::kUnavailable, "no erasing");
    return kept_.erase(key);
  }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    const MutexLock lock(mutex_);
    asked.push_back(key);
    return kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

  bool refuses_puts = false;
  bool refuses_erasing = false;
  std::function<void()> before_put;
  std::function<void()> after_get;
  std::map<TierKey, TierKey> instead;  // which key's entry it returns instead
  mutable std::vector<TierKey> asked;

 private:
  mutable Mutex mutex_;
  HostTier kept_;
};

/// Files whose access a test can make fail.
class TroubledFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override {
    if (refuses) return fail(ErrorCode::kUnavailable, path + ": no reading");
    return kept_.read(path, limit);
  }
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override {
    if (refuses) return fail(ErrorCode::kUnavailable, path + ": no writing");
    return kept_.replace(path, content);
  }
  Result<void> append(const std::string& path, std::span<const std::byte> content) override {
    return kept_.append(path, content);
  }
  Result<void> cut(const std::string& path, Bytes size) override { return kept_.cut(path, size); }
  Result<void> make_folder(const std::string& path) override { return kept_.make_folder(path); }
  Result<void> empty_folder(const std::string& path, const std::string& kept) override {
    return kept_.empty_folder(path, kept);
  }
  Result<void> check_replaceable(const std::string& path) const override {
    return kept_.check_replaceable(path);
  }
  Result<std::vector<std::string>> list(const std::string& folder) const override {
    return kept_.list(folder);
  }
  [[nodiscard]] bool is_folder(const std::string& path) const override {
    return kept_.is_folder(path);
  }

  bool refuses = false;

 private:
  testing::MemoryFiles kept_;
};

using Machine = testing::ArchiveMachine<TroubledTier, TroubledFiles>;

TEST(AnswerArchive, ALaterProcessRestoresTheAnswerWithItsMetadata) {
  Machine m;
  Answer given = answer("so");
  given.record = R"({"content":"so"})";
  Question asked(scope(1), kWords);
  ASSERT_TRUE(
      m.archive->insert(asked, given, {.cost = 2s, .ttl = 60s, .tags = {"doc:1"}, .owner = kOwner})
          .has_value());
  m.start();
  m.pass(10s);
  EXPECT_EQ(m.cached(kWords), "");
  Question again(scope(1), kCanonicalVariant);
  const auto found = m.archive->restore(again);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->avoided_work());
  EXPECT_EQ(found->answer, given);
  EXPECT_EQ(found->saved, 2s);
  EXPECT_EQ(found->left, 50s);
  ASSERT_EQ(found->steps.size(), 1U);
  EXPECT_EQ(found->steps.front().level, MatchLevel::kCanonical);
  EXPECT_EQ(found->steps.front().candidate, kWords);
  EXPECT_EQ(found->steps.front().age, 10s);

  const auto entries = m.cache->entries({}, 10);
  ASSERT_EQ(entries.size(), 1U) << "inserted into the cache again";
  EXPECT_EQ(entries.front().question, kWords);
  EXPECT_EQ(entries.front().age, 10s);
  EXPECT_EQ(entries.front().left, 50s);
  EXPECT_EQ(entries.front().cost, 2s);
  EXPECT_EQ(entries.front().tags, std::vector<std::string>{"doc:1"});
  EXPECT_EQ(entries.front().owner, kOwner);
  EXPECT_EQ(m.cached(kWords), "so");
  EXPECT_EQ(m.archive->stats().restored, 1U);
}

TEST(AnswerArchive, ALaterProcessServesAPartialAnswerToItsOwnWordsOnly) {
  Machine m;
  // The forms of a whole answer are still in the tier when a truncated one takes its place.
  ASSERT_TRUE(m.put(kWords, "whole").has_value());
  Question asked(scope(1), kWords);
  Answer cut = answer("half an");
  cut.finish_reason = "length";
  ASSERT_TRUE(m.archive->insert(asked, cut, {.keep_partial = true}).has_value());
  m.start();
  EXPECT_EQ(m.restored(kCanonicalVariant), "");
  EXPECT_EQ(m.restored(kNearVariant), "");
  EXPECT_EQ(m.restored(kWords), "half an");
  EXPECT_EQ(m.cached(kWords), "half an");
  Question typed(scope(1), kCanonicalVariant);
  EXPECT_FALSE(m.cache->peek(typed).answer.has_value()) << "in memory, too";
  EXPECT_EQ(m.archive->stats().failed, 0U);
}

TEST(AnswerArchive, RestoresOnlyWithinRulesAndScope) {
  Machine m;
  ASSERT_TRUE(m.put(kWords, "so").has_value());
  ScopeId pictured = scope(2);
  pictured.loosest = MatchLevel::kCanonical;
  ASSERT_TRUE(m.put(pictured, kWords, "so").has_value());
  m.start();
  EXPECT_EQ(m.restored(kCanonicalVariant, {.serve = MatchLevel::kExact}), "");
  EXPECT_EQ(m.restored(kNearVariant, {.serve = MatchLevel::kCanonical}), "");
  EXPECT_EQ(m.restored(kNearVariant), "so");
  EXPECT_EQ(m.restored(pictured, kNearVariant), "");
  EXPECT_EQ(m.restored(pictured, kCanonicalVariant), "so");
  EXPECT_EQ(m.restored(scope(2), kWords), "") << "scopes are equal or not";
  EXPECT_EQ(m.restored(scope(3), kWords), "");
  EXPECT_EQ(m.archive->stats().failed, 0U);
}

// Regression: the time from then to the end of time overflowed.
TEST(AnswerArchive, ToleratesAWallClockBefore1970) {
  Machine m;
  m.wall.set(WallTime(-1h));
  ASSERT_TRUE(m.put("timed", "so", {.ttl = 10s}).has_value());
  ASSERT_TRUE(m.put("no expiry", "so", {.ttl = Duration::max()}).has_value());
  EXPECT_EQ(m.archive->stats().kept, 2U);
}

TEST(AnswerArchive, AnswersAgeWhileNoProcessRuns) {
  Machine m;
  ASSERT_TRUE(m.put("timed", "so", {.ttl = 10s}).has_value());
  ASSERT_TRUE(m.put("no expiry", "so", {.ttl = Duration::max()}).has_value());
  ASSERT_TRUE(m.put("over at once", "so", {.ttl = 0s}).has_value());
  m.start();
  m.wall.set(m.wall.now() + 10s - 1ns);
  EXPECT_EQ(m.restored("timed"), "so");
  EXPECT_EQ(m.restored("over at once"), "");
  m.start();
  m.wall.set(m.wall.now() + 1ns);
  EXPECT_EQ(m.restored("timed"), "");
  EXPECT_EQ(m.archive->stats().expired, 1U);
  EXPECT_EQ(m.restored("no expiry", {.max_age = 10s - 1ns}), "");
  EXPECT_EQ(m.restored("no expiry", {.max_age = 10s}), "so");
  m.start();
  m.wall.set(m.wall.now() - 10s - 1ns);
  EXPECT_EQ(m.restored("no expiry"), "") << "it is dated in the future";
}

TEST(AnswerArchive, DoesNotRestoreBelowMinFresh) {
  Machine m;
  ASSERT_TRUE(m.put("timed", "so", {.ttl = 10s}).has_value());
  m.start();
  EXPECT_EQ(m.restored("timed", {.min_fresh = 10s + 1ns}), "");
  EXPECT_EQ(m.cache->stats().entries, EntryCount(0));
  EXPECT_EQ(m.restored("timed", {.min_fresh = 10s}), "so");
}

TEST(AnswerArchive, NoProcessRestoresAnErasedAnswer) {
  for (const auto& c : filters_of_each_kind("THE DOG", 5s)) {
    Machine m;
    ASSERT_TRUE(m.put(kWords, "old", named_facts()).has_value());
    m.pass(6s);
    EXPECT_EQ(m.archive->erase(c.filter).value().entries, EntryCount(1)) << c.name;
    EXPECT_EQ(m.cached(kWords), "") << c.name;
    EXPECT_EQ(m.restored(kWords), "") << c.name;
    EXPECT_EQ(m.restored(kCanonicalVariant), "") << c.name;
    m.start();
    EXPECT_EQ(m.restored(kWords), "") << c.name;
    ASSERT_TRUE(m.put(kWords, "new", named_facts()).has_value());
    m.start();
    EXPECT_EQ(m.restored(kWords), "new") << c.name << ": it was created after";
  }
}

TEST(AnswerArchive, ErasesOnlyMatchingAnswers) {
  Machine m;
  ASSERT_TRUE(m.put("one", "a", {.tags = {"doc:1"}}).has_value());
  ASSERT_TRUE(m.put("two", "b", {.tags = {"doc:2"}, .owner = kOwner}).has_value());
  ASSERT_TRUE(m.archive->erase({.tag = "doc:1"}).has_value());
  ASSERT_TRUE(m.archive->erase({.owner = TenantId("bob")}).has_value());
  ASSERT_TRUE(m.archive->erase({.older_than = 1s}).has_value());
  ASSERT_TRUE(m.archive->erase({.older_than = Duration::max()}).has_value());
  ASSERT_TRUE(m.erase("three"));
  EXPECT_EQ(m.archive->erase({.entry = AnswerEntryId{99}}).value(), AnswerCount());
  m.start();
  EXPECT_EQ(m.restored("one"), "");
  EXPECT_EQ(m.restored("two"), "b");
  EXPECT_EQ(m.archive->stats().erasures, 4U);
}

TEST(AnswerArchive, ErasesOneQuestionWithoutRecordingIt) {
  Machine m;
  ASSERT_TRUE(m.put("one", "a").has_value());
  ASSERT_TRUE(m.erase("one"));
  EXPECT_EQ(m.cached("one"), "");
  EXPECT_EQ(m.restored("one"), "");
  m.start();
  EXPECT_EQ(m.restored("one"), "");
  EXPECT_EQ(m.archive->stats().erasures, 0U);
}

TEST(AnswerArchive, RecordsAnErasureThatTheTierRefuses) {
  Machine m;
  const std::string longer(InvalidationList::kMaxBytes + 1, 'x');
  ASSERT_TRUE(m.put("one", "a").has_value());
  ASSERT_TRUE(m.put("two", "b").has_value());
  ASSERT_TRUE(m.put(scope(2), longer, "c").has_value());
  m.tier.refuses_erasing = true;
  ASSERT_TRUE(m.erase("one"));
  Question long_one(scope(2), longer);
  ASSERT_TRUE(m.archive->erase(long_one).has_value()) << "erases its whole scope";
  m.tier.refuses_erasing = false;
  m.start();
  EXPECT_EQ(m.restored("one"), "");
  EXPECT_EQ(m.restored("two"), "b");
  EXPECT_EQ(m.restored(scope(2), longer), "");
}

TEST(AnswerArchive, DoesNotRestoreAnAnswerErasedWhileItIsRead) {
  Machine m;
  for (const bool one_by_one : {false, true}) {
    ASSERT_TRUE(m.put("one", "a", {.tags = {"doc:1"}}).has_value());
    m.start();
    m.tier.after_get = [&] {
      EXPECT_TRUE(one_by_one ? m.erase("one") : m.archive->erase({.tag = "doc:1"}).has_value());
    };
    EXPECT_EQ(m.restored("one"), "");
    EXPECT_EQ(m.cached("one"), "") << "not in the cache either";
    EXPECT_EQ(m.restored("one"), "");
  }
}

TEST(AnswerArchive, DoesNotArchiveAnAnswerErasedBefore) {
  for (const bool one_by_one : {false, true}) {
    Machine m;
    Question question(scope(1), "one");
    const AnswerFacts facts{.tags = {"doc:1"}};
    const AnswerArchive::ReadLease before = m.archive->read_lease();
    ASSERT_TRUE(m.cache->insert(question, answer("a"), facts).has_value());
    ASSERT_TRUE(one_by_one ? m.erase("one") : m.archive->erase({.tag = "doc:1"}).has_value());
    m.archive->keep(question, answer("a"), facts, before);
    EXPECT_EQ(m.tier.stats().entries, EntryCount(0)) << "neither the answer nor its question";
    EXPECT_EQ(m.restored("one"), "");
    m.start();
    EXPECT_EQ(m.restored("one"), "");
  }
}

// Regression: its bytes could be written after erase() had returned and the tier was swept.
TEST(AnswerArchive, AnErasureReturnsAfterThePutsThatDoNotSeeIt) {
  Machine m;
  std::promise<void> returned;
  std::thread eraser;
  std::future_status erased_during_put = std::future_status::ready;
  m.tier.before_put = [&] {
    eraser = std::thread([&] {
      EXPECT_TRUE(m.archive->erase({.tag = "doc:1"}).has_value());
      returned.set_value();
    });
    erased_during_put = returned.get_future().wait_for(100ms);
  };
  ASSERT_TRUE(m.put("one", "a", {.tags = {"doc:1"}}).has_value());
  eraser.join();
  EXPECT_EQ(erased_during_put, std::future_status::timeout);
  EXPECT_EQ(m.restored("one"), "");
}

TEST(AnswerArchive, UnrelatedErasuresDoNotPreventArchiving) {
  Machine m;
  Question question(scope(1), "one");
  const AnswerArchive::ReadLease before = m.archive->read_lease();
  ASSERT_TRUE(m.erase("two"));
  ASSERT_TRUE(m.archive->erase({.tag = "other"}).has_value());
  m.archive->keep(question, answer("a"), {}, before);
  EXPECT_EQ(m.restored("one"), "a");
  for (int i = 0; i < 1100; ++i) ASSERT_TRUE(m.erase("two"));
  m.archive->keep(question, answer("b"), {}, before);
  EXPECT_EQ(m.restored("one"), "") << "too many erasures to know that it was not among them";
}

TEST(AnswerArchive, AReplacedAnswerIsNeverRestored) {
  Machine m;
  ASSERT_TRUE(m.put("one", "old").has_value());
  m.tier.refuses_puts = true;
  ASSERT_TRUE(m.put("one", "new").has_value());
  EXPECT_EQ(m.cached("one"), "new");
  m.start();
  EXPECT_EQ(m.restored("one"), "") << "a miss is better than an old answer";
  EXPECT_EQ(m.archive->stats().refused, 0U) << "in this process";
}

TEST(AnswerArchive, ARestoredAnswerReplacesNoNewerOne) {
  Machine m;
  ASSERT_TRUE(m.put("one", "old").has_value());
  m.pass(5s);
  Question question(scope(1), "one");
  ASSERT_TRUE(m.cache->insert(question, answer("new"), {}).has_value());
  m.pass(1s);
  EXPECT_EQ(m.restored("one"), "old");
  EXPECT_EQ(m.cached("one"), "new");
}

TEST(AnswerArchive, AnUnrecordedErasureHoldsInThisProcessAndStopsArchiving) {
  Machine m;
  ASSERT_TRUE(m.put("one", "a", {.tags = {"doc:1"}}).has_value());
  ASSERT_TRUE(m.put("two", "b").has_value());
  m.files.refuses = true;
  const auto erased = m.archive->erase({.tag = "doc:1"});
  ASSERT_FALSE(erased.has_value());
  EXPECT_EQ(erased.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(m.archive->stats().degraded_reason.empty());
  EXPECT_EQ(m.cached("one"), "");
  EXPECT_EQ(m.restored("one"), "");
  EXPECT_EQ(m.restored("two"), "b");
  ASSERT_TRUE(m.put("three", "c").has_value());
  EXPECT_EQ(m.restored("three"), "") << "its count could be reused after a restart";

  m.files.refuses = false;
  ASSERT_TRUE(m.archive->erase({.tag = "doc:2"}).has_value());
  EXPECT_EQ(m.archive->stats().degraded_reason, "");
  ASSERT_TRUE(m.put("four", "d").has_value());
  m.start();
  EXPECT_EQ(m.restored("one"), "") << "both erasures were recorded";
  EXPECT_EQ(m.restored("four"), "d");
}

TEST(AnswerArchive, WithoutItsListNoArchivedAnswerIsTrusted) {
  for (const bool damaged : {false, true}) {
    Machine m;
    ASSERT_TRUE(m.put("one", "a").has_value());
    if (damaged) {
      ASSERT_TRUE(m.files.append(kErasures, std::vector<std::byte>(1)).has_value());
    } else {
      m.files = TroubledFiles();
    }
    m.start();
    EXPECT_EQ(m.restored("one"), "");
    EXPECT_EQ(m.archive->stats().degraded_reason.empty(), !damaged);
    ASSERT_TRUE(m.put("one", "b").has_value());
    m.start();
    EXPECT_EQ(m.restored("one"), "b") << "a new list was started";
  }
}

TEST(AnswerArchive, AListOfAnotherVersionIsLeftAlone) {
  Machine m;
  FieldWriter fields("afterimage/answer-erasures/2");
  std::vector<std::byte> theirs(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(theirs);
  theirs.insert(theirs.end(), checksum.begin(), checksum.end());
  ASSERT_TRUE(m.files.replace(kErasures, theirs).has_value());
  const auto opened = AnswerArchive::open({.tier = m.tier,
                                           .transfer = m.transfer,
                                           .cache = *m.cache,
                                           .files = m.files,
                                           .erasures = kErasures,
                                           .clock = m.clock,
                                           .wall = m.wall});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(m.files.read(kErasures, 1_KiB).value(), theirs);
}

TEST(AnswerArchive, AnUnreadableListIsAnError) {
  Machine m;
  m.files.refuses = true;
  const auto opened = AnswerArchive::open({.tier = m.tier,
                                           .transfer = m.transfer,
                                           .cache = *m.cache,
                                           .files = m.files,
                                           .erasures = kErasures,
                                           .clock = m.clock,
                                           .wall = m.wall});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnavailable);
}

TEST(AnswerArchive, ComparesEntriesInFull) {
  Machine m;
  ASSERT_TRUE(m.put("one", "a").has_value());
  ASSERT_TRUE(m.put("two", "b").has_value());
  m.start();
  const auto key_of = [&](const std::string& words) {
    m.tier.asked.clear();
    EXPECT_NE(m.restored(words, {.serve = MatchLevel::kExact}), "");
    return m.tier.asked.back();
  };
  const TierKey one = key_of("one");
  m.tier.instead[one] = key_of("two");
  EXPECT_EQ(m.restored("one"), "") << "the tier returned another key's entry";
  EXPECT_GT(m.archive->stats().failed, 0U);

  ASSERT_TRUE(m.tier.put(one, {}, std::vector<std::byte>(40)).has_value());
  m.tier.instead.clear();
  EXPECT_EQ(m.restored("one"), "") << "bytes that are no answer";
}

TEST(AnswerArchive, RestoresNothingWithoutTransferBudget) {
  Machine m;
  ASSERT_TRUE(m.put("one", "a").has_value());
  m.start();
  const auto all = m.transfer.reserve(1_MiB).value();
  EXPECT_EQ(m.restored("one", {.serve = MatchLevel::kExact}), "");
  EXPECT_EQ(m.archive->stats().failed, 1U);
}

TEST(AnswerArchive, ServesARestoredAnswerThatTheCacheCannotHold) {
  Machine m;
  ASSERT_TRUE(m.put("one", "a", {.owner = kOwner}).has_value());
  m.start();
  Question question(scope(1), "one");
  const auto found = m.archive->restore(question, {}, {.entries = EntryCount(0)});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->answer->text, "a");
  EXPECT_EQ(m.cache->stats().entries, EntryCount(0)) << "the quota is the owner's";
}

TEST(AnswerArchive, DoesNotArchiveWhatTheCacheRejects) {
  Machine m;
  EXPECT_FALSE(m.put("one", "a", {.owner = kOwner, .quota = {.entries = EntryCount(0)}}));
  EXPECT_EQ(m.archive->stats().kept, 0U);
  EXPECT_EQ(m.below.used(), 0_B);
}

TEST(AnswerArchiveProperty, AgreesWithAnObviousModelAcrossProcesses) {
  testing::for_each_seed(60, [](Rng& rng) {
    Machine m;
    struct Kept {
      std::string text;
      WallTime expires;
      std::string tag;
      TenantId owner;
    };
    std::map<std::pair<unsigned, std::string>, Kept> model;
    for (int step = 0; step < 150; ++step) {
      const auto where = static_cast<unsigned>(rng.below(2));
      const std::string words = "question " + std::to_string(rng.below(6));
      const auto key = std::pair(where, words);
      switch (rng.below(8)) {
        case 0:
        case 1: {
          const Kept kept{.text = std::to_string(step),
                          .expires = m.wall.now() + std::chrono::seconds(1 + rng.below(60)),
                          .tag = "tag" + std::to_string(rng.below(3)),
                          .owner = TenantId(rng.chance(0.5) ? "ann" : "bob")};
          m.tier.refuses_puts = rng.chance(0.2);
          ASSERT_TRUE(
              m.put(scope(where), words, kept.text,
                    {.ttl = kept.expires - m.wall.now(), .tags = {kept.tag}, .owner = kept.owner})
                  .has_value());
          if (m.tier.refuses_puts) {
            model.erase(key);
          } else {
            model[key] = kept;
          }
          m.tier.refuses_puts = false;
          break;
        }
        case 2: {
          AnswerFilter filter;
          if (rng.chance(0.6)) filter.tag = "tag" + std::to_string(rng.below(3));
          if (rng.chance(0.4)) filter.owner = TenantId("ann");
          if (rng.chance(0.4)) filter.scope = scope(where).key;
          ASSERT_TRUE(m.archive->erase(filter).has_value());
          std::erase_if(model, [&](const auto& one) {
            return (filter.tag.empty() || one.second.tag == filter.tag) &&
                   (filter.owner == TenantId() || one.second.owner == filter.owner) &&
                   (!filter.scope.has_value() || one.first.first == where);
          });
          break;
        }
        case 3: {
          Question question(scope(where), words);
          m.tier.refuses_erasing = rng.chance(0.3);
          ASSERT_TRUE(m.archive->erase(question).has_value());
          m.tier.refuses_erasing = false;
          model.erase(key);
          break;
        }
        case 4:
          m.start();
          break;
        default: {
          m.pass(std::chrono::milliseconds(rng.below(2000)));
          const auto it = model.find(key);
          const bool there = it != model.end() && it->second.expires > m.wall.now();
          ASSERT_EQ(m.restored(scope(where), words), there ? it->second.text : "") << step;
        }
      }
      m.cache->check_invariants();
    }
    EXPECT_EQ(m.archive->stats().failed, 0U);
  });
}

TEST(AnswerArchive, ManyThreadsArchiveRestoreAndEraseWithoutResurrection) {
  Machine m;
  const auto work = [&m](unsigned seed) {
    Rng rng(seed);
    for (int i = 0; i < 400; ++i) {
      const std::string words = "question " + std::to_string(rng.below(10));
      Question question(scope(1), words);
      if (rng.chance(0.4)) {
        EXPECT_TRUE(m.archive->insert(question, answer(words), {.tags = {words}}).has_value());
      } else if (rng.chance(0.1)) {
        EXPECT_TRUE(m.archive->erase(question).has_value());
      } else if (rng.chance(0.05)) {
        EXPECT_TRUE(m.archive->erase({.tag = words}).has_value());
      } else {
        const auto found = m.archive->restore(question);
        EXPECT_TRUE(!found.has_value() || found->answer->text == words);
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t <= 4; ++t) threads.emplace_back(work, t);
  }
  ASSERT_TRUE(m.archive->erase(AnswerFilter{}).has_value());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(m.restored("question " + std::to_string(i)), "");
  EXPECT_EQ(m.cache->stats().entries, EntryCount(0));
  m.cache->check_invariants();
}

}  // namespace
}  // namespace afterimage
