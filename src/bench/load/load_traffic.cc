// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/load_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/workload/zipf.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

constexpr double kMostRate = 1e6;
constexpr double kMostSkew = 10;
constexpr std::size_t kRemembered = 4096;  // sessions that may be repeated

/// Labels of the independent streams of random numbers.
enum class Stream : std::uint8_t { kArrivals, kContent, kSides };

Result<void> require(bool fine, std::string_view what) {
  if (fine) return {};
  return fail(ErrorCode::kInvalidArgument, std::string(what));
}

Result<void> check_traffic(const LoadTraffic& t) {
  AFI_TRY_VOID(require(t.requests >= 1 && t.requests <= kMostLoadRequests,
                       fmt::format("requests: 1 to {}", kMostLoadRequests)));
  // Written so that NaN is out of range.
  AFI_TRY_VOID(require(t.rate > 0 && t.rate <= kMostRate, "rate: above 0, at most 1e6 a second"));
  AFI_TRY_VOID(require(t.skew >= 0 && t.skew <= kMostSkew, "skew: 0 to 10"));
  AFI_TRY_VOID(require(t.images >= 1, "images: at least 1"));
  AFI_TRY_VOID(require(t.new_images >= 0 && t.new_images <= 1, "new images: a share, 0 to 1"));
  AFI_TRY_VOID(require(t.repeats >= 0 && t.repeats <= 1, "repeats: a share, 0 to 1"));
  AFI_TRY_VOID(require(t.agents >= 1 && t.agents <= 1000, "agents: 1 to 1000"));
  AFI_TRY_VOID(require(t.turns >= 1 && t.turns <= 100, "turns: 1 to 100"));
  AFI_TRY_VOID(require(t.images_per_task <= kMostLoadPictures,
                       fmt::format("images per task: at most {}", kMostLoadPictures)));
  AFI_TRY_VOID(
      require(t.least_side >= kLeastSide && t.least_side <= t.most_side && t.most_side <= kMostSide,
              fmt::format("image size: {} to {} pixels", kLeastSide, kMostSide)));
  AFI_TRY_VOID(require(t.question_words >= 1 && std::max({t.question_words, t.system_words,
                                                          t.answer_words}) <= kMostLoadWords,
                       "words: at most 1000000, and a question has at least 1"));
  AFI_TRY_VOID(
      require(t.max_tokens >= 1 && t.max_tokens <= kMostLoadTokens, "max tokens: 1 to 1000000"));
  return require(t.think >= Duration(0), "think: at least 0 s");
}

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

Duration exponential(Rng& rng, double mean_seconds) {
  const double seconds = -std::log1p(-rng.uniform()) * mean_seconds;
  return std::chrono::microseconds(std::llround(seconds * 1e6));
}

/// What a session says, without when.
struct SessionPlan {
  std::uint32_t system = 0;
  std::vector<LoadPicture> pictures;
  std::vector<std::uint32_t> texts;  // one for each turn
};

class SessionMaker {
 public:
  explicit SessionMaker(const LoadTraffic& options)
      : options_(options),
        rng_(Rng(options.seed).split(static_cast<std::uint64_t>(Stream::kContent))),
        popular_(options.images, options.skew),
        systems_(std::max(options.systems, 1U), options.skew),
        new_picture_(options.images) {}

  /// The sessions of the next task: one for each agent.
  std::vector<SessionPlan> next_task() {
    std::vector<LoadPicture> pictures;
    for (std::uint32_t i = 0; i < options_.images_per_task; ++i) pictures.push_back(picture());
    std::vector<SessionPlan> sessions;
    for (std::uint32_t agent = 0; agent < options_.agents; ++agent) {
      sessions.push_back(session(pictures));
    }
    return sessions;
  }

 private:
  LoadPicture picture() {
    const bool is_new = rng_.chance(options_.new_images);
    const std::uint32_t id =
        is_new ? new_picture_++ : static_cast<std::uint32_t>(popular_.draw(rng_) - 1);
    // A picture has one size, whenever it is drawn.
    Rng own = Rng(options_.seed).split(static_cast<std::uint64_t>(Stream::kSides)).split(id);
    const double low = std::log(options_.least_side);
    const double high = std::log(options_.most_side);
    const double side = std::round(std::exp(low + own.uniform() * (high - low)));
    return {.id = id,
            .side = std::clamp(static_cast<std::uint32_t>(side), options_.least_side,
                               options_.most_side)};
  }

