// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/certify/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <ranges>
#include <string_view>
#include <utility>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "foundation/text/ascii.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kWholeVocabulary = 1U << 20U;
constexpr double kLeastProbability = 1e-12;
/// Of a key's length. Half precision loses less than a thousandth.
constexpr double kMostKeyDifference = 0.01;

constexpr std::string_view kSpace = " \t\r\n";

/// Digests and encoder outputs of the workload's images, each made once.
class Images {
 public:
  explicit Images(const Engine& engine) : engine_(engine) {}

  static ContentDigest content(const MediaItem& item) {
    return item.digest.has_value() ? *item.digest : content_digest(item);
  }
  Result<TensorViews> embeddings(const MediaItem& item) {
    auto& kept = outputs_[content(item)];
    if (kept == nullptr) {
      AFI_TRY(EncoderOutput output, engine_.encode(item));
      kept = std::make_unique<const EncoderOutput>(std::move(output));
    }
    return views_of(*kept);
  }

 private:
  const Engine& engine_;
  std::map<ContentDigest, std::unique_ptr<const EncoderOutput>> outputs_;
};

struct Prompt {
  Sequence sequence;
  std::vector<TensorViews> embeddings;
};

Result<Prompt> prompt_of(const Engine& engine, Images& images, const Request& request) {
  std::vector<ContentDigest> contents;
  Prompt prompt;
  for (const MediaItem* item : media_of(request)) {
    contents.push_back(Images::content(*item));
    AFI_TRY(prompt.embeddings.emplace_back(), images.embeddings(*item));
  }
  AFI_TRY(prompt.sequence, engine.prepare(request, contents));
  return prompt;
}

bool has_images(const Request& request) {
  const auto items = media_of(request);
  return !items.empty() && std::ranges::all_of(items, [](const MediaItem* item) {
    return item->modality == Modality::kImage;
  });
}

/// Where the KV comes from: another image, then the request's own ones in reverse order.
Request donor_of(const Request& request, const MediaItem* other) {
  Request donor{.id = request.id, .tenant = request.tenant};
  donor.messages.push_back({.role = Role::kUser, .parts = {std::string("Look at these.")}});
  auto& parts = donor.messages.front().parts;
  if (other != nullptr) parts.emplace_back(*other);
  auto items = media_of(request);
  std::ranges::reverse(items);
  for (const MediaItem* item : items) parts.emplace_back(*item);
  parts.emplace_back(std::string("What do you see?"));
  return donor;
}

class Certifying {
 public:
  Certifying(const Engine& engine, const Workload& workload, const CertifyOptions& options)
      : engine_(engine), workload_(workload), options_(options), images_(engine) {
    generate_.max_tokens = options.max_tokens;
    generate_.top_logprobs = kWholeVocabulary;
    report_.engine = options.engine_name;
    report_.limits = options.limits;
    report_.columns.push_back({.name = "recompute"});
    report_.columns.push_back({.name = "as it was"});
    for (const std::uint32_t count : options.recomputed) {
      const std::string name = count == 0 ? "turned" : fmt::format("turned, {} computed", count);
      report_.columns.push_back({.name = name, .turned = true, .recomputed = TokenCount(count)});
    }
  }

  Result<CertifyReport> run() && {
    AFI_TRY_VOID(check());
    for (std::size_t i = 0; i < workload_.requests.size(); ++i) {
      if (has_images(workload_.requests[i])) {
        AFI_TRY_VOID(measure(i));
      } else {
        ++report_.skipped;
      }
      if (options_.on_progress) options_.on_progress(i + 1, workload_.requests.size());
    }
    if (report_.columns.front().tokens.requests == 0) {
      return fail(ErrorCode::kInvalidArgument, "no request of the workload has an image");
    }
    for (CertifyColumn& column : report_.columns) finish(column);
    decide();
    return std::move(report_);
  }

 private:
  /// What one request's answer is compared with.
  struct Exact {
    Completion completion;
    std::optional<std::string> expected;
    std::string task;
  };

