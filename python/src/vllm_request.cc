// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "vllm_request.h"

#include <nanobind/stl/string.h>

#include <algorithm>

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

}  // namespace

nb::object name_of(nb::handle request) { return attribute(request, words().request_id); }

nb::object identifier_of(nb::handle request, std::int64_t input) {
  const nb::object features = attribute(request, words().mm_features);
  const nb::object feature =
      nb::steal(nb::detail::raise_if_null(PySequence_GetItem(features.ptr(), input)));
  return attribute(feature, words().identifier);
}

EmbeddingCount size_of(nb::handle request, std::int64_t input) {
  PyObject* const arguments[] = {request.ptr(), PyLong_FromLongLong(input)};
  const nb::object index = nb::steal(arguments[1]);
  const nb::object size = nb::steal(nb::detail::raise_if_null(PyObject_VectorcallMethod(
      words().num_encoder_embeds, arguments, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
  return embeds(nb::cast<std::int64_t>(size));
}

EncoderDemand demand_of(nb::handle request, std::int64_t input, std::int64_t budget,
                        std::int64_t scheduled) {
  return {
      .size = size_of(request, input),
      .compute_left = EmbeddingCount(static_cast<std::uint64_t>(std::max(budget, std::int64_t{0}))),
      .scheduled = embeds(scheduled)};
}

std::string utf8(nb::handle text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

InputIndex input_of(std::int64_t input) {
  if (input < 0 || input > UINT32_MAX) {
    raise(ErrorCode::kInvalidArgument,
          "expected an input index of at least 0, got " + std::to_string(input));
  }
  return InputIndex(static_cast<std::uint32_t>(input));
}

EmbeddingCount embeds(std::int64_t count) {
  if (count < 0) {
    raise(ErrorCode::kInvalidArgument,
          "expected a count of embeddings, got " + std::to_string(count));
  }
  return EmbeddingCount(static_cast<std::uint64_t>(count));
}

nb::set inputs_of(const std::vector<InputIndex>& inputs) {
  nb::set set;
  for (const InputIndex input : inputs) set.add(static_cast<std::int64_t>(input));
  return set;
}

nb::list texts(const std::vector<ItemId>& items) {
  nb::list list;
  for (const ItemId& item : items) list.append(item.text());
  return list;
}

}  // namespace afterimage::python
