// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "caches/scheduling/encoder_ledger.h"
#include "caches/scheduling/ledger_of.h"
#include "vllm_request.h"

/// EncoderLedger's rules under vLLM's names and arguments; afterimage/vllm/encoder_cache_manager.py derives from
/// it. In C++ because a scheduler calls it several times per request. Its methods are of CPython's own
/// kind: nanobind's dispatch would take longer than the answer.
namespace afterimage::python {

namespace {

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
    return one.is(other) || PyUnicode_Compare(one.ptr(), other.ptr()) == 0;
  }
};

/// The text itself and not an object of a class derived from str: that could run any Python code
/// when it is compared.
nb::object exact_text(nb::object text) {
  if (PyUnicode_CheckExact(text.ptr())) return text;
  return nb::steal(nb::detail::raise_if_null(PyUnicode_FromObject(text.ptr())));
}

/// A request that holds inputs, or held some and was not freed yet: while it is being answered a
/// scheduler asks in every step which it holds.
struct KnownRequest {
  nb::object name;
  nb::object request;  // the object that asked first; kept, so that no other is at its address
  nb::object inputs;   // a frozenset; not valid: nobody asked since they changed
};

struct PythonNames {
  using Item = nb::object;  // a str
  using Request = const KnownRequest*;
  using ItemHash = PythonHash;
  using ItemEqual = SameText;
  using RequestHash = std::hash<Request>;
  static std::string describe(const Item& item) { return utf8(item); }
  static std::string describe(Request request) { return utf8(request->name); }
};
using Ledger = LedgerOf<PythonNames>;

nb::object empty_frozenset() {
  return nb::steal(nb::detail::raise_if_null(PyFrozenSet_New(nullptr)));
}

/// Adding numbers collects no garbage.
void add(nb::handle set, const std::vector<InputIndex>& inputs) {
  for (const InputIndex input : inputs) {
    const nb::int_ number(static_cast<std::uint32_t>(input));
    if (PySet_Add(set.ptr(), number.ptr()) != 0) throw nb::python_error();
  }
}

std::vector<InputIndex> inputs_held(std::span<const Ledger::HeldInput> held) {
  std::vector<InputIndex> inputs;
  for (const Ledger::HeldInput& each : held) inputs.push_back(each.input);
  return inputs;
}

// What follows reads the whole ledger before it makes a container: making one may collect garbage,
// and so run Python that calls the ledger.

using SizedItems = std::vector<std::pair<nb::object, EmbeddingCount>>;

SizedItems items_of(const Ledger& self) {
  SizedItems items;
  self.visit_items(
      [&](const nb::object& item, EmbeddingCount size) { items.emplace_back(item, size); });
  return items;
}

nb::dict cached(const Ledger& self) {
  std::vector<std::pair<nb::object, nb::object>> references;  // an item, the name of a request
  self.visit_requests([&](const KnownRequest* request, auto held) {
    for (const auto& each : held) references.emplace_back(*each.entry->item, request->name);
  });
  const SizedItems items = items_of(self);
  nb::dict cached;
  for (const auto& [item, size] : items) cached[item] = nb::set();
  for (const auto& [item, name] : references) nb::cast<nb::set>(cached[item]).add(name);
  return cached;
}

nb::object freeable(const Ledger& self) {
  SizedItems items;
  self.visit_freeable(
      [&](const nb::object& item, EmbeddingCount size) { items.emplace_back(item, size); });
  nb::object ordered = nb::module_::import_("collections").attr("OrderedDict")();
  for (const auto& [item, size] : items) ordered[item] = size.value();
  return ordered;
}

nb::dict sizes(const Ledger& self) {
  const SizedItems items = items_of(self);
  nb::dict sizes;
  for (const auto& [item, size] : items) sizes[item] = size.value();
  return sizes;
}

nb::dict request_inputs(const Ledger& self) {
  std::vector<std::pair<nb::object, std::vector<InputIndex>>> requests;
  self.visit_requests([&](const KnownRequest* request, auto held) {
    requests.emplace_back(request->name, inputs_held(held));
  });
  nb::dict inputs;
  for (const auto& [name, held] : requests) {
    inputs[name] = inputs_of(held);
  }
  return inputs;
}

nb::list list_of(const std::vector<nb::object>& items) {
  nb::list list;
  for (const nb::object& item : items) list.append(item);
  return list;
}

/// Reading a request's attributes may run Python, so each call reads all of them before it touches
/// the ledger. A request's id must not change while it holds inputs.
class RequestLedger {
 public:
  explicit RequestLedger(EmbeddingCount capacity) : ledger_(capacity) {}
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

