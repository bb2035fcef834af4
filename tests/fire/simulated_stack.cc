// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "fire/simulated_stack.h"

#include <fmt/format.h>

#include "caches/answers/testing/questions.h"
#include "storage/disk/segment_format.h"
#include "storage/disk/testing/small_log.h"

namespace afterimage::fire {

using namespace std::chrono_literals;
using testing::DiskFault;

namespace {

constexpr std::array<std::size_t, 6> kSimulatedSizes = {1, 100, 3'904, 3'905, 9'000, 20'000};
constexpr const char* kErasures = "answers.erased";

std::string question_text(std::size_t n) { return "question number " + std::to_string(n); }
std::string answer_text(std::size_t n, std::uint32_t version) {
  return fmt::format("answer {} to question {}", version, n);
}

}  // namespace

SimulatedOptions SimulatedOptions::of(std::uint64_t seed) {
  Rng rng = Rng(seed).split(77);
  SimulatedOptions options{.seed = seed};
  options.capacity = rng.chance(0.3) ? 512_KiB : 4_MiB;
  options.host = Bytes(std::uint64_t{16'384} << rng.below(4));
  options.steps = 40 + static_cast<int>(rng.below(120));
  options.fault_rate = rng.chance(0.2) ? 0.3 : 0.05;
  options.hurried = rng.chance(0.5);
  return options;
}

std::string SimulatedOptions::text() const {
  return fmt::format(
      "seed {}, capacity {}, host {}, steps {}, fault rate {}, hurried {}; --only "
      "run simulation --seed {} first",
      seed, capacity.value(), host.value(), steps, fault_rate, hurried, seed);
}

SimulatedStack::SimulatedStack(const SimulatedOptions& options, Tally& tally, bool trace)
    : options_(options),
      tally_(tally),
      trace_(trace),
      rng_(options.seed),
      host_room_(options.host),
      oracle_(keys_, kSimulatedSizes, options.seed % 1'000'000) {}

SimulatedStack::~SimulatedStack() { stop(); }

void SimulatedStack::say(const std::string& what) { tally_.miss(what + ": " + options_.text()); }

void SimulatedStack::did(std::string_view what, std::size_t n, std::uint64_t outcome) {
  for (const char c : what) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  digest_ = (digest_ ^ (n << 32U) ^ outcome) * 0x100000001B3U;
  if (trace_) fmt::print("{:>6}  {:<22} {:>3}  {}\n", disk_.operations(), what, n, outcome);
}

bool SimulatedStack::start() {
  DiskTierOptions options{.log = options_.hurried ? testing::hurried_log(options_.capacity)
                                                  : testing::small_log(options_.capacity),
                          .own_thread = false};
  auto opened =
      DiskTier::open(std::make_unique<testing::FakeBlockFolder>(disk_), options, memory_, clock_);
  did("start", 0, opened.has_value() ? 1 : 0);
  if (!opened) {
    if (options_.capacity < 1_MiB) oracle_.all_left();
    return false;
  }
  tier_ = *std::move(opened);
  stats_ = {};
  did("recovered", 0, tier_->stats().entries.value());
  for (std::size_t n = 0; trace_ && n < kKeys; ++n) {
    if (tier_->may_contain(oracle_.key(n))) fmt::print("        there is               {:>3}\n", n);
  }
  notice();
  host_ = std::make_unique<HostTier>(host_room_);
  answers_ = AnswerCache::create({}, answers_room_, clock_).value();
  auto archive = AnswerArchive::open({.tier = *tier_,
                                      .transfer = room_,
                                      .cache = *answers_,
                                      .files = files_,
                                      .erasures = kErasures,
                                      .clock = clock_,
                                      .wall = wall_});
  archive_ = *std::move(archive);
  return true;
}

void SimulatedStack::stop() {
  archive_.reset();
  answers_.reset();
  host_.reset();
  tier_.reset();
}

void SimulatedStack::end_life(bool power_fails) {
  did(power_fails ? "power fails" : "killed", 0, 0);
  if (!disk_.crashed()) disk_.fail(DiskFault::kCrash, 1);
  stop();
  if (power_fails) {
    disk_.reboot(rng_);
  } else {
    disk_.restart();
  }
  oracle_.process_ended();
}

void SimulatedStack::flip() {
  if (disk_.files().empty()) return;
  auto it = disk_.files().begin();
  std::advance(it, static_cast<long>(rng_.below(disk_.files().size())));
  const std::uint64_t size = it->second->content.size();
  if (size == 0) return;
  const std::uint64_t at = rng_.below(size);
  const auto bit = static_cast<std::byte>(1U << rng_.below(8));
  did("flip in " + it->first.substr(it->first.size() - 8), 0, at);
  it->second->content[at] ^= bit;
  if (at < it->second->durable.size()) it->second->durable[at] ^= bit;
  // In an unsealed segment only the first block names the segment.
  flips_ += at < kDiskBlock ? 2 : 1;
}

void SimulatedStack::fault() {
  ++faults_;
  static constexpr std::array kFaults = {DiskFault::kError, DiskFault::kFull, DiskFault::kHang,
                                         DiskFault::kShortRead, DiskFault::kMisdirected};
  const std::uint64_t kind = rng_.below(10);
  did("fault", kind, 0);
  switch (kind) {
    case 0:
      return flip();
    case 1:
      return end_life(true);
    case 2:
      return end_life(false);
    case 3:
      return clock_.advance(rng_.chance(0.5) ? Duration(1h) : Duration(24h * 3'650));
    case 4:
      return wall_.set(wall_.now() + (rng_.chance(0.5) ? 1h : 24h * 3'650));
    case 5:
      return wall_.set(wall_.now() - (rng_.chance(0.5) ? 1h : 24h * 3'650));
    case 6:
      return host_room_.set_capacity(rng_.chance(0.5) ? 4_KiB : options_.host);
    case 7:
      return disk_.fail(DiskFault::kCrash, 1 + rng_.below(30));
    default:
      break;
  }
  const DiskFault fault = kFaults[rng_.below(kFaults.size())];
  const std::uint64_t in = 1 + rng_.below(8);
  did("disk fails, kind", static_cast<std::size_t>(fault), in);
  disk_.fail(fault, in, 1 + rng_.below(6));
}

void SimulatedStack::notice() {
  const SegmentLogStats now = tier_->log().stats();
  if (now.lost != stats_.lost) {
    did("lost", 0, now.lost - stats_.lost);
    // A version that was never durable may be followed by the one before it.
    oracle_.lost_on_the_way();
    for (testing::KeyState& key : keys_) key.seen = 0;
  }
  if (now.lost != stats_.lost || now.evicted != stats_.evicted || now.damaged != stats_.damaged ||
      tier_->log().recovery().dropped_segments > 0) {
    oracle_.some_left([&](const TierKey& key) { return tier_->may_contain(key); },
                      [&](const TierKey& key) { return tier_->is_pending(key); });
  }
  stats_ = now;
}

void SimulatedStack::put(std::size_t n) {
  const std::uint32_t version = oracle_.begin_put(n);
  const auto value = oracle_.value(n, version);
  const EntryMeta meta = oracle_.meta(n, version);
  const auto done = tier_->put(oracle_.key(n), meta, value);
  notice();
  did("put", n, done ? version : 0);
  // If the tier below rejects a put, it must not be visible above and vanish later.
  if (!done || !host_->put(oracle_.key(n), meta, value)) {
    static_cast<void>(host_->erase(oracle_.key(n)));
  }
  if (done) oracle_.put_done(n, version);
}

void SimulatedStack::look(std::size_t n, bool must_be_there) {
  auto found = host_->get(oracle_.key(n), room_);
  if (!found || !*found) {
    found = tier_->get(oracle_.key(n), room_);
    notice();
    // An entry that is about to be replaced below must not stay above.
    if (found && *found && !tier_->is_pending(oracle_.key(n))) {
      static_cast<void>(host_->put(oracle_.key(n), (*found)->meta, (*found)->bytes));
    }
  }
  const std::optional<TierEntry> entry = found.value_or(std::nullopt);
  if (!entry && must_be_there && oracle_.expects(n) && flips_ > 0) {
    // One bit costs one entry at most; two may destroy both copies of a segment's name.
    if (flips_ == 1) flips_ = 0;
    keys_[n].certain = keys_[n].newest = 0;  // it will not be there later, either
    return;
  }
  // It was read from memory. Below it, the version before is found until this one is written, or
  // for good if it never is.
  if (tier_->is_pending(oracle_.key(n)) || keys_[n].newest == 0) keys_[n].seen = 0;
  const std::uint32_t seen_before = keys_[n].seen;
  const Finding finding = oracle_.judge(n, entry, must_be_there);
  did("get", n, entry ? keys_[n].seen.load() : 0);
  if (finding != Finding::kFine) did(testing::to_string(finding), n, seen_before);
  tally_.note(finding, fmt::format("key {}, {}", n, options_.text()));
}

void SimulatedStack::erase(std::size_t n) {
  oracle_.begin_erase(n);
  static_cast<void>(host_->erase(oracle_.key(n)));
  const auto done = tier_->erase(oracle_.key(n));
  notice();
  did("erase", n, done.has_value() ? 1 : 0);
  if (done) oracle_.erase_done(n);
}

bool SimulatedStack::flush() {
  const auto done = tier_->flush();
  notice();
  did("flush", 0, done.has_value() ? 1 : 0);
  if (done) oracle_.flushed();
  return done.has_value();
}

void SimulatedStack::answer(std::size_t n) {
  BackendRequest& asked = asked_[n];
  const std::uint32_t version = ++asked.given;
  const Duration ttl = rng_.chance(0.3) ? Duration(1min) : Duration(24h * 36'500);
  did("answer", n, version);
  asked.over.emplace_back(clock_.now() + ttl, wall_.now() + ttl);
  Question question(testing::scope(1), question_text(n));
  static_cast<void>(archive_->insert(question, testing::answer(answer_text(n, version)),
                                     {.ttl = ttl, .tags = {"n" + std::to_string(n % 2)}}));
  notice();
}

void SimulatedStack::ask(std::size_t n) {
  Question question(testing::scope(1), question_text(n));
  std::optional<Answer> found = answers_->find(question).answer;
  std::optional<AnswerLookup> restored;
  if (!found) {
    restored = archive_->restore(question);
    if (restored) found = restored->answer;
    notice();
  }
  did("ask", n, found ? found->text.size() : 0);
  if (!found) return;
  ++tally_.answers;
  BackendRequest& asked = asked_[n];
  for (std::uint32_t version = asked.given; version > 0; --version) {
    if (found->text != answer_text(n, version)) continue;
    auto& [over, wall_over] = asked.over[version - 1];
    // The remaining ttl by the wall clock continues on the monotonic clock.
    if (restored && restored->left) over = std::max(over, clock_.now() + *restored->left);
    if (version <= asked.gone)
      return tally_.note(Finding::kCameBack, "an answer, " + options_.text());
    if (clock_.now() >= over && wall_.now() >= wall_over) {
      ++tally_.wrong;
      say("an expired answer");
    }
    return;
  }
  tally_.note(Finding::kWrongBytes, "an answer, " + options_.text());
}

void SimulatedStack::erase_answers() {
  const std::size_t parity = rng_.below(2);
  if (rng_.chance(0.5)) {
    const std::size_t n = rng_.below(kQuestions);
    Question question(testing::scope(1), question_text(n));
    if (archive_->erase(question)) asked_[n].gone = asked_[n].given;
  } else if (archive_->erase(AnswerFilter{.tag = "n" + std::to_string(parity)})) {
    for (std::size_t n = parity; n < kQuestions; n += 2) asked_[n].gone = asked_[n].given;
  }
  notice();
}

void SimulatedStack::step() {
  const std::size_t n = rng_.below(kKeys);
  switch (rng_.below(16)) {
    case 0:
      return erase(n);
    case 1:
    case 2:
      return static_cast<void>(flush());
    case 3:
    case 4:
    case 5:
      return look(n, false);
    case 6:
      tier_->catch_up();
      return notice();
    case 7:
      clock_.advance(Duration(rng_.below(7'000'000'000)));
      return wall_.set(wall_.now() + 1s);
    case 8:
    case 9:
      return answer(n % kQuestions);
    case 10:
      return ask(n % kQuestions);
    case 11:
      return rng_.chance(0.2) ? erase_answers() : ask(n % kQuestions);
    default:
      return put(n);
  }
}

void SimulatedStack::check_accounts() {
  tier_->log().check_invariants();
  const TierStats host = host_->stats();
  if (host.used != host_room_.used()) say("the host tier's accounting differs from its budget");
  if (room_.used() != 0_B) say("a copy's memory was not released");
  const TierStats disk = tier_->stats();
  if (disk.used > disk.capacity) say("above the capacity");
}

void SimulatedStack::safety() {
  for (int i = 0; i < options_.steps; ++i) {
    if (tier_ == nullptr && !start()) {
      // The tier does not open while the disk fails; the machine restarts.
      disk_.reboot(rng_);
      oracle_.process_ended();
      continue;
    }
    if (rng_.chance(options_.fault_rate)) {
      fault();
    } else {
      step();
    }
    if (disk_.crashed()) end_life(rng_.chance(0.5));
    if (tier_ != nullptr) check_accounts();
  }
}

void SimulatedStack::liveness() {
  disk_.fail(DiskFault::kNone, 1);
  host_room_.set_capacity(options_.host);
  if (rng_.chance(0.5) && tier_ != nullptr) end_life(rng_.chance(0.5));
  if (tier_ == nullptr && !start()) return say("the tier does not open again");
  clock_.advance(6s);  // longer than the open duration of the circuit
  // Each flush has to report one earlier failure; there are few.
  for (int told = 0; !flush(); ++told) {
    if (told == 8) return say("flush fails without faults");
    clock_.advance(6s);
  }
  for (std::size_t n = 0; n < kKeys; ++n) look(n, true);
  flips_ = 0;
  std::size_t hits = 0;
  for (std::size_t n = 0; n < kKeys; ++n) {
    put(n);
    tier_->catch_up();
    if (keys_[n].newest != keys_[n].given) put(n);  // it was refused before; now it must succeed
  }
  if (!flush()) return say("flush fails without faults");
  clock_.advance(6s);
  for (std::size_t n = 0; n < kKeys; ++n) {
    if (tier_->may_contain(oracle_.key(n))) ++hits;
    // From disk: only a read proves that reads work again.
    static_cast<void>(host_->erase(oracle_.key(n)));
    look(n, true);
  }
  if (options_.capacity >= 1_MiB ? hits < kKeys : hits < kKeys / 2) {
    say(fmt::format("{} of {} hits after the faults", hits, kKeys));
  }
  erase(0);
  look(0, false);
  if (!tier_->stats().degraded_reason.empty())
    say("still degraded: " + tier_->stats().degraded_reason);
  check_accounts();
  did("hits", 0, hits);
}

}  // namespace afterimage::fire
