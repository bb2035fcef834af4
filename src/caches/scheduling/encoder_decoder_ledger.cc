// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <utility>

#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {

bool EncoderDecoderLedger::fits(const EncoderDemand& demand) const {
  return demand.size <= demand.compute_left && demand.scheduled <= account_.free() &&
         demand.size <= account_.free() - demand.scheduled;
}

Result<void> EncoderDecoderLedger::allocate(const RequestId& request, InputIndex input,
                                            const ItemId& item, EmbeddingCount size) {
  AFI_TRY(const bool charged, account_.charge(request, input, size));
  if (charged) allocated_.push_back(item);
  return {};
}

std::size_t EncoderDecoderLedger::release_all(const RequestId& request) {
  const std::vector<InputIndex> inputs = account_.inputs_of(request);
  for (const InputIndex input : inputs) release(request, input);
  return inputs.size();
}

std::vector<ItemId> EncoderDecoderLedger::drain_freed() {
  return std::exchange(to_free_, std::exchange(allocated_, {}));
}

void EncoderDecoderLedger::reset() {
  account_.reset();
  allocated_.clear();
  to_free_.clear();
}

}  // namespace afterimage
