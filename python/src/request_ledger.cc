// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <exception>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "afterimage/encoder_ledger.h"
#include "bindings.h"
#include "vllm_request.h"

/// The ledger under vLLM's names and arguments; afterimage/vllm/encoder_cache_manager.py derives from
/// it. In C++ because a scheduler calls it several times per request. Its methods are of CPython's own
/// kind: nanobind's dispatch would take longer than the answer.
namespace afterimage::python {

namespace {

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

/// The name that a str says, kept for the next call: a scheduler asks about the same request and
/// item several times in a row. The str is kept alive, so that no other can be at its address.
template <typename Name>
class LastName {
 public:
  const Name& of(const nb::object& text) {
    if (text.ptr() != text_.ptr()) {
      name_ = Name(utf8(text));
      text_ = text;
    }
    return name_;
  }

 private:
  nb::object text_;
  Name name_;
};

/// A str's own hash, which Python computes once.
struct PythonHash {
  std::size_t operator()(const nb::object& text) const {
    const Py_hash_t hash = PyObject_Hash(text.ptr());
    if (hash == -1) throw nb::python_error();
    return static_cast<std::size_t>(hash);
  }
};
struct SameText {
  bool operator()(const nb::object& one, const nb::object& other) const {
    return one.is(other) || (PyUnicode_Check(one.ptr()) && PyUnicode_Check(other.ptr()) &&
                             PyUnicode_Compare(one.ptr(), other.ptr()) == 0);
  }
};

/// Reading a request's attributes may run Python, so each call reads all of them before it touches
/// the ledger. A request's id must not change while it holds inputs.
class RequestLedger {
 public:
  explicit RequestLedger(EmbeddingCount capacity) : ledger_(capacity) {}
  [[nodiscard]] const EncoderLedger& ledger() const { return ledger_; }

  bool check_and_update_cache(nb::handle request, std::int64_t input) {
    const nb::object item = identifier_of(request, input);
    const Asking asking = ask(request);
    const bool found = ledger_.take(asking.id, input_of(input), last_item_.of(item));
    if (found) changed(asking);
    return found;
  }
  bool can_allocate(nb::handle request, std::int64_t input, std::int64_t compute_budget,
                    std::int64_t scheduled) {
    const EncoderDemand demand = demand_of(request, input, compute_budget, scheduled);
    return ledger_.make_room(demand);
  }
  void allocate(nb::handle request, std::int64_t input) {
    const nb::object item = identifier_of(request, input);
    const EmbeddingCount size = size_of(request, input);
    const Asking asking = ask(request);
    or_raise(ledger_.allocate(asking.id, input_of(input), last_item_.of(item), size));
    changed(asking);
  }
  nb::object get_cached_input_ids(nb::handle request) {
    Held* const held = find(request);
    if (held == nullptr) return none_;
    if (!held->inputs.is_valid()) held->inputs = frozen(ledger_.inputs_of(held->id));
    return held->inputs;
  }
  nb::object get_cached_num_encoder_embeds(nb::handle request, std::int64_t input) {
    const auto size = ledger_.size_of(last_item_.of(identifier_of(request, input)));
    return size.has_value() ? nb::int_(size->value()) : nb::object(nb::none());
  }
  void free_encoder_input(nb::handle request, std::int64_t input) {
    Held* const held = find(request);
    if (held == nullptr || !ledger_.release(held->id, input_of(input))) return;
    const auto inputs = ledger_.inputs_of(held->id);
    if (inputs.empty()) {
      drop(*held);
    } else {
      held->inputs = frozen(inputs);
    }
  }
  void free(nb::handle request) {
    Held* const held = find(request);
    if (held == nullptr) return;
    ledger_.release_all(held->id);
    drop(*held);
  }
  nb::list get_freed_mm_hashes() { return texts(ledger_.drain_freed()); }
  void reset() {
    by_object_.clear();
    ledger_.reset();
    const auto ended = std::exchange(by_name_, {});  // their objects may run Python as they end
  }

 private:
  /// A request that holds inputs.
  struct Held {
    nb::object name;
    RequestId id;
    nb::object request;  // the object that asked last; kept, so that no other is at its address
    nb::object inputs;   // a frozenset; not valid: nobody asked since they changed
  };
  struct Asking {
    nb::object request;
    Held* held;       // nullptr: it holds nothing yet
    nb::object name;  // then this is its name
    const RequestId& id;
  };