  bool check_and_update_cache(nb::handle request, std::int64_t input) {
    const nb::object item = exact_text(identifier_of(request, input));
    const InputIndex index = input_of(input);
    if (!ledger_.size_of(item).has_value()) return false;
    KnownRequest& known = find_or_remember(request);
    const bool found = ledger_.take(&known, index, item);
    if (found) changed(known);
    return found;
  }
  bool can_allocate(nb::handle request, std::int64_t input, std::int64_t compute_budget,
                    std::int64_t scheduled) {
    const EncoderDemand demand = demand_of(request, input, compute_budget, scheduled);
    return ledger_.make_room(demand);
  }
  void allocate(nb::handle request, std::int64_t input) {
    const nb::object item = exact_text(identifier_of(request, input));
    const EmbeddingCount size = size_of(request, input);
    const InputIndex index = input_of(input);
    KnownRequest& known = find_or_remember(request);
    or_raise(ledger_.allocate(&known, index, item, size));
    changed(known);
  }
  nb::object get_cached_input_ids(nb::handle request) {
    const KnownRequest* const asked = find(request);
    if (asked == nullptr) return none_;
    if (asked->inputs.is_valid()) return asked->inputs;
    // Making a set may collect garbage, and so run Python that calls this ledger: what was found
    // before may have changed.
    nb::object set = empty_frozenset();
    KnownRequest* const known = find(request);
    if (known == nullptr) return none_;
    if (known->inputs.is_valid()) return known->inputs;
    add(set, inputs_held(ledger_.held_by(known)));
    known->inputs = set;
    return set;
  }
  nb::object get_cached_num_encoder_embeds(nb::handle request, std::int64_t input) {
    const auto size = ledger_.size_of(exact_text(identifier_of(request, input)));
    return size.has_value() ? nb::int_(size->value()) : nb::object(nb::none());
  }
  void free_encoder_input(nb::handle request, std::int64_t input) {
    KnownRequest* const known = find(request);
    if (known == nullptr || !ledger_.release(known, input_of(input))) return;
    if (ledger_.held_by(known).empty()) {
      known->inputs = none_;
      ++without_inputs_;
    } else {
      known->inputs = {};
    }
  }
  void free(nb::handle request) {
    KnownRequest* const known = find(request);
    if (known == nullptr) return;
    if (ledger_.release_all(known) == 0) --without_inputs_;
    by_object_.erase(known->request.ptr());
    const auto found = by_name_.find(known->name);
    const auto ended = std::move(found->second);  // its objects may run Python as they end
    by_name_.erase(found);
  }
  nb::list get_freed_mm_hashes() { return list_of(ledger_.drain_freed()); }
  void reset() {
    ledger_.reset();
    by_object_.clear();
    without_inputs_ = 0;
    const auto ended = std::exchange(by_name_, {});  // their objects may run Python as they end
  }

 private:
  /// Beyond it, requests without inputs are forgotten. vLLM's scheduler frees each request, and runs
  /// fewer.
  static constexpr std::size_t kMostWithoutInputs = 10'000;

  /// nullptr: it holds no inputs and held none. Usually the object alone says which request it is;
  /// another object may have the same name.
  KnownRequest* find(nb::handle request) {
    const auto known = by_object_.find(request.ptr());
    if (known != by_object_.end()) return known->second;
    const auto named = by_name_.find(exact_text(name_of(request)));
    return named == by_name_.end() ? nullptr : named->second.get();
  }
  KnownRequest& find_or_remember(nb::handle request) {
    const auto known = by_object_.find(request.ptr());
    if (known != by_object_.end()) return *known->second;
    if (without_inputs_ >= kMostWithoutInputs) forget_without_inputs();
    nb::object name = exact_text(name_of(request));
    const auto [named, is_new] = by_name_.try_emplace(name);
    if (is_new) {
      named->second = std::make_unique<KnownRequest>(
          KnownRequest{.name = std::move(name), .request = nb::borrow(request), .inputs = none_});
      by_object_.emplace(request.ptr(), named->second.get());
      ++without_inputs_;
    }
    return *named->second;
  }
  /// The request holds inputs now, and which is to be read again.
  void changed(KnownRequest& known) {
    if (known.inputs.is(none_)) --without_inputs_;
    known.inputs = {};
  }
  void forget_without_inputs() {
    std::vector<std::unique_ptr<KnownRequest>> ended;  // their objects may run Python as they end
    boost::unordered::erase_if(by_name_, [&](auto& each) {
      if (!each.second->inputs.is(none_)) return false;
      by_object_.erase(each.second->request.ptr());
      ended.push_back(std::move(each.second));
      return true;
    });
    without_inputs_ = 0;
  }

  Ledger ledger_;
  /// A scheduler asks for the inputs of every running request in every step.
  boost::unordered_flat_map<PyObject*, KnownRequest*> by_object_;
  boost::unordered_flat_map<nb::object, std::unique_ptr<KnownRequest>, PythonHash, SameText>
      by_name_;
  nb::object none_ = empty_frozenset();  // of a request without inputs
  std::size_t without_inputs_ = 0;       // of those in by_name_
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
  nb::class_<Self>(
      module, "RequestLedger", nb::type_slots(request_ledger_slots),
      "vLLM's EncoderCacheManager with EncoderLedger's rules: the part that is called for "
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
          "freed", [](const Self& self) { return list_of(self.ledger().freed()); },
          nb::sig("def freed(self) -> list[str]"));
}

}  // namespace afterimage::python
