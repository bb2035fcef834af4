// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

/// Places where a fault run (tests/fire) steps in. Built with AFTERIMAGE_FIRE they can be told to;
/// in every other build nothing is left of them.
///
///   AFI_POINT("segment.created");              here a run may end the process, or hold it up
///   AFI_FAILING_POINT("batch.written");        or fail; in functions that return a Result
///   if (!AFI_GUARD("value.checksum", sum == expected)) return damaged;    a check
///   if (AFI_STEP("commit.sync")) sync();       what safety rests on; a run may leave it out
///   n = AFI_SYSTEM("disk.transfer", n);        what the system answered; a run may lie
///
/// A run lets every point be the last, and takes every guard and step away in turn: some test must
/// notice. A name stands for one rule, wherever it is kept.
#if AFTERIMAGE_FIRE

#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// One such place. All are known before main() begins, whether they are ever passed or not.
///
/// Threads  Any; what is told to them, before the threads begin.
class FaultSite {
 public:
  enum class Kind : std::uint8_t { kPoint, kFailingPoint, kGuard, kStep, kSystem };
  enum class Action : std::uint8_t { kNone, kKill, kFail, kSleep };
  using Answer = std::int64_t (*)(std::int64_t);

  FaultSite(const char* name, Kind kind);
  FaultSite(const FaultSite&) = delete;
  FaultSite& operator=(const FaultSite&) = delete;
  ~FaultSite() = default;

  /// By name.
  [[nodiscard]] static std::vector<FaultSite*> all();
  /// nullptr: there is none.
  [[nodiscard]] static FaultSite* find(std::string_view name);

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_guard() const { return kind_ == Kind::kGuard || kind_ == Kind::kStep; }

  /// Guards and steps.
  void switch_off(bool off) { off_.store(off, std::memory_order_relaxed); }
  [[nodiscard]] bool is_off() const { return off_.load(std::memory_order_relaxed); }

  /// Points: `action` at the n-th time from now (1 is the next).
  void arm(Action action, std::uint64_t n);
  [[nodiscard]] std::uint64_t passes() const { return passes_.load(); }
  void pass();
  [[nodiscard]] Result<void> pass_or_fail();

  /// System answers. nullptr: the truth.
  void lie(Answer answer) { answer_.store(answer); }
  [[nodiscard]] std::int64_t answer(std::int64_t truth) const {
    const Answer lie = answer_.load(std::memory_order_relaxed);
    return lie == nullptr ? truth : lie(truth);
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

/// Made because it is named somewhere, not because somebody came by.
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