  /// nullptr: it holds no inputs. Usually the object alone says which request it is; another object may
  /// have the same name.
  Held* find(nb::handle request) {
    const auto known = by_object_.find(request.ptr());
    if (known != by_object_.end()) return known->second;
    return find(request, name_of(request));
  }
  Held* find(nb::handle request, const nb::object& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    remember(*found->second, request);
    return found->second.get();
  }
  void remember(Held& held, nb::handle request) {
    if (held.request.is_valid()) by_object_.erase(held.request.ptr());
    by_object_.insert_or_assign(request.ptr(), &held);
    held.request = nb::borrow(request);
  }
  void drop(Held& held) {
    by_object_.erase(held.request.ptr());
    const auto found = by_name_.find(held.name);
    const auto ended = std::move(found->second);  // its objects may run Python as they end
    by_name_.erase(found);
  }
  Asking ask(nb::handle request) {
    const auto known = by_object_.find(request.ptr());
    if (known != by_object_.end()) {
      return {.request = nb::borrow(request),
              .held = known->second,
              .name = {},
              .id = known->second->id};
    }
    nb::object name = name_of(request);
    Held* const held = find(request, name);
    const RequestId& id = held == nullptr ? last_request_.of(name) : held->id;
    return {.request = nb::borrow(request), .held = held, .name = std::move(name), .id = id};
  }
  /// The inputs of the request that asks.
  void changed(const Asking& asking) {
    if (asking.held != nullptr) {
      asking.held->inputs = {};
      return;
    }
    auto held = std::make_unique<Held>();
    held->name = asking.name;
    held->id = asking.id;
    remember(*held, asking.request);
    by_name_.emplace(asking.name, std::move(held));
  }
  static nb::object frozen(const std::vector<InputIndex>& inputs) {
    nb::object set = nb::steal(nb::detail::raise_if_null(PyFrozenSet_New(nullptr)));
    for (const InputIndex input : inputs) {
      const nb::int_ number(static_cast<std::uint32_t>(input));
      if (PySet_Add(set.ptr(), number.ptr()) != 0) throw nb::python_error();
    }
    return set;
  }

