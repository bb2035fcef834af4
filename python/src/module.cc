// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace afterimage::python;
  module.doc() = "Implementation of the package afterimage; import that instead.";
  bind_types(module);
  bind_identity(module);
  bind_tiers(module);  // before the classes that take a tier
  bind_encoder(module);
  bind_ledger(module);
  bind_eviction(module);
  bind_prefix(module);
  bind_answers(module);
  bind_pressure(module);
  bind_replay(module);
}
