// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <set>

#include "afterimage/encoder_ledger.h"
#include "bindings.h"

namespace afterimage::python {

namespace {

/// Attributes of vLLM's Request, interned once.
struct Words {
  PyObject* request_id = PyUnicode_InternFromString("request_id");
  PyObject* mm_features = PyUnicode_InternFromString("mm_features");
  PyObject* identifier = PyUnicode_InternFromString("identifier");
  PyObject* num_encoder_embeds = PyUnicode_InternFromString("get_num_encoder_embeds");
};
const Words& words() {
  static const Words interned;
  return interned;
}

nb::object attribute(nb::handle object, PyObject* name) {
  return nb::steal(nb::detail::getattr(object.ptr(), name));
}

std::string text(nb::handle object) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<std::size_t>(size)};
}

InputIndex input_of(std::int64_t input) {
  if (input < 0 || input > UINT32_MAX) {
    raise(ErrorCode::kInvalidArgument,
          "expected an input index of at least 0, got " + std::to_string(input));
  }
  return InputIndex(static_cast<std::uint32_t>(input));
}

std::int64_t number(InputIndex input) { return static_cast<std::int64_t>(input); }

RequestId request_of(nb::handle request) {
  return RequestId(text(attribute(request, words().request_id)));
}

ItemId item_of(nb::handle request, std::int64_t input) {
  const nb::object features = attribute(request, words().mm_features);
  const nb::object feature =
      nb::steal(nb::detail::raise_if_null(PySequence_GetItem(features.ptr(), input)));
  return ItemId(text(attribute(feature, words().identifier)));
}

EmbeddingCount embeds(std::int64_t count) {
  if (count < 0) {
    raise(ErrorCode::kInvalidArgument,
          "expected a count of embeddings, got " + std::to_string(count));
  }
  return EmbeddingCount(static_cast<std::uint64_t>(count));
}

EmbeddingCount size_of(nb::handle request, std::int64_t input) {
  PyObject* const arguments[] = {request.ptr(), PyLong_FromLongLong(input)};
  const nb::object index = nb::steal(arguments[1]);
  const nb::object size = nb::steal(nb::detail::raise_if_null(PyObject_VectorcallMethod(
      words().num_encoder_embeds, arguments, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
  return embeds(nb::cast<std::int64_t>(size));
}

/// A negative budget fits nothing, and every item has a size.
EncoderDemand demand_of(nb::handle request, std::int64_t input, std::int64_t budget,
                        std::int64_t scheduled) {
  return {
      .size = size_of(request, input),
      .compute_left = EmbeddingCount(static_cast<std::uint64_t>(std::max(budget, std::int64_t{0}))),
      .scheduled = embeds(scheduled)};
}

nb::set inputs_of(const std::vector<InputIndex>& inputs) {
  nb::set set;
  for (const InputIndex input : inputs) set.add(number(input));
  return set;
}

nb::list texts(const std::vector<ItemId>& items) {
  nb::list list;
  for (const ItemId& item : items) list.append(item.text());
  return list;
}

nb::dict cached(const EncoderLedger& self) {
  nb::dict cached;
  for (const auto& [item, requests] : self.references()) {
    nb::set names;
    for (const RequestId& request : requests) names.add(request.text());
    cached[item.text().c_str()] = names;
  }
  return cached;
}

nb::object freeable(const EncoderLedger& self) {
  nb::object ordered = nb::module_::import_("collections").attr("OrderedDict")();
  for (const SizedItem& entry : self.freeable()) {
    ordered[entry.item.text().c_str()] = entry.size.value();
  }
  return ordered;
}

nb::dict sizes(const EncoderLedger& self) {
  nb::dict sizes;
  for (const auto& [item, requests] : self.references()) {
    sizes[item.text().c_str()] = self.size_of(item)->value();
  }
  return sizes;
}

nb::dict request_inputs(const EncoderLedger& self) {
  std::set<RequestId> requests;
  for (const auto& [item, names] : self.references()) requests.insert(names.begin(), names.end());
  nb::dict inputs;
  for (const RequestId& request : requests) {
    inputs[request.text().c_str()] = inputs_of(self.inputs_of(request));
  }
  return inputs;
}

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
            return self.take(RequestId(text(request)), input_of(input), ItemId(text(item)));
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
            or_raise(self.allocate(RequestId(text(request)), input_of(input), ItemId(text(item)),
                                   embeds(size)));
          },
          nb::arg("request"), nb::arg("input"), nb::arg("item"), nb::arg("size"),
          "Charges a new item and references it for this input. Never evicts.")
      .def(
          "release",
          [](EncoderLedger& self, nb::str request, std::int64_t input) {
            return self.release(RequestId(text(request)), input_of(input));
          },
          nb::arg("request"), nb::arg("input"),
          "This input no longer needs its item. True if it held one.")
      .def(
          "release_all",
          [](EncoderLedger& self, nb::str request) {
            return self.release_all(RequestId(text(request)));
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
            return inputs_of(self.inputs_of(RequestId(text(request))));
          },
          nb::arg("request"), nb::sig("def inputs_of(self, request: str) -> set[int]"),
          "The inputs of a request that hold an item.")
      .def_prop_ro("capacity", [](const EncoderLedger& self) { return self.capacity().value(); })
      .def_prop_ro("free_embeddings",
                   [](const EncoderLedger& self) { return self.free_embeddings().value(); })
      .def_prop_ro("freeable_embeddings",
                   [](const EncoderLedger& self) { return self.freeable_embeddings().value(); });
}

