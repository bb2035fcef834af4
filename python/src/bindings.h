// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/media.h"
#include "afterimage/model.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/tier.h"

/// What the bindings of all rooms share: errors, and tensors on their way in and out.
///
/// Threads  Every function wants the GIL unless it says otherwise. Work on bytes, waiting and disks
///          happen inside without_gil(), which touches no Python object.
namespace afterimage::python {

namespace nb = nanobind;

/// Throws the Python exception of this code (afterimage/errors.py).
[[noreturn]] void raise(const Error& error);
[[noreturn]] void raise(ErrorCode code, std::string message);

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

/// A tensor of the caller's, kept alive and readable while this lives; no copy.
struct BorrowedTensor {
  nb::ndarray<nb::ro> array;
  TensorView view;
};
/// One tensor (buffer protocol or DLPack), or a list or tuple of them. InvalidArgument says what
/// was expected: C-contiguous, in CPU memory, of a dtype that we know.
std::vector<BorrowedTensor> borrow_tensors(nb::handle object);
TensorViews views_of(const std::vector<BorrowedTensor>& tensors);
/// The bytes of any one of them; what has no tensor's form must be bytes-like.
BorrowedTensor borrow_tensor(nb::handle object);

/// A tensor of ours in Python's hands: read-only, alive as long as anybody looks at it.
struct LentTensor {
  std::shared_ptr<const void> owner;
  TensorView view;
};
nb::tuple lend(const std::shared_ptr<const void>& owner, std::span<const TensorView> views);

DType dtype_named(std::string_view name);
Modality modality_named(std::string_view name);
/// From a str; anything with no UTF-8 is refused by Python.
std::string text_of(nb::handle object);

/// A Namespace has no default value; Python holds it by this.
struct SpaceHolder {
  Namespace space;
};

/// A Python Tier's, kept alive by this; what is no Tier is a TypeError.
std::shared_ptr<Tier> tier_of(nb::handle object);

void bind_words(nb::module_& module);
void bind_identity(nb::module_& module);
void bind_encoder(nb::module_& module);
void bind_ledger(nb::module_& module);
void bind_tiers(nb::module_& module);
void bind_residency(nb::module_& module);
void bind_prefix(nb::module_& module);
void bind_semantic(nb::module_& module);
void bind_pressure(nb::module_& module);
void bind_replay(nb::module_& module);

}  // namespace afterimage::python
