// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace afterimage::python;
  module.doc() = "Implementation of the package afterimage; import that instead.";
  // What a daemon thread or another extension still holds when the interpreter ends is no leak of
  // these bindings. Tests turn the warnings on.
  nb::set_leak_warnings(false);
  module.def("set_leak_warnings", &nb::set_leak_warnings, nb::arg("enabled"),
             "Whether nanobind reports, when the interpreter ends, what is still referenced.");
  bind_types(module);
  bind_identity(module);
  bind_tiers(module);     // before the classes that take a tier
  bind_pressure(module);  // and those that take a SharedBudget
  bind_contexts(module);
  bind_encoder(module);
  bind_ledger(module);
  bind_request_ledger(module);
  bind_scheduling(module);
  bind_eviction(module);
  bind_prefix(module);
  bind_answers(module);
  bind_replay(module);
  bind_shared_files(module);
}
