// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/traffic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>
#include <tuple>

#include "bench/workload/zipf.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

// Domains of keys, so that keys of different kinds never collide.
enum KeyKind : std::uint64_t {
  kInstructions = 1,
  kImageKey = 2,
  kTurn = 3,
  kTraceBlock = 4,
  kTraceMedia = 5,
  kTraceGap = 6,
  kTraceTail = 7
};

Duration exponential(Rng& rng, double mean_seconds) {
  const double seconds = -mean_seconds * std::log1p(-rng.uniform());
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class GeneratedTraffic final : public Traffic {
 public:
  explicit GeneratedTraffic(const TrafficOptions& options)
      : options_(options),
        popularity_(options.images, options.skew),
        arrivals_(Rng(options.seed).split(1)),
        tasks_(Rng(options.seed).split(2)) {
    next_task_at_ = exponential(arrivals_, task_interval());
  }

  [[nodiscard]] std::uint64_t requests() const override { return options_.requests; }

  bool next(SimulatedRequest& request) override {
    if (emitted_ == options_.requests) return false;
    while (turns_.empty() || turns_.top().at > next_task_at_) begin_task();
    ConversationTurn turn = turns_.top();
    turns_.pop();
    ++emitted_;
    write(turn, request);
    if (++turn.number < turn.of) {
      turn.at += exponential(arrivals_, to_milliseconds(options_.think) / 1e3);
      turns_.push(turn);
    }
    return true;
  }

 private:
  /// A future turn of a session; everything else follows from the task's number.
  struct ConversationTurn {
    Duration at{0};
    std::uint64_t task = 0;
    std::uint32_t agent = 0;
    std::uint32_t number = 0;  // from 0
    std::uint32_t of = 1;
  };
  struct Later {
    bool operator()(const ConversationTurn& a, const ConversationTurn& b) const {
      return std::tie(a.at, a.task, a.agent) > std::tie(b.at, b.task, b.agent);
    }
  };

  [[nodiscard]] double task_interval() const {
    return options_.turns * options_.agents / options_.rate;
  }

  void begin_task() {
    for (std::uint32_t agent = 0; agent < options_.agents; ++agent) {
      // Geometric distribution, at least one turn.
      const double continue_probability = 1 - 1 / options_.turns;
      std::uint32_t turns = 1;
      while (turns < 1'000 && arrivals_.chance(continue_probability)) ++turns;
      // The first agent begins immediately, the others later, at random.
      const Duration after =
          agent == 0 ? Duration(0) : exponential(arrivals_, to_milliseconds(options_.think) / 1e3);
      turns_.push({.at = next_task_at_ + after, .task = tasks_begun_, .agent = agent, .of = turns});
    }
    ++tasks_begun_;
    next_task_at_ += exponential(arrivals_, task_interval());
  }

  [[nodiscard]] std::uint32_t tokens_of(std::uint64_t image) const {
    const double part = Rng(mixed_key(kImageKey, image)).uniform();
    const double least = std::log(options_.least_image_tokens);
    const double most = std::log(options_.most_image_tokens);
    return static_cast<std::uint32_t>(std::lround(std::exp(least + part * (most - least))));
  }

  void write(const ConversationTurn& turn, SimulatedRequest& request) const {
    request.session = mixed_key(turn.task, turn.agent);
    request.facts = {.now = turn.at,
                     .output_tokens = options_.answer_tokens,
                     .kind = TurnKind::kHuman,
                     .stop = StopReason::kEndTurn};
    request.prompt.clear();
    request.images.clear();
    std::uint64_t key = mixed_key(kInstructions, turn.agent);
    std::uint32_t tokens = 0;
    const auto add = [&](std::uint32_t more) {
      if (more > 0) request.prompt.push_back({.key = key, .tokens = more});
      tokens += more;
    };
    add(options_.instruction_tokens);
    Rng choice = tasks_.split(turn.task);
    for (std::uint32_t i = 0; i < options_.images_per_task; ++i) {
      const std::uint64_t image = popularity_.draw(choice);
      const std::uint32_t size = tokens_of(image);
      request.images.push_back(
          {.key = mixed_key(kImageKey, image), .tokens = size, .offset = tokens, .encode = {}});
      key = mixed_key(key, mixed_key(kImageKey, image));
      add(size);
    }
    for (std::uint32_t n = 0; n <= turn.number; ++n) {
      key = mixed_key(key, mixed_key(kTurn, mixed_key(request.session, n)));
      add(options_.question_tokens + (n == 0 ? 0 : options_.answer_tokens));
    }
    request.input_tokens = tokens;
  }

  const TrafficOptions options_;
  const Zipf popularity_;
  Rng arrivals_;
  Rng tasks_;
  Duration next_task_at_{0};
  std::uint64_t tasks_begun_ = 0;
  std::uint64_t emitted_ = 0;
  std::priority_queue<ConversationTurn, std::vector<ConversationTurn>, Later> turns_;
};

class TracedTraffic final : public Traffic {
 public:
  explicit TracedTraffic(const Trace& trace) : trace_(trace) {}
  [[nodiscard]] std::uint64_t requests() const override { return trace_.requests.size(); }

  bool next(SimulatedRequest& request) override {
    if (next_ == trace_.requests.size()) return false;
    const TraceRequest& from = trace_.requests[next_++];
    request.session = from.session == kNoSession ? mixed_key(kTurn, next_) : from.session;
    request.input_tokens = from.input_tokens;
    request.facts = {.now = from.at,
                     .output_tokens = from.output_tokens,
                     .kind = from.kind,
                     .stop = from.stop,
                     .hint = from.hint};
    request.prompt.clear();
    request.images.clear();
    Cuts cuts;
    for (const std::uint32_t block : from.blocks) {
      const std::uint32_t end = std::min(cuts.tokens + trace_.block_tokens, from.input_tokens);
      cut_at_media(from, end, cuts, request);
      cut(end, mixed_key(kTraceBlock, block), cuts, request);
    }
    // Tokens after the last named block get a unique key: they are cached but never hit again.
    if (cuts.tokens < from.input_tokens) {
      cuts.before = mixed_key(kTraceTail, mixed_key(next_, cuts.before));
      cut_at_media(from, from.input_tokens, cuts, request);
      cut(from.input_tokens, mixed_key(kTraceTail, cuts.before), cuts, request);
    }
    for (const TraceMedia& media : from.media) {
      const TraceItem& item = trace_.items[media.item];
      request.images.push_back({.key = mixed_key(kImageKey, media.item),
                                .tokens = item.tokens,
                                .offset = media.offset,
                                .encode = item.encode});
    }
    return true;
  }

 private:
  /// Progress of splitting a prompt into pieces.
  struct Cuts {
    std::uint64_t before = 0;  // key of the last piece
    std::uint32_t tokens = 0;
    std::size_t next_medium = 0;
  };

  static void cut(std::uint32_t at, std::uint64_t key, Cuts& cuts, SimulatedRequest& request) {
    if (at <= cuts.tokens) return;
    cuts.before = key;
    request.prompt.push_back({.key = key, .tokens = at - cuts.tokens});
    cuts.tokens = at;
  }

  /// Splits before and after media, where prompts diverge and caches can resume.
  void cut_at_media(const TraceRequest& from, std::uint32_t end, Cuts& cuts,
                    SimulatedRequest& request) const {
    for (; cuts.next_medium < from.media.size(); ++cuts.next_medium) {
      const TraceMedia& media = from.media[cuts.next_medium];
      if (media.offset >= end) return;
      cut(media.offset, mixed_key(cuts.before, mixed_key(kTraceGap, media.offset)), cuts, request);
      const std::uint32_t behind = media.offset + trace_.items[media.item].tokens;
      if (behind >= end) return;
      cut(behind,
          mixed_key(cuts.before, mixed_key(kTraceMedia, mixed_key(media.item, media.offset))), cuts,
          request);
    }
  }

  const Trace& trace_;
  std::size_t next_ = 0;
};

}  // namespace

std::uint64_t mixed_key(std::uint64_t a, std::uint64_t b) {
  return Rng(a * 0x9E3779B97F4A7C15U + b).next();
}

Result<std::unique_ptr<Traffic>> generated_traffic(const TrafficOptions& options) {
  const auto wrong = [](const char* message) { return fail(ErrorCode::kInvalidArgument, message); };
  if (options.requests < 1 || options.images < 1) {
    return wrong("at least one request and one image are required");
  }
  if (!(options.skew >= 0 && options.skew <= 5)) return wrong("the skew must be 0 to 5");
  if (!(options.rate > 0)) return wrong("the rate of requests must be above 0");
  if (!(options.turns >= 1 && options.turns <= 100))
    return wrong("the turns per session must be 1 to 100");
  if (options.agents < 1 || options.agents > 1'000)
    return wrong("the agents per task must be 1 to 1000");
  if (options.images_per_task > 1'000) return wrong("the images per task must be at most 1000");
  if (options.question_tokens < 1) return wrong("a question needs at least one token");
  if (options.least_image_tokens < 1 || options.least_image_tokens > options.most_image_tokens) {
    return wrong("the fewest tokens of an image must be at least 1 and at most the most");
  }
  return std::make_unique<GeneratedTraffic>(options);
}

std::unique_ptr<Traffic> traced_traffic(const Trace& trace) {
  return std::make_unique<TracedTraffic>(trace);
}

}  // namespace afterimage
