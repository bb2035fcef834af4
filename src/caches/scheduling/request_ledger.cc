// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <utility>

#include "afterimage/result.h"
#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {

bool InputAccount::has(const RequestId& request, InputIndex input) const {
  const auto held = held_.find(request);
  return held != held_.end() && held->second.contains(input);
}

Result<bool> InputAccount::charge(const RequestId& request, InputIndex input, EmbeddingCount size) {
  if (const auto held = held_.find(request); held != held_.end()) {
    if (const auto found = held->second.find(input); found != held->second.end()) {
      if (found->second == size) return false;
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("input {} of request '{}' has {} embeddings, but it is charged for "
                              "{}",
                              std::to_underlying(input), request.text(), size.value(),
                              found->second.value()));
    }
  }
  if (size > free_) {
    return fail(ErrorCode::kNoSpace,
                fmt::format("input {} of request '{}' needs {} embeddings; {} of {} are free",
                            std::to_underlying(input), request.text(), size.value(), free_.value(),
                            capacity_.value()));
  }
  held_[request].emplace(input, size);
  free_ -= size;
  return true;
}

bool InputAccount::credit(const RequestId& request, InputIndex input) {
  const auto held = held_.find(request);
  if (held == held_.end()) return false;
  const auto found = held->second.find(input);
  if (found == held->second.end()) return false;
  free_ += found->second;
  held->second.erase(found);
  if (held->second.empty()) held_.erase(held);
  return true;
}

void InputAccount::reset() {
  held_.clear();
  free_ = capacity_;
}

std::vector<InputIndex> InputAccount::inputs_of(const RequestId& request) const {
  std::vector<InputIndex> inputs;
  const auto held = held_.find(request);
  if (held == held_.end()) return inputs;
  inputs.reserve(held->second.size());
  for (const auto& [input, size] : held->second) inputs.push_back(input);
  return inputs;
}

void InputAccount::check_invariants() const {
  EmbeddingCount charged{};
  for (const auto& [request, inputs] : held_) {
    AFI_CHECK(!inputs.empty());
    for (const auto& [input, size] : inputs) charged += size;
  }
  AFI_CHECK(free_ <= capacity_ && charged == capacity_ - free_);
}

Result<void> RequestScopedLedger::allocate(const RequestId& request, InputIndex input,
                                           EmbeddingCount size) {
  AFI_TRY([[maybe_unused]] const bool charged, account_.charge(request, input, size));
  return {};
}

bool RequestScopedLedger::release(const RequestId& request, InputIndex input) {
  if (!account_.credit(request, input)) return false;
  freed_.push_back({request, input});
  return true;
}

std::size_t RequestScopedLedger::release_all(const RequestId& request) {
  const std::vector<InputIndex> inputs = account_.inputs_of(request);
  for (const InputIndex input : inputs) release(request, input);
  return inputs.size();
}

std::vector<RequestInput> RequestScopedLedger::drain_freed() {
  // A worker drops items before it encodes: an input that is allocated again must not be dropped.
  std::erase_if(freed_, [this](const RequestInput& freed) {
    return account_.has(freed.request, freed.input);
  });
  return std::exchange(freed_, {});
}

void RequestScopedLedger::reset() {
  account_.reset();
  freed_.clear();
}

void RequestScopedLedger::check_invariants() const { account_.check_invariants(); }

}  // namespace afterimage
