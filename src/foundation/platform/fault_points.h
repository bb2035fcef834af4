// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

/// Fault injection points. Builds with AFTERIMAGE_FIRE can trigger them (tests/fire); in every
/// other build they compile to nothing.
///
///   AFI_POINT("segment.created");              a fault run may kill the process here, or delay it
///   AFI_FAILING_POINT("batch.written");        or make the call fail (functions returning Result)
///   if (!AFI_GUARD("value.checksum", sum == expected)) return damaged;    a check
///   if (AFI_STEP("commit.sync")) sync();       a step that safety depends on; a run may skip it
///   n = AFI_SYSTEM("disk.transfer", n);        a result from the system; a run may falsify it
///
/// A fault run kills the process at every point, and disables every guard and every step in turn:
/// at least one test must fail each time. A name stands for one rule, wherever that rule is
/// applied.
#if AFTERIMAGE_FIRE

#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// One fault injection point. All of them are registered before main() begins, even if they are
/// never reached.
///
/// Threads  Any; arm, switch off and lie before the threads under test start.
class FaultSite {
 public:
  enum class Kind : std::uint8_t { kPoint, kFailingPoint, kGuard, kStep, kSystem };
  enum class Action : std::uint8_t { kNone, kKill, kFail, kSleep };
  using Answer = std::int64_t (*)(std::int64_t);

  FaultSite(const char* name, Kind kind);
  FaultSite(const FaultSite&) = delete;
  FaultSite& operator=(const FaultSite&) = delete;
  ~FaultSite() = default;

  /// All points, ordered by name.
  [[nodiscard]] static std::vector<FaultSite*> all();
  /// nullptr if there is no point of this name.
  [[nodiscard]] static FaultSite* find(std::string_view name);

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_guard() const { return kind_ == Kind::kGuard || kind_ == Kind::kStep; }

  /// For guards and steps: disables them.
  void switch_off(bool off) { off_.store(off, std::memory_order_relaxed); }
  [[nodiscard]] bool is_off() const { return off_.load(std::memory_order_relaxed); }

  /// For points: performs `action` at the n-th pass from now (1 is the next).
  void arm(Action action, std::uint64_t n);
  [[nodiscard]] std::uint64_t passes() const { return passes_.load(); }
  void pass();
  [[nodiscard]] Result<void> pass_or_fail();

  /// For system results: replaces the result. nullptr: returns the real one.
  void lie(Answer false_answer) { answer_.store(false_answer); }
  [[nodiscard]] std::int64_t answer(std::int64_t truth) const {
    const Answer false_answer = answer_.load(std::memory_order_relaxed);
    return false_answer == nullptr ? truth : false_answer(truth);
  }

 private:
  [[nodiscard]] Action due();

  const char* name_;
  Kind kind_;
  FaultSite* next_;
  std::atomic<bool> off_{false};
  std::atomic<std::uint64_t> passes_{0};
  std::atomic<std::uint64_t> at_{0};
  std::atomic<Action> action_{Action::kNone};
  std::atomic<Answer> answer_{nullptr};
};

template <std::size_t N>
struct FaultName {
  consteval FaultName(const char (&name)[N]) {  // NOLINT(google-explicit-constructor)
    for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
  }
  char text[N];
};

/// Registers the point because some code names it, even if that code never runs.
template <FaultName Name, FaultSite::Kind Kind>
struct FaultSiteOf {
  static inline FaultSite site{Name.text, Kind};
};

}  // namespace afterimage

#define AFI_FAULT_SITE(name, kind) \
  (::afterimage::FaultSiteOf<name, ::afterimage::FaultSite::Kind::kind>::site)
#define AFI_POINT(name) AFI_FAULT_SITE(name, kPoint).pass()
#define AFI_FAILING_POINT(name) AFI_TRY_VOID(AFI_FAULT_SITE(name, kFailingPoint).pass_or_fail())
#define AFI_GUARD(name, ...) (AFI_FAULT_SITE(name, kGuard).is_off() || (__VA_ARGS__))
#define AFI_STEP(name) (!AFI_FAULT_SITE(name, kStep).is_off())
#define AFI_SYSTEM(name, truth) (AFI_FAULT_SITE(name, kSystem).answer(truth))

#else

#define AFI_POINT(name) static_cast<void>(0)
#define AFI_FAILING_POINT(name) static_cast<void>(0)
#define AFI_GUARD(name, ...) (__VA_ARGS__)
#define AFI_STEP(name) true
#define AFI_SYSTEM(name, truth) (truth)

#endif