  EncoderLedger ledger_;
  /// A scheduler asks for the inputs of every running request in every step.
  boost::unordered_flat_map<PyObject*, Held*> by_object_;
  boost::unordered_flat_map<nb::object, std::unique_ptr<Held>, PythonHash, SameText> by_name_;
  nb::object none_ = frozen({});  // of a request without inputs
  LastName<RequestId> last_request_;
  LastName<ItemId> last_item_;
};

using Given = std::span<PyObject* const>;
template <std::size_t N>
using Names = std::array<const char*, N>;

/// The arguments in the order of their names, each given by position or by name.
template <std::size_t N>
std::array<PyObject*, N> arguments(const Names<N>& names, Given given, PyObject* keywords) {
  const std::size_t named =
      keywords == nullptr ? 0 : static_cast<std::size_t>(PyTuple_Size(keywords));
  std::array<PyObject*, N> found{};
  if (given.size() + named != N) throw nb::type_error("a wrong number of arguments");
  std::ranges::copy(given, found.begin());
  for (std::size_t index = 0; index < named; ++index) {
    PyObject* const keyword = PyTuple_GetItem(keywords, static_cast<Py_ssize_t>(index));
    const auto at = std::ranges::find_if(names, [&](const char* name) {
      return PyUnicode_CompareWithASCIIString(keyword, name) == 0;
    });
    if (at == names.end()) throw nb::type_error("an argument of an unknown name");
    PyObject*& place = found[static_cast<std::size_t>(at - names.begin())];
    if (place != nullptr) throw nb::type_error("an argument is given twice");
    place = given.data()[given.size() + index];
  }
  return found;
}

std::int64_t integer(PyObject* object) {
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

template <typename Call>
PyObject* answer(PyObject* self, const Call& call) noexcept {
  try {
    if (!nb::inst_ready(self)) throw nb::type_error("RequestLedger.__init__() was not called");
    RequestLedger& ledger = *nb::inst_ptr<RequestLedger>(self);
    if constexpr (std::is_void_v<decltype(call(ledger))>) {
      call(ledger);
      return nb::none().release().ptr();
    } else {
      return nb::object(call(ledger)).release().ptr();
    }
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

constexpr Names<2> kInput = {"request", "input_id"};
constexpr Names<4> kDemand = {"request", "input_id", "encoder_compute_budget",
                              "num_embeds_to_schedule"};

/// A method of a request and one of its inputs.
template <auto method>
PyObject* of_input(PyObject* self, PyObject* const* given, Py_ssize_t count,
                   PyObject* keywords) noexcept {
  return answer(self, [&](RequestLedger& ledger) {
    const auto [request, input] =
        arguments(kInput, {given, static_cast<std::size_t>(count)}, keywords);
    using Answer = decltype((ledger.*method)(request, 0));
    if constexpr (std::is_same_v<Answer, bool>) {
      return nb::bool_((ledger.*method)(request, integer(input)));
    } else {
      return (ledger.*method)(request, integer(input));
    }
  });
}

PyObject* can_allocate(PyObject* self, PyObject* const* given, Py_ssize_t count,
                       PyObject* keywords) noexcept {
  return answer(self, [&](RequestLedger& ledger) {
    const auto [request, input, budget, scheduled] =
        arguments(kDemand, {given, static_cast<std::size_t>(count)}, keywords);
    return nb::bool_(
        ledger.can_allocate(request, integer(input), integer(budget), integer(scheduled)));
  });
}

PyObject* get_cached_input_ids(PyObject* self, PyObject* request) noexcept {
  return answer(self, [&](RequestLedger& ledger) { return ledger.get_cached_input_ids(request); });
}

PyObject* free_request(PyObject* self, PyObject* request) noexcept {
  return answer(self, [&](RequestLedger& ledger) { ledger.free(request); });
}

PyObject* get_freed_mm_hashes(PyObject* self, PyObject* /*none*/) noexcept {
  return answer(self, [](RequestLedger& ledger) { return ledger.get_freed_mm_hashes(); });
}

template <typename Function>
PyMethodDef with_names(const char* name, Function* function, const char* documentation) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL | METH_KEYWORDS, documentation};
}

// nanobind cannot see their types: stub_patterns.txt says them.
PyMethodDef request_ledger_methods[] = {
    with_names("check_and_update_cache", of_input<&RequestLedger::check_and_update_cache>,
               "References the input's item if it is resident."),
    with_names("can_allocate", can_allocate, "Makes space by evicting the oldest freeable items."),
    with_names("allocate", of_input<&RequestLedger::allocate>, "Charges the input's item."),
    {"get_cached_input_ids", get_cached_input_ids, METH_O, "The inputs that hold an item now."},
    with_names("get_cached_num_encoder_embeds",
               of_input<&RequestLedger::get_cached_num_encoder_embeds>,
               "Embeddings that the input's item is charged for; None: it is not resident."),
    with_names("free_encoder_input", of_input<&RequestLedger::free_encoder_input>,
               "Releases the input. May be called twice."),
    {"free", free_request, METH_O, "Releases every input of the request."},
    {"get_freed_mm_hashes", get_freed_mm_hashes, METH_NOARGS, "Items that workers must drop."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot request_ledger_slots[] = {{Py_tp_methods, request_ledger_methods}, {0, nullptr}};

}  // namespace

void bind_request_ledger(nb::module_& module) {
  using Self = RequestLedger;
  nb::class_<Self>(module, "RequestLedger", nb::type_slots(request_ledger_slots),
                   "vLLM's EncoderCacheManager on an EncoderLedger: the part that is called for "
                   "every request.")
      .def(
          "__init__",
          [](Self* self, std::int64_t cache_size) { new (self) Self(embeds(cache_size)); },
          nb::arg("cache_size"))
      .def("reset", &Self::reset, "Forgets everything.")
      .def_prop_ro("cache_size", [](const Self& self) { return self.ledger().capacity().value(); })
      .def_prop_ro("num_free_slots",
                   [](const Self& self) { return self.ledger().free_embeddings().value(); })
      .def_prop_ro("num_freeable_slots",
                   [](const Self& self) { return self.ledger().freeable_embeddings().value(); })
      .def_prop_ro(
          "cached", [](const Self& self) { return cached(self.ledger()); },
          nb::sig("def cached(self) -> dict[str, set[str]]"))
      .def_prop_ro(
          "num_embeds_by_hash", [](const Self& self) { return sizes(self.ledger()); },
          nb::sig("def num_embeds_by_hash(self) -> dict[str, int]"))
      .def_prop_ro(
          "request_cached_ids", [](const Self& self) { return request_inputs(self.ledger()); },
          nb::sig("def request_cached_ids(self) -> dict[str, set[int]]"))
      .def_prop_ro(
          "freeable", [](const Self& self) { return freeable(self.ledger()); },
          nb::sig("def freeable(self) -> collections.OrderedDict[str, int]"))
      .def_prop_ro(
          "freed", [](const Self& self) { return texts(self.ledger().freed()); },
          nb::sig("def freed(self) -> list[str]"));
}

}  // namespace afterimage::python
