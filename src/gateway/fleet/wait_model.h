// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gateway/prompts/content_chain.h"

namespace afterimage {

/// A linear model y = w·x with positive weights, learned one sample at a time (normalized least mean
/// squares). A sample far from what is expected moves it no further than a bound, so that one slow
/// response does not spoil it.
///
/// Threads  Not thread-safe.
template <std::size_t kSize>
class PositiveModel {
 public:
  using Vector = std::array<double, kSize>;
  PositiveModel(const Vector& weights, const Vector& most, double step = 0.1)
      : weights_(weights), most_(most), step_(step) {}

  [[nodiscard]] double at(const Vector& x) const {
    double y = 0;
    for (std::size_t i = 0; i < kSize; ++i) y += weights_[i] * x[i];
    return y;
  }
  void learn(const Vector& x, double y) {
    double norm = 1e-9;
    for (const double value : x) norm += value * value;
    const double expected = at(x);
    const double bound = 4 * expected + 1e-3;
    const double error = std::min(std::max(y - expected, -bound), bound);
    for (std::size_t i = 0; i < kSize; ++i) {
      weights_[i] = std::min(std::max(weights_[i] + step_ * error * x[i] / norm, 1e-6), most_[i]);
    }
  }
  /// Moves one weight a part of the way to a value.
  void pull(std::size_t weight, double to, double part) {
    weights_[weight] += part * (to - weights_[weight]);
  }
  [[nodiscard]] const Vector& weights() const { return weights_; }

 private:
  Vector weights_;
  Vector most_;
  double step_;
};

/// What a request costs on a replica that does nothing else, learned from the responses of all.
///
/// Unit     Seconds and tokens.
/// Threads  Not thread-safe.
class CostModel {
 public:
  /// Estimated tokens of each link.
  [[nodiscard]] std::vector<float> tokens_of(const ContentChain& chain) const;
  /// The server's own count.
  void learn_tokens(const ContentChain& chain, double prompt_tokens);

  /// Prefill and encoding.
  [[nodiscard]] double compute_s(double tokens, double media) const {
    return prompt_.at({1, tokens / kTokens, media});
  }
  /// What compute_s() of all of it exceeds that of the rest by.
  [[nodiscard]] double saved_s(double tokens, double media) const {
    return prompt_.at({0, tokens / kTokens, media});
  }
  /// Of a request that was alone on its replica.
  void learn_compute(double tokens, double media, double took_s) {
    prompt_.learn({1, tokens / kTokens, media}, took_s);
  }

 private:
  static constexpr double kTokens = 1000;
  /// A request, a thousand tokens of prompt, a media item.
  PositiveModel<3> prompt_{{0.01, 0.1, 0.1}, {10, 100, 100}};
  double bytes_per_token_ = 4;
  double tokens_per_media_ = 576;
};

/// How long a request waits and computes on one replica, learned from its first bytes: a constant, its
/// own cost, the prefill that is before it, and the answers that are generated meanwhile.
class WaitModel {
 public:
  explicit WaitModel(double weight = 1)
      : model_({1e-6, 1 / weight, 1 / weight, 0.1 / weight}, {200, 100, 100, 100}) {}

  struct Load {
    double prefill_s = 0;   // expected cost of the requests that have no first byte yet
    double generating = 0;  // requests that have one
  };
  [[nodiscard]] double compute_s(double cost_s) const { return model_.at({kOnce, cost_s, 0, 0}); }
  /// What less of it saves.
  [[nodiscard]] double saved_s(double cost_s) const { return model_.at({0, cost_s, 0, 0}); }
  [[nodiscard]] double wait_s(const Load& load) const {
    return model_.at({0, 0, load.prefill_s, kAnswer * load.generating});
  }
  void learn(double cost_s, const Load& load, double took_s) {
    model_.learn({kOnce, cost_s, load.prefill_s, kAnswer * load.generating}, took_s);
    // Prefill before a request takes about as long as its own, unless samples insist.
    model_.pull(2, model_.weights()[1], 0.02);
  }
  /// Relative to what all replicas together learned.
  [[nodiscard]] double slowness() const { return model_.weights()[1]; }

 private:
  // Of the size of the other inputs, so that each takes its part of an error.
  static constexpr double kOnce = 0.05;
  static constexpr double kAnswer = 0.02;
  PositiveModel<4> model_;
};

}  // namespace afterimage
