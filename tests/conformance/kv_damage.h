// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "afterimage/engine.h"
#include "conformance/kv_shelf.h"

/// States that every engine must refuse.
namespace afterimage::testing {

/// A way to damage a state. `group` is one that has rows or a state.
struct Damage {
  const char* name;
  std::function<void(KvState&, std::size_t group)> apply;
};

inline TensorView reshaped(const TensorView& view, DType dtype, const Shape& shape) {
  return TensorView::over(dtype, shape, view.bytes()).value();
}

inline std::vector<Damage> damages() {
  return {
      {"a row too few",
       [](KvState& s, std::size_t g) {
         TensorView& slice = s.groups[g].back();
         slice = rows_of(slice, 0, slice.shape()[0] - 1);
       }},
      {"a row too many",
       [](KvState& s, std::size_t g) {
         s.groups[g].push_back(rows_of(s.groups[g].front(), 0, 1));
       }},
      {"no rows", [](KvState& s, std::size_t g) { s.groups[g].clear(); }},
      {"another dtype",
       [](KvState& s, std::size_t g) {
         TensorView& slice = s.groups[g].back();
         slice = reshaped(slice, DType::kI8, slice.shape());
       }},
      {"as a list of bytes",
       [](KvState& s, std::size_t g) {
         TensorView& slice = s.groups[g].back();
         slice = reshaped(slice, DType::kU8, {slice.bytes().size()});
       }},
      {"rows of another size",
       [](KvState& s, std::size_t g) {
         TensorView& slice = s.groups[g].back();
         slice = reshaped(slice, DType::kU8, {slice.bytes().size(), 1});
       }},
      {"half of the groups", [](KvState& s, std::size_t) { s.groups.pop_back(); }},
      {"a group too many", [](KvState& s, std::size_t) { s.groups.emplace_back(); }},
      {"covers nothing", [](KvState& s, std::size_t) { s.covered = TokenCount(0); }},
      {"covers everything that may be", [](KvState& s, std::size_t) { s.covered = kEndOfRun; }},
      {"origin off by a bit", [](KvState& s, std::size_t) { s.origin.bytes[31] ^= std::byte(1); }},
  };
}

}  // namespace afterimage::testing
