// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "afterimage/result.h"
#include "engines/llama_library/loaded_model.h"

namespace afterimage {

/// What a model computed of the same tokens in different batches. A kernel whose sums depend on how
/// many rows are computed together shows here, whatever the weights' types.
struct SelfCheck {
  std::uint32_t tokens = 0;       // of the test prompt
  std::uint32_t again = 0;        // of them, those that were computed once more
  std::uint32_t batches = 0;      // into which these were cut
  bool same = true;               // logits and KV of both, bit for bit
  std::uint32_t positions = 0;    // whose logits were compared
  std::uint32_t same_tokens = 0;  // of them, with the same most likely token
  double max_divergence = 0;      // Kullback-Leibler, in nats: the largest of all positions
  /// False: logits or KV differed in batches with another sequence. Does not decide passed(): alone they may be
  /// the same, and sequences are computed one at a time then.
  bool same_beside_others = true;

  [[nodiscard]] bool passed() const { return same; }
};

/// "self-check: 66 tokens at once, 5 of them in 3 batches, every bit the same", or how much differs.
std::string to_string(const SelfCheck& check);

/// Computes a test prompt at once and then its last tokens in batches of 6, 2 and 1 rows, of which a second
/// sequence has half, if the model has one (`lanes` > 1); compares logits and saved KV of all layers. If that
/// differs, in batches of the same sizes without a second sequence, too. Takes as long as prefilling about 75 tokens, of a recurrent model 130; `progress` is told the fraction
/// done, 0 to 1.
///
/// Errors   kUnavailable: the library failed.
/// Threads  Before the model serves requests: uses sequences 0 and 1, of which 0 holds tokens afterwards.
Result<SelfCheck> self_check(const LoadedModel& model, std::uint32_t lanes,
                             const std::function<void(float)>& progress);

}  // namespace afterimage