  Result<void> check() {
    const KvLayout* const layout = engine_.kv_layout();
    if (layout == nullptr) return fail(ErrorCode::kUnsupported, "the engine exposes no KV");
    const KeyRotation* const rotation = engine_.key_rotation();
    if (rotation != nullptr) {
      AFI_TRY_VOID(check_rotation(*rotation, *layout));
      const bool one_axis =
          std::ranges::all_of(rotation->axes, [](auto axis) { return axis == 0; });
      report_.rotation = one_axis ? "RoPE" : "M-RoPE";
      return {};
    }
    for (const LayerGroup& group : layout->groups) {
      if (group.kind == KvKind::kFull || group.kind == KvKind::kShared) continue;
      return fail(ErrorCode::kUnsupported,
                  fmt::format("the model has {} layers, whose KV cannot be used at other positions",
                              to_string(group.kind)));
    }
    const std::string why = engine_.why_no_rotation();
    return fail(ErrorCode::kUnsupported,
                why.empty() ? "this engine does not say how its keys depend on their positions"
                            : "KV of images cannot be used at other positions: " + why);
  }

  /// An image of a later request that this one does not have.
  [[nodiscard]] const MediaItem* other_image(std::size_t from) const {
    const auto own = media_of(workload_.requests[from]);
    for (std::size_t step = 1; step < workload_.requests.size(); ++step) {
      const Request& request = workload_.requests[(from + step) % workload_.requests.size()];
      for (const MediaItem* item : media_of(request)) {
        if (item->modality != Modality::kImage) continue;
        const ContentDigest content = Images::content(*item);
        const bool known = std::ranges::any_of(
            own, [&](const MediaItem* mine) { return Images::content(*mine) == content; });
        if (!known) return item;
      }
    }
    return nullptr;
  }

  Result<Generation> generate(const Prompt& prompt, const KvUse& use) const {
    return engine_.generate_from(prompt.sequence, prompt.embeddings, generate_, use);
  }

  Result<void> measure(std::size_t index) {
    const Request& request = workload_.requests[index];
    AFI_TRY(const Prompt prompt, prompt_of(engine_, images_, request));
    AFI_TRY(const Prompt donor, prompt_of(engine_, images_, donor_of(request, other_image(index))));
    KvUse capture;
    capture.wanted.rows_to = TokenCount(static_cast<std::uint32_t>(donor.sequence.tokens.size()));
    GenerateOptions one = generate_;
    one.max_tokens = TokenCount(1);
    one.top_logprobs = std::nullopt;
    AFI_TRY(const Generation there,
            engine_.generate_from(donor.sequence, donor.embeddings, one, capture));
    capture.wanted.rows_to = TokenCount(static_cast<std::uint32_t>(prompt.sequence.tokens.size()));
    AFI_TRY(Generation cold, generate(prompt, capture));
    compare_first_layer(prompt.sequence, cold.kv, donor.sequence, there.kv);
    Exact exact{.completion = std::move(cold.completion), .expected = std::nullopt, .task = ""};
    exact.task = prompt.sequence.spans.size() == 1 ? "single-hop" : "multi-hop";
    if (const auto it = workload_.expected.find(request.id); it != workload_.expected.end()) {
      exact.expected = it->second;
    }
    add(exact, exact.completion, prompt, report_.columns.front());
    for (CertifyColumn& column : report_.columns | std::views::drop(1)) {
      const auto moved = moved_for(prompt.sequence, donor.sequence, there.kv, column);
      KvUse use;
      use.moved = moved;
      AFI_TRY(const Generation made, generate(prompt, use));
      add(exact, made.completion, prompt, column);
    }
    return {};
  }

