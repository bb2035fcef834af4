// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/encoder/encoder_archive.h"

#include <utility>

#include "storage/memory/packed_tensors.h"

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

void EncoderArchive::keep(const EncoderKey& key, std::span<const TensorView> tensors, Duration cost,
                          std::vector<EntryLabel> labels) {
  put(key, tensors, cost, std::move(labels), admission_);
  if (load_or_compute_ != nullptr) {
    load_or_compute_->learn(EntryClass::kEncoderOutput, bytes_of(tensors), cost);
  }
}

void EncoderArchive::keep_returned(const EncoderKey& key, std::span<const TensorView> tensors,
                                   Duration cost, std::vector<EntryLabel> labels) {
  put(key, tensors, cost, std::move(labels), nullptr);
}

void EncoderArchive::put(const EncoderKey& key, std::span<const TensorView> tensors, Duration cost,
                         std::vector<EntryLabel> labels, WriteAdmission* admission) {
  const PutOnce::Outcome outcome =
      kept_.put(place(key), tensors, cost, std::move(labels), admission);
  const MutexLock lock(mutex_);
  switch (outcome) {
    case PutOnce::Outcome::kThere:
      break;
    case PutOnce::Outcome::kPut:
      ++stats_.kept;
      break;
    case PutOnce::Outcome::kRefused:
      ++stats_.refused;
      break;
    case PutOnce::Outcome::kDeclined:
      ++stats_.unwritten;
      break;
  }
}

std::optional<EncoderArchive::Loaded> EncoderArchive::load(const EncoderKey& key,
                                                           LoadChoice* choice) {
  if (!tier_.may_contain(place(key))) return std::nullopt;
  LoadStep step;
  LoadChoice made{.steps = 1};
  if (load_or_compute_ != nullptr) {
    step = step_of(key);
    made = load_or_compute_->choose(step);
  }
  if (choice != nullptr) *choice = made;
  if (made.steps > 0) return get(key, step, made);
  const MutexLock lock(mutex_);
  ++stats_.declined;
  return std::nullopt;
}

std::optional<EncoderArchive::Loaded> EncoderArchive::load_again(const EncoderKey& key) {
  return get(key, load_or_compute_ == nullptr ? LoadStep() : step_of(key), {.steps = 1});
}

LoadStep EncoderArchive::step_of(const EncoderKey& key) const {
  return load_or_compute_->step_of(EntryClass::kEncoderOutput, tier_.metadata(place(key)));
}

std::optional<EncoderArchive::Loaded> EncoderArchive::get(const EncoderKey& key,
                                                          const LoadStep& step,
                                                          const LoadChoice& choice) {
  const bool known = tier_.holds(place(key));
  const auto entry = load_or_compute_ == nullptr
                         ? tier_.get(place(key), transfer_)
                         : load_or_compute_->get(tier_, place(key), transfer_, step, choice);
  std::optional<Loaded> loaded;
  if (entry.has_value() && entry->has_value()) {
    if (auto output = output_of(**entry)) {
      loaded = {.output = *std::move(output),
                .cost = (*entry)->meta.cost,
                .labels = (*entry)->meta.labels};
    }
  }
  // An absent entry is a miss, and a failure only if the tier claimed to hold it.
  if (loaded.has_value() && admission_ != nullptr) admission_->returned(place(key));
  const bool nothing = entry.has_value() && !entry->has_value() && !known;
  if (nothing) return std::nullopt;
  const MutexLock lock(mutex_);
  ++(loaded.has_value() ? stats_.loaded : stats_.failed);
  if (!entry.has_value() && entry.error().code == ErrorCode::kNoSpace) ++stats_.no_memory;
  return loaded;
}

EncoderArchiveStats EncoderArchive::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace afterimage
