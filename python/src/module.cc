// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace afterimage::python;
  module.doc() = "Afterimage's rooms as Python sees them; import afterimage instead.";
  bind_words(module);
  bind_identity(module);
  bind_tiers(module);  // before those who take one
  bind_encoder(module);
  bind_ledger(module);
  bind_residency(module);
  bind_prefix(module);
  bind_semantic(module);
  bind_pressure(module);
  bind_replay(module);
}
