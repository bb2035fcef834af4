// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/wait_model.h"

namespace afterimage {
namespace {

constexpr double kStep = 0.1;

/// Moves an average towards a value that is within bounds.
void approach(double& average, double value, double least, double most) {
  if (!(value >= least && value <= most)) return;
  average += kStep * (value - average);
}

}  // namespace

std::vector<float> CostModel::tokens_of(const ContentChain& chain) const {
  std::vector<float> tokens;
  tokens.reserve(chain.links.size());
  for (const ChainLink& link : chain.links) {
    const double text = link.text_bytes / bytes_per_token_;
    tokens.push_back(static_cast<float>(link.is_media ? tokens_per_media_ : text));
  }
  return tokens;
}

void CostModel::learn_tokens(const ContentChain& chain, double prompt_tokens) {
  double bytes = 0;
  double media = 0;
  for (const ChainLink& link : chain.links) {
    bytes += link.text_bytes;
    media += link.is_media ? 1 : 0;
  }
  if (media > 0) {
    approach(tokens_per_media_, (prompt_tokens - bytes / bytes_per_token_) / media, 16, 32'768);
  } else if (bytes >= 256 && prompt_tokens > 0) {
    approach(bytes_per_token_, bytes / prompt_tokens, 0.5, 16);
  }
}

}  // namespace afterimage