/// The ledger under vLLM's names and arguments; afterimage/vllm/encoder_cache_manager.py derives
/// from it. In C++ because a scheduler calls it several times per request. Reading a request's
/// attributes may run Python, so each call reads all of them before it touches the ledger.
struct RequestLedger {
  EncoderLedger ledger;
  /// What get_cached_input_ids() has answered, by request id, until the request's inputs change: a
  /// scheduler asks for every running request in every step.
  nb::dict answered;
  nb::object none = frozen({});  // of a request without inputs

  /// The inputs of this request change.
  void forget(nb::handle request) {
    const nb::object name = attribute(request, words().request_id);
    if (PyDict_Contains(answered.ptr(), name.ptr()) == 1) nb::del(answered[name]);
  }
  nb::object inputs_of_request(nb::handle request) {
    const nb::object name = attribute(request, words().request_id);
    if (PyObject* const known = PyDict_GetItemWithError(answered.ptr(), name.ptr())) {
      return nb::borrow(known);
    }
    const std::vector<InputIndex> inputs = ledger.inputs_of(RequestId(text(name)));
    if (inputs.empty()) return none;  // not remembered: nobody would say that it ended
    nb::object found = frozen(inputs);
    answered[name] = found;
    return found;
  }
  static nb::object frozen(const std::vector<InputIndex>& inputs) {
    return nb::steal(nb::detail::raise_if_null(PyFrozenSet_New(inputs_of(inputs).ptr())));
  }
};

