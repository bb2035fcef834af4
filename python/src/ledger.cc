// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings.h"
#include "caches/scheduling/encoder_ledger.h"
#include "vllm_request.h"

namespace afterimage::python {

namespace {

/// The ledger under its own names, for any scheduler.
void bind_encoder_ledger(nb::module_& module) {
  nb::class_<EncoderLedger>(
      module, "EncoderLedger",
      "A scheduler's accounting of encoder outputs that requests share; it holds no bytes.\n"
      "\n"
      "Unit     Embeddings: rows of encoder output.\n"
      "Errors   NoSpace: allocate() beyond the capacity. InvalidArgument: two sizes for one "
      "item.\n"
      "Threads  Any: each call holds the GIL.")
      .def(
          "__init__",
          [](EncoderLedger* self, std::int64_t capacity) {
            new (self) EncoderLedger(embeds(capacity));
          },
          nb::arg("capacity"))
      .def(
          "take",
          [](EncoderLedger& self, nb::str request, std::int64_t input, nb::str item) {
            return self.take(RequestId(utf8(request)), input_of(input), ItemId(utf8(item)));
          },
          nb::arg("request"), nb::arg("input"), nb::arg("item"),
          "References the item for this input if it is resident. Otherwise returns False and "
          "changes nothing.")
      .def(
          "make_room",
          [](EncoderLedger& self, std::int64_t size, std::optional<std::int64_t> compute_left,
             std::int64_t scheduled) {
            return self.make_room({.size = embeds(size),
                                   .compute_left = compute_left.has_value() ? embeds(*compute_left)
                                                                            : EmbeddingCount::max(),
                                   .scheduled = embeds(scheduled)});
          },
          nb::arg("size"), nb::arg("compute_left") = nb::none(), nb::arg("scheduled") = 0,
          "Evicts the oldest freeable items until size and scheduled fit. If they cannot fit, "
          "returns False and\n"
          "evicts nothing. Reserves nothing.")
      .def(
          "allocate",
          [](EncoderLedger& self, nb::str request, std::int64_t input, nb::str item,
             std::int64_t size) {
            or_raise(self.allocate(RequestId(utf8(request)), input_of(input), ItemId(utf8(item)),
                                   embeds(size)));
          },
          nb::arg("request"), nb::arg("input"), nb::arg("item"), nb::arg("size"),
          "Charges a new item and references it for this input. Never evicts.")
      .def(
          "release",
          [](EncoderLedger& self, nb::str request, std::int64_t input) {
            return self.release(RequestId(utf8(request)), input_of(input));
          },
          nb::arg("request"), nb::arg("input"),
          "This input no longer needs its item. True if it held one.")
      .def(
          "release_all",
          [](EncoderLedger& self, nb::str request) {
            return self.release_all(RequestId(utf8(request)));
          },
          nb::arg("request"), "Releases every input of the request; returns how many it held.")
      .def(
          "drain_freed", [](EncoderLedger& self) { return texts(self.drain_freed()); },
          nb::sig("def drain_freed(self) -> list[str]"),
          "Items that workers must drop: evicted since the last drain and not resident again.")
      .def("reset", &EncoderLedger::reset, "Forgets everything.")
      .def(
          "inputs_of",
          [](const EncoderLedger& self, nb::str request) {
            return inputs_of(self.inputs_of(RequestId(utf8(request))));
          },
          nb::arg("request"), nb::sig("def inputs_of(self, request: str) -> set[int]"),
          "The inputs of a request that hold an item.")
      .def_prop_ro("capacity", [](const EncoderLedger& self) { return self.capacity().value(); })
      .def_prop_ro("free_embeddings",
                   [](const EncoderLedger& self) { return self.free_embeddings().value(); })
      .def_prop_ro("freeable_embeddings",
                   [](const EncoderLedger& self) { return self.freeable_embeddings().value(); });
}

/// The ledger of encoder-decoder models under vLLM's names and arguments;
/// afterimage/vllm/encoder_cache_manager.py derives from it.
struct RequestBudget {
  EncoderDecoderLedger ledger;
};

void bind_request_budget(nb::module_& module) {
  using Self = RequestBudget;
  nb::class_<Self>(module, "RequestBudget",
                   "vLLM's EncoderDecoderCacheManager: a budget without reuse.")
      .def(
          "__init__",
          [](Self* self, std::int64_t cache_size) {
            new (self) Self{EncoderDecoderLedger(embeds(cache_size))};
          },
          nb::arg("cache_size"))
      .def(
          "check_and_update_cache", [](Self&, nb::handle, std::int64_t) { return false; },
          nb::arg("request"), nb::arg("input_id"), "Always False.")
      .def(
          "can_allocate",
          [](const Self& self, nb::handle request, std::int64_t input_id,
             std::int64_t encoder_compute_budget, std::int64_t num_embeds_to_schedule) {
            return self.ledger.fits(
                demand_of(request, input_id, encoder_compute_budget, num_embeds_to_schedule));
          },
          nb::arg("request"), nb::arg("input_id"), nb::arg("encoder_compute_budget"),
          nb::arg("num_embeds_to_schedule"))
      .def(
          "allocate",
          [](Self& self, nb::handle request, std::int64_t input_id) {
            const RequestId name(utf8(name_of(request)));
            const ItemId item(utf8(identifier_of(request, input_id)));
            const EmbeddingCount size = size_of(request, input_id);
            or_raise(self.ledger.allocate(name, input_of(input_id), item, size));
          },
          nb::arg("request"), nb::arg("input_id"))
      .def(
          "get_cached_input_ids",
          [](const Self& self, nb::handle request) {
            return inputs_of(self.ledger.inputs_of(RequestId(utf8(name_of(request)))));
          },
          nb::arg("request"),
          nb::sig("def get_cached_input_ids(self, request: object) -> set[int]"))
      .def(
          "free_encoder_input",
          [](Self& self, nb::handle request, std::int64_t input_id) {
            const RequestId name(utf8(name_of(request)));
            self.ledger.release(name, input_of(input_id));
          },
          nb::arg("request"), nb::arg("input_id"),
          "Credits the budget once, however often it is "
          "called.")
      .def(
          "free",
          [](Self& self, nb::handle request) {
            self.ledger.release_all(RequestId(utf8(name_of(request))));
          },
          nb::arg("request"))
      .def(
          "get_freed_mm_hashes", [](Self& self) { return texts(self.ledger.drain_freed()); },
          nb::sig("def get_freed_mm_hashes(self) -> list[str]"),
          "Items freed before the previous drain, because workers drop before they execute.")
      .def("reset", [](Self& self) { self.ledger.reset(); })
      .def_prop_ro("cache_size", [](const Self& self) { return self.ledger.capacity().value(); })
      .def_prop_ro("num_free_slots",
                   [](const Self& self) { return self.ledger.free_embeddings().value(); })
      .def_prop_ro(
          "allocated", [](const Self& self) { return texts(self.ledger.allocated()); },
          nb::sig("def allocated(self) -> list[str]"))
      .def_prop_ro(
          "to_free", [](const Self& self) { return texts(self.ledger.to_free()); },
          nb::sig("def to_free(self) -> list[str]"));
}

}  // namespace

void bind_ledger(nb::module_& module) {
  bind_encoder_ledger(module);
  bind_request_budget(module);
}

}  // namespace afterimage::python
