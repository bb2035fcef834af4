// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The media match level of a request's plan: which items are looked up as wholes, which part by part.
#include <algorithm>
#include <utility>

#include "afterimage/result.h"
#include "caches/prefix/resume_point.h"
#include "runtime/reuse/plan.h"
#include "runtime/reuse/plan_state.h"
#include "runtime/reuse/split_memory.h"

namespace afterimage {
namespace {

std::size_t covered_media(const Sequence& prompt, TokenCount resume) {
  return prompt.spans.size() - media_to_encode(prompt.spans, resume).size();
}

bool same_bits(const EncoderOutput& a, const TensorViews& b) {
  return std::ranges::equal(a, b, [](const Tensor& one, const TensorView& other) {
    return one.dtype == other.dtype() && one.shape == other.shape() &&
           std::ranges::equal(one.bytes, other.bytes());
  });
}

}  // namespace

void Plan::add_media(const Sequence& prompt) { state_->add_media(prompt, nullptr); }

void Plan::State::add_media(const Sequence& sequence, const Engine* engine, PartsOfMedia parts) {
  if (parts.empty()) splits.clear();
  is_split = std::ranges::any_of(parts, [](const auto& some) { return !some.empty(); });
  SizeOfMedia size_of;
  if (engine != nullptr) {
    size_of = [this, engine](std::size_t item) { return engine->size_of(*identity->media[item]); };
  }
  media = reuse->plan_media(identity->prints, identity->request->hints.agent,
                            covered_media(sequence, resume()), facts, parts, size_of);
}

Result<void> Plan::add_media(const Sequence& prompt, const Engine& engine) {
  SplitMemory* const memory = state_->reuse->splits();
  const RequestIdentity& identity = *state_->identity;
  if (memory == nullptr || memory->verdict(engine.identity()) == SplitMemory::Verdict::kInexact) {
    state_->add_media(prompt, &engine);
    return {};
  }
  const std::size_t items = identity.media.size();
  const std::size_t covered = covered_media(prompt, resume());
  PartsOfMedia parts(items);
  state_->splits.assign(items, nullptr);
  for (std::size_t i = covered; i < items; ++i) {
    const EncoderKey& key = identity.prints.keys[i];
    if (auto known = memory->find(key)) {
      parts[i] = *std::move(known);
      continue;
    }
    AFI_TRY(state_->splits[i], state_->split(i, engine));
    if (state_->splits[i] == nullptr) continue;
    const auto found = state_->splits[i]->parts();
    parts[i].assign(found.begin(), found.end());
    memory->remember(key, parts[i]);
  }
  state_->add_media(prompt, &engine, std::move(parts));
  return {};
}

Result<std::shared_ptr<const SplitMedia>> Plan::State::split(std::size_t item,
                                                             const Engine& engine) {
  const Duration began = reuse->clock().now();
  auto split = engine.split(*identity->media[item]);
  split_time += reuse->clock().now() - began;
  return split;
}

Duration Plan::split_time() const { return state_->split_time; }

Result<const SplitMedia*> Plan::split(std::size_t item, const Engine& engine) {
  std::shared_ptr<const SplitMedia>& split = state_->splits.at(item);
  if (split == nullptr) {
    AFI_TRY(split, state_->split(item, engine));
  }
  if (split != nullptr) return split.get();
  return afterimage::fail(ErrorCode::kCorruption,
                          "the engine split a media item, and then did not split it again");
}

std::optional<std::size_t> Plan::unconfirmed_item(const Engine& engine) const {
  if (!state_->is_split) return std::nullopt;
  const SplitMemory& memory = *state_->reuse->splits();
  if (memory.verdict(engine.identity()) != SplitMemory::Verdict::kUnknown) return std::nullopt;
  return state_->media->split_item();
}

bool Plan::confirm_parts(std::size_t item, const EncoderOutput& whole, const Engine& engine) {
  const bool exact = same_bits(whole, state_->media->embeddings().at(item));
  state_->reuse->splits()->judge(
      engine.identity(), exact ? SplitMemory::Verdict::kExact : SplitMemory::Verdict::kInexact);
  return exact;
}

}  // namespace afterimage
