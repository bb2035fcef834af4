// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <string>

#include "afterimage/memory_budget.h"
#include "foundation/platform/fault_points.h"

namespace afterimage {

MemoryBudget::~MemoryBudget() { AFI_CHECK(used_.load() == 0); }

Result<Reservation> MemoryBudget::reserve(Bytes bytes) {
  Bytes::rep used = used_.load();
  do {
    const Bytes::rep capacity = capacity_.load();
    if (!AFI_GUARD("budget.capacity", used <= capacity && bytes.value() <= capacity - used)) {
      return fail(ErrorCode::kNoSpace, "no space for " + std::to_string(bytes.value()) +
                                           " bytes: " + std::to_string(used) + " of " +
                                           std::to_string(capacity) + " are in use");
    }
  } while (!used_.compare_exchange_weak(used, used + bytes.value()));
  Bytes::rep peak = peak_.load();
  while (peak < used + bytes.value() && !peak_.compare_exchange_weak(peak, used + bytes.value())) {
  }
  return Reservation(*this, bytes);
}

}  // namespace afterimage