/// A method of CPython's own kind. A scheduler calls it for every running request in every step, and
/// nanobind's dispatch would take longer than the answer.
PyObject* get_cached_input_ids(PyObject* self, PyObject* request) noexcept {
  try {
    if (!nb::inst_ready(self)) throw nb::type_error("RequestLedger.__init__() was not called");
    return nb::inst_ptr<RequestLedger>(self)->inputs_of_request(request).release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef request_ledger_methods[] = {
    {"get_cached_input_ids", get_cached_input_ids, METH_O,
     "get_cached_input_ids($self, request, /)\n--\n\nThe inputs that hold an item now."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot request_ledger_slots[] = {{Py_tp_methods, request_ledger_methods}, {0, nullptr}};

void bind_request_ledger(nb::module_& module) {
  using Self = RequestLedger;
  nb::class_<Self>(module, "RequestLedger", nb::type_slots(request_ledger_slots),
                   "vLLM's EncoderCacheManager on an EncoderLedger: the part that is called for "
                   "every request.")
      .def(
          "__init__",
          [](Self* self, std::int64_t cache_size) {
            new (self) Self{.ledger = EncoderLedger(embeds(cache_size)), .answered = {}};
          },
          nb::arg("cache_size"))
      .def(
          "check_and_update_cache",
          [](Self& self, nb::handle request, std::int64_t input_id) {
            const RequestId name = request_of(request);
            const ItemId item = item_of(request, input_id);
            self.forget(request);
            return self.ledger.take(name, input_of(input_id), item);
          },
          nb::arg("request"), nb::arg("input_id"), "References the input's item if it is resident.")
      .def(
          "can_allocate",
          [](Self& self, nb::handle request, std::int64_t input_id,
             std::int64_t encoder_compute_budget, std::int64_t num_embeds_to_schedule) {
            const EncoderDemand demand =
                demand_of(request, input_id, encoder_compute_budget, num_embeds_to_schedule);
            return self.ledger.make_room(demand);
          },
          nb::arg("request"), nb::arg("input_id"), nb::arg("encoder_compute_budget"),
          nb::arg("num_embeds_to_schedule"), "Makes space by evicting the oldest freeable items.")
      .def(
          "allocate",
          [](Self& self, nb::handle request, std::int64_t input_id) {
            const RequestId name = request_of(request);
            const ItemId item = item_of(request, input_id);
            const EmbeddingCount size = size_of(request, input_id);
            self.forget(request);
            or_raise(self.ledger.allocate(name, input_of(input_id), item, size));
          },
          nb::arg("request"), nb::arg("input_id"), "Charges the input's item.")
      .def(
          "get_cached_num_encoder_embeds",
          [](const Self& self, nb::handle request, std::int64_t input_id) -> nb::object {
            const auto size = self.ledger.size_of(item_of(request, input_id));
            return size.has_value() ? nb::cast(size->value()) : nb::none();
          },
          nb::arg("request"), nb::arg("input_id"),
          nb::sig("def get_cached_num_encoder_embeds(self, request: object, input_id: int) -> int "
                  "| None"),
          "Embeddings that the input's item is charged for; None: it is not resident.")
      .def(
          "free_encoder_input",
          [](Self& self, nb::handle request, std::int64_t input_id) {
            const RequestId name = request_of(request);
            self.forget(request);
            self.ledger.release(name, input_of(input_id));
          },
          nb::arg("request"), nb::arg("input_id"), "Releases the input. May be called twice.")
      .def(
          "free",
          [](Self& self, nb::handle request) {
            self.forget(request);
            self.ledger.release_all(request_of(request));
          },
          nb::arg("request"), "Releases every input of the request.")
      .def(
          "get_freed_mm_hashes", [](Self& self) { return texts(self.ledger.drain_freed()); },
          nb::sig("def get_freed_mm_hashes(self) -> list[str]"), "Items that workers must drop.")
      .def(
          "reset",
          [](Self& self) {
            self.answered.clear();
            self.ledger.reset();
          },
          "Forgets everything.")
      .def_prop_ro("cache_size", [](const Self& self) { return self.ledger.capacity().value(); })
      .def_prop_ro("num_free_slots",
                   [](const Self& self) { return self.ledger.free_embeddings().value(); })
      .def_prop_ro("num_freeable_slots",
                   [](const Self& self) { return self.ledger.freeable_embeddings().value(); })
      .def_prop_ro(
          "cached", [](const Self& self) { return cached(self.ledger); },
          nb::sig("def cached(self) -> dict[str, set[str]]"))
      .def_prop_ro(
          "num_embeds_by_hash", [](const Self& self) { return sizes(self.ledger); },
          nb::sig("def num_embeds_by_hash(self) -> dict[str, int]"))
      .def_prop_ro(
          "request_cached_ids", [](const Self& self) { return request_inputs(self.ledger); },
          nb::sig("def request_cached_ids(self) -> dict[str, set[int]]"))
      .def_prop_ro(
          "freeable", [](const Self& self) { return freeable(self.ledger); },
          nb::sig("def freeable(self) -> collections.OrderedDict[str, int]"))
      .def_prop_ro(
          "freed", [](const Self& self) { return texts(self.ledger.freed()); },
          nb::sig("def freed(self) -> list[str]"));
}

/// The same, for encoder-decoder models.
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
            const RequestId name = request_of(request);
            const ItemId item = item_of(request, input_id);
            const EmbeddingCount size = size_of(request, input_id);
            or_raise(self.ledger.allocate(name, input_of(input_id), item, size));
          },
          nb::arg("request"), nb::arg("input_id"))
      .def(
          "get_cached_input_ids",
          [](const Self& self, nb::handle request) {
            return inputs_of(self.ledger.inputs_of(request_of(request)));
          },
          nb::arg("request"),
          nb::sig("def get_cached_input_ids(self, request: object) -> set[int]"))
      .def(
          "free_encoder_input",
          [](Self& self, nb::handle request, std::int64_t input_id) {
            const RequestId name = request_of(request);
            self.ledger.release(name, input_of(input_id));
          },
          nb::arg("request"), nb::arg("input_id"),
          "Credits the budget once, however often it is "
          "called.")
      .def(
          "free",
          [](Self& self, nb::handle request) { self.ledger.release_all(request_of(request)); },
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
  bind_request_ledger(module);
  bind_request_budget(module);
}

}  // namespace afterimage::python