  /// The first layer's keys depend on the token and its place alone: turned, those of the donor must be
  /// those that were computed here. This finds a wrong rotation also where the model hides it.
  void compare_first_layer(const Sequence& prompt, const KvSlice& here, const Sequence& donor,
                           const KvSlice& there) {
    KeyRotation first = *engine_.key_rotation();
    first.keys.resize(1);
    const KeyRotation::Keys& keys = first.keys.front();
    for (const MediaSpan& span : prompt.spans) {
      const auto from = std::ranges::find(donor.spans, span.content, &MediaSpan::content);
      if (from == donor.spans.end()) continue;
      const TokenPlace to = engine_.place_of(prompt, span.offset);
      const TokenPlace at = engine_.place_of(donor, from->offset);
      const TokenPlace steps{to[0] - at[0], to[1] - at[1], to[2] - at[2]};
      std::vector<std::byte> moved = joined(rows_of(*from, there)[keys.group]);
      const std::vector<std::byte> computed = joined(rows_of(span, here)[keys.group]);
      const std::size_t row = moved.size() / span.length.value();
      for (std::size_t i = 0; i < span.length.value(); ++i) {
        const auto own = std::span(moved).subspan(i * row, row);
        rotate_keys(first, keys.group, steps, own);
        const double off = key_difference(first, 0, own, std::span(computed).subspan(i * row, row));
        report_.key_difference = std::max(report_.key_difference, off);
      }
    }
  }
  static std::vector<std::byte> joined(const std::vector<KvRows>& pieces) {
    std::vector<std::byte> bytes;
    for (const KvRows& piece : pieces) {
      bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
    }
    return bytes;
  }