  SessionPlan session(const std::vector<LoadPicture>& pictures) {
    if (!made_.empty() && rng_.chance(options_.repeats)) return made_[rng_.below(made_.size())];
    SessionPlan plan{.system = 0, .pictures = pictures, .texts = {}};
    if (options_.systems > 0) plan.system = static_cast<std::uint32_t>(systems_.draw(rng_));
    do {
      plan.texts.push_back(text_++);
    } while (plan.texts.size() < kMostTurns && rng_.chance(1 - 1 / options_.turns));
    if (options_.repeats == 0) return plan;
    if (made_.size() < kRemembered) {
      made_.push_back(plan);
    } else {
      made_[rng_.below(kRemembered)] = plan;
    }
    return plan;
  }

  const LoadTraffic& options_;
  Rng rng_;
  Zipf popular_;
  Zipf systems_;
  std::uint32_t new_picture_;
  std::uint32_t text_ = 0;
  std::vector<SessionPlan> made_;
};

}  // namespace

Result<LoadTrace> generate_load(const LoadTraffic& options) {
  AFI_TRY_VOID(check_traffic(options));
  LoadTrace trace{.seed = options.seed,
                  .system_words = options.system_words,
                  .question_words = options.question_words,
                  .answer_words = options.answer_words,
                  .requests = {}};
  Rng arrivals = Rng(options.seed).split(static_cast<std::uint64_t>(Stream::kArrivals));
  SessionMaker maker(options);
  const double tasks_per_second = options.rate / (options.turns * options.agents);
  Duration at{0};
  std::uint32_t session = 0;
  // Sessions that begin before the last kept request are needed, so more are made and then cut.
  const std::size_t enough = static_cast<std::size_t>(options.requests) + options.requests / 4 + 64;
  while (trace.requests.size() < enough) {
    for (const SessionPlan& plan : maker.next_task()) {
      // Agents of a task begin about together.
      Duration turn_at = at + exponential(arrivals, seconds_of(options.think) / 4);
      for (std::size_t turn = 0; turn < plan.texts.size(); ++turn) {
        LoadRequest request{.at = turn_at,
                            .session = session,
                            .system = plan.system,
                            .text = plan.texts[turn],
                            .max_tokens = options.max_tokens,
                            .pictures = {}};
        if (turn == 0) request.pictures = plan.pictures;
        trace.requests.push_back(std::move(request));
        turn_at += exponential(arrivals, seconds_of(options.think));
      }
      ++session;
    }
    at += exponential(arrivals, 1 / tasks_per_second);
  }
  std::ranges::stable_sort(trace.requests, {}, &LoadRequest::at);
  trace.requests.resize(options.requests);
  // Sessions decided the order. Times follow from the rate alone: the first sessions have no later
  // turns of earlier ones beside them, which would make the load rise slowly.
  at = Duration(0);
  for (LoadRequest& request : trace.requests) {
    request.at = at;
    at += exponential(arrivals, 1 / options.rate);
  }
  return trace;
}

LoadContent count_content(const LoadTrace& trace) {
  LoadContent content;
  struct Use {
    std::uint32_t session = 0;
    bool shared = false;
  };
  std::unordered_map<std::uint32_t, Use> pictures;
  std::unordered_map<std::uint32_t, std::uint64_t> in_session;  // pictures so far
  for (const LoadRequest& request : trace.requests) {
    for (const LoadPicture& picture : request.pictures) {
      const auto [use, added] =
          pictures.try_emplace(picture.id, Use{.session = request.session, .shared = false});
      if (added) content.picture_bytes += std::uint64_t{picture.side} * picture.side;
      if (use->second.session != request.session) use->second.shared = true;
    }
    std::uint64_t& shown = in_session[request.session];
    shown += request.pictures.size();
    content.picture_uses += shown;
  }
  content.sessions = in_session.size();
  content.pictures = pictures.size();
  for (const auto& [id, use] : pictures) content.shared += use.shared ? 1 : 0;
  if (!trace.requests.empty()) content.length = trace.requests.back().at;
  return content;
}

}  // namespace afterimage
