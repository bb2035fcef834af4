// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <boost/unordered/unordered_flat_map.hpp>
#include <utility>

#include "foundation/types/digest_hash.h"
#include "runtime/reuse/media_plan_state.h"
#include "runtime/reuse/plan.h"

namespace afterimage {

MediaPlan::State::Output MediaPlan::State::output_of(const Fingerprint& prints, std::size_t item) {
  Output output;
  output.of = {.item = item};
  output.modality = prints.modalities[item];
  output.key = prints.keys[item];
  return output;
}

MediaPlan::State::Output MediaPlan::State::output_of(const Fingerprint& prints, std::size_t item,
                                                     std::size_t part, const MediaPart& declared) {
  Output output;
  output.of = {.item = item, .part = part};
  output.rows = declared.rows;
  output.modality = prints.modalities[item];
  output.key = prints.space->part_key(output.modality, declared.input, declared.rows,
                                      prints.recipes.of(output.modality));
  return output;
}

MediaPlan::State::Needed MediaPlan::State::needed(const Fingerprint& prints, std::size_t covered,
                                                  const PartsOfMedia& parts) {
  Needed needed;
  boost::unordered_flat_map<EncoderKey, std::size_t, DigestHash> first_with;
  const auto add = [&](Output output, bool is_covered) {
    output.same_as = needed.outputs.size();
    if (is_covered) output.source = MediaSource::kCovered;
    if (!is_covered) {
      output.same_as = first_with.try_emplace(output.key, output.same_as).first->second;
    }
    needed.outputs.push_back(std::move(output));
  };
  for (std::size_t i = 0; i < prints.keys.size(); ++i) {
    Item item{.first = needed.outputs.size()};
    const bool has_parts = i < parts.size() && !parts[i].empty() && prints.space.has_value();
    item.is_split = has_parts && i >= covered;
    if (!item.is_split) add(output_of(prints, i), i < covered);
    if (item.is_split) {
      for (std::size_t part = 0; part < parts[i].size(); ++part) {
        add(output_of(prints, i, part, parts[i][part]), false);
      }
    }
    item.count = needed.outputs.size() - item.first;
    needed.items.push_back(std::move(item));
  }
  return needed;
}

EncoderEntryFacts MediaPlan::State::facts_of(const Output& output, Duration cost) {
  return {.modality = output.modality,
          .cost = cost,
          .labels = output.labels,
          .content = output.content,
          .size = output.size,
          .is_part = output.of.part.has_value()};
}

void MediaPlan::State::claim(std::vector<Output>& outputs, const Fingerprint& prints,
                             const SizeOfMedia& size_of, EncodeOnce& front, AgentId agent) {
  for (std::size_t at = 0; at < outputs.size(); ++at) {
    Output& output = outputs[at];
    if (output.source == MediaSource::kCovered) continue;
    // Only the first of equal outputs claims, so that a request never waits for itself.
    if (output.same_as != at) continue;
    output.claim = front.claim(output.key, agent);
    if (std::holds_alternative<Embeddings>(*output.claim)) continue;
    const std::size_t item = output.of.item;
    output.missed = true;
    // Of an item in parts, the size is known from its first part.
    const bool is_next = at > 0 && outputs[at - 1].of.item == item && outputs[at - 1].missed;
    if (is_next) output.size = outputs[at - 1].size;
    if (!is_next && size_of) output.size = size_of(item);
    output.labels = output.of.part.has_value() ? prints.space->part_labels() : prints.labels(item);
    if (item < prints.contents.size()) output.content = prints.contents[item];
  }
}

}  // namespace afterimage
