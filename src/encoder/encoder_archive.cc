// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encoder/encoder_archive.h"

#include <utility>

#include "afterimage/memory/packed_tensors.h"

namespace afterimage {
namespace {

Result<EncoderOutput> output_of(const TierEntry& entry) {
  AFI_TRY(const TensorViews views, unpack(entry));
  EncoderOutput output;
  for (const TensorView& view : views) {
    output.push_back({.dtype = view.dtype(),
                      .shape = view.shape(),
                      .bytes = {view.bytes().begin(), view.bytes().end()}});
  }
  return output;
}

Bytes bytes_of(std::span<const TensorView> tensors) {
  Bytes bytes;
  for (const TensorView& tensor : tensors) bytes += Bytes(tensor.bytes().size());
  return bytes;
}

}  // namespace

void EncoderArchive::keep(const EncoderKey& key, std::span<const TensorView> tensors,
                          Duration cost) {
  const PutOnce::Outcome outcome =
      kept_.put(TierKey::of(EntryClass::kEncoderOutput, key), tensors, cost);
  if (quicker_ != nullptr) {
    quicker_->learn(EntryClass::kEncoderOutput, bytes_of(tensors), cost);
  }
  if (outcome == PutOnce::Outcome::kThere) return;
  const MutexLock lock(mutex_);
  ++(outcome == PutOnce::Outcome::kPut ? stats_.kept : stats_.refused);
}

std::optional<EncoderArchive::Loaded> EncoderArchive::load(const EncoderKey& key,
                                                           LoadChoice* choice) {
  const TierKey place = TierKey::of(EntryClass::kEncoderOutput, key);
  if (!tier_.may_hold(place)) return std::nullopt;
  LoadStep step;
  LoadChoice made{.steps = 1};
  if (quicker_ != nullptr) {
    step = quicker_->step_of(EntryClass::kEncoderOutput, tier_.outline(place));
    made = quicker_->choose(step);
  }
  if (choice != nullptr) *choice = made;
  if (made.steps == 0) {
    const MutexLock lock(mutex_);
    ++stats_.declined;
    return std::nullopt;
  }
  const auto entry = quicker_ == nullptr ? tier_.get(place, transfer_)
                                         : quicker_->get(tier_, place, transfer_, step, made);
  std::optional<Loaded> loaded;
  if (entry.has_value() && entry->has_value()) {
    if (auto output = output_of(**entry)) {
      loaded = {.output = *std::move(output), .cost = (*entry)->meta.cost};
    }
  }
  const MutexLock lock(mutex_);
  ++(loaded.has_value() ? stats_.loaded : stats_.failed);
  return loaded;
}

EncoderArchiveStats EncoderArchive::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace afterimage
