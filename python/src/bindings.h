// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "casters.h"

/// Shared by all bindings: errors, and tensors in and out.
///
/// Threads  Every function requires the GIL unless it says otherwise. Hashing, copying, waiting and
///          I/O happen inside without_gil(), which touches no Python object.
namespace afterimage::python {

namespace nb = nanobind;

/// Throws the Python exception of this code (afterimage/errors.py).
[[noreturn]] void raise(const Error& error);
[[noreturn]] void raise(ErrorCode code, std::string message);

/// For a cache with a tier that was not opened as erasable.
[[noreturn]] void raise_not_erasable();

template <typename T>
T or_raise(Result<T> result) {
  if (!result.has_value()) raise(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

template <std::invocable Work>
auto without_gil(Work&& work) {
  const nb::gil_scoped_release released;
  return std::forward<Work>(work)();
}

/// A caller's tensor, kept alive and readable while this object lives; no copy.
struct BorrowedTensor {
  nb::ndarray<nb::ro> array;
  TensorView view;
};
/// One tensor (buffer protocol or DLPack), or a list or tuple of them. Raises InvalidArgument with
/// what was expected: C-contiguous, in CPU memory, of a supported dtype.
std::vector<BorrowedTensor> borrow_tensors(nb::handle object);
TensorViews views_of(const std::vector<BorrowedTensor>& tensors);
/// The bytes of one tensor or bytes-like object.
BorrowedTensor borrow_tensor(nb::handle object);

/// A cached tensor lent to Python: read-only, alive as long as it is referenced.
struct LentTensor {
  std::shared_ptr<const void> owner;
  TensorView view;
};
nb::tuple lend(const std::shared_ptr<const void>& owner, std::span<const TensorView> views);

DType dtype_named(std::string_view name);
Modality modality_named(std::string_view name);
/// From a str. Python raises for one that is not valid UTF-8.
std::string text_of(nb::handle object);

/// Holds a Namespace, which has no default value.
struct SpaceHolder {
  Namespace space;
};

/// How often advise_encoder_parallelism() recommended data in this process.
std::uint64_t data_mode_recommendations();

void bind_types(nb::module_& module);
void bind_identity(nb::module_& module);
void bind_contexts(nb::module_& module);
void bind_encoder(nb::module_& module);
void bind_ledger(nb::module_& module);
void bind_request_ledger(nb::module_& module);
void bind_scheduling(nb::module_& module);
void bind_tiers(nb::module_& module);
void bind_eviction(nb::module_& module);
void bind_prefix(nb::module_& module);
void bind_answers(nb::module_& module);
void bind_pressure(nb::module_& module);
void bind_replay(nb::module_& module);
void bind_shared_files(nb::module_& module);

}  // namespace afterimage::python