  /// Images of no more tokens than are computed anyway are computed.
  std::vector<MovedMedia> moved_for(const Sequence& prompt, const Sequence& donor,
                                    const KvSlice& kv, const CertifyColumn& column) const {
    std::vector<MovedMedia> moved;
    for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
      if (prompt.spans[i].length <= column.recomputed) continue;
      const auto span = std::ranges::find_if(donor.spans, [&](const MediaSpan& candidate) {
        return candidate.content == prompt.spans[i].content;
      });
      if (span == donor.spans.end() || span->length != prompt.spans[i].length) continue;
      // Keys that stay as they are: as if they had been computed here.
      const Sequence& from = column.turned ? donor : prompt;
      const TokenCount at = column.turned ? span->offset : prompt.spans[i].offset;
      moved.push_back({.span = i,
                       .recomputed = column.recomputed,
                       .from = engine_.place_of(from, at),
                       .rows = rows_of(*span, kv)});
    }
    return moved;
  }

  static void add(const Exact& exact, const Completion& made, const Prompt& prompt,
                  CertifyColumn& column) {
    const auto& expected = exact.completion.tokens;
    const auto parts = std::ranges::mismatch(made.tokens, expected);
    const auto same = static_cast<std::size_t>(parts.in1 - made.tokens.begin());
    const bool differs = parts.in1 != made.tokens.end() || parts.in2 != expected.end();
    column.tokens.requests += 1;
    column.tokens.same += same;
    column.tokens.other += differs ? 1 : 0;
    // The text before these tokens is the same in both runs.
    const std::size_t comparable =
        std::min({same + 1, made.logprobs.size(), exact.completion.logprobs.size()});
    for (std::size_t i = 0; i < comparable; ++i) {
      column.tokens.divergence += divergence(exact.completion.logprobs[i], made.logprobs[i]);
    }
    for (const MediaSpan& span : prompt.sequence.spans) column.image_tokens += span.length.value();
    column.computed += made.moved.value();  // turned round in finish()
    column.first_token += made.first_token_after;
    if (exact.expected.has_value()) judge(exact, made, column);
  }

  static void judge(const Exact& exact, const Completion& made, CertifyColumn& column) {
    auto task = std::ranges::find(column.tasks, exact.task, &TaskLoss::name);
    if (task == column.tasks.end()) {
      task = column.tasks.insert(task, TaskLoss{.name = exact.task});
    }
    const std::string_view expected = ascii::trimmed(*exact.expected, kSpace);
    const bool before = ascii::trimmed(exact.completion.text, kSpace) == expected;
    const bool after = ascii::trimmed(made.text, kSpace) == expected;
    task->asked += 1;
    task->right += before ? 1 : 0;
    task->lost += before && !after ? 1 : 0;
    task->gained += !before && after ? 1 : 0;
  }

  /// Of the moved distribution from the exact one, in nats, over the exact one's tokens. Normalised
  /// here, because the rounding of single logarithms would hide small differences.
  static double divergence(const TokenLogprobs& exact, const TokenLogprobs& moved) {
    std::map<TokenId, double> other;
    for (const TokenLogprob& one : moved.top) other.emplace(one.token, one.logprob);
    std::vector<std::pair<double, double>> both;
    double sum_p = 0;
    double sum_q = 0;
    for (const TokenLogprob& one : exact.top) {
      const auto found = other.find(one.token);
      const double q = found == other.end() ? kLeastProbability : std::exp(found->second);
      both.emplace_back(std::exp(static_cast<double>(one.logprob)), std::max(q, kLeastProbability));
      sum_p += both.back().first;
      sum_q += both.back().second;
    }
    double sum = 0;
    for (const auto& [p, q] : both) {
      if (p > kLeastProbability) sum += p / sum_p * std::log(p / sum_p * sum_q / q);
    }
    return std::max(sum, 0.0);
  }

  static void finish(CertifyColumn& column) {
    column.computed = column.image_tokens - column.computed;
    std::ranges::sort(column.tasks, std::greater(), &TaskLoss::name);
    const auto compared = static_cast<double>(column.tokens.same + column.tokens.other);
    if (compared > 0) column.tokens.divergence /= compared;
    // The certificate has 12 decimals. Rounded here, the report and the file show the same number.
    column.tokens.divergence = std::round(column.tokens.divergence * 1e12) / 1e12;
  }

  [[nodiscard]] double limit_of(const TaskLoss& task) const {
    return task.name == "single-hop" ? options_.limits.single_hop : options_.limits.multi_hop;
  }

  /// Empty: it keeps to the limits.
  [[nodiscard]] std::string excess(const CertifyColumn& column) const {
    const double tokens = column.tokens.share().high;
    if (tokens > options_.limits.tokens) {
      return fmt::format("up to {:.2f} % of the tokens may differ, and {:.2f} % may at most",
                         100 * tokens, 100 * options_.limits.tokens);
    }
    if (column.tokens.divergence > options_.limits.divergence) {
      return fmt::format("the distributions differ by {:.3g} nats, and {:.3g} are allowed",
                         column.tokens.divergence, options_.limits.divergence);
    }
    for (const TaskLoss& task : column.tasks) {
      if (task.share().high <= limit_of(task)) continue;
      return fmt::format("up to {:.2f} points of {} answers may be lost, and {:.2f} may at most",
                         100 * task.share().high, task.name, 100 * limit_of(task));
    }
    return "";
  }

  void decide() {
    if (report_.key_difference > kMostKeyDifference) {
      report_.verdict = fmt::format(
          "Refused. The rotation is wrong: the first layer's keys, turned to their new places, "
          "differ "
          "by {:.1f} % from those computed there",
          100 * report_.key_difference);
      return;
    }
    std::string best;
    double least = 2;
    for (const CertifyColumn& column : report_.columns) {
      if (!column.turned) continue;
      const std::string why = excess(column);
      if (column.tokens.share().high < least) {
        least = column.tokens.share().high;
        best = fmt::format("{}: {}", column.name, why);
      }
      // If no image is so long, nothing was moved: that certifies nothing.
      if (!why.empty() || column.computed == column.image_tokens) continue;
      report_.certificate =
          MovedCertificate{.origin = kv_origin(engine_.identity(), *engine_.kv_layout()),
                           .engine = report_.engine,
                           .recomputed = column.recomputed,
                           .tokens = column.tokens,
                           .tasks = column.tasks};
      report_.verdict = fmt::format("Certified: {}", column.name);
      return;
    }
    report_.verdict = "Refused. The best column is " + best;
  }

  const Engine& engine_;
  const Workload& workload_;
  const CertifyOptions& options_;
  Images images_;
  GenerateOptions generate_;
  CertifyReport report_;
};

}  // namespace

Result<CertifyReport> certify(const Engine& engine, const Workload& workload,
                              const CertifyOptions& options) {
  return Certifying(engine, workload, options).run();
}

}  // namespace afterimage
