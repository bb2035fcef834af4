// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "afterimage/engine.h"
#include "conformance/kv_shelf.h"

/// Slices that every engine must refuse.
namespace afterimage::testing {

/// A way to damage a slice. `pieces` are those of one group, which has rows or a state.
struct Damage {
  const char* name;
  std::function<void(KvSlice&, std::vector<KvRows>& pieces)> apply;
};

inline std::vector<Damage> damages() {
  using Pieces = std::vector<KvRows>;
  const TokenCount one(1);
  return {
      {"a row too few",
       [=](KvSlice&, Pieces& pieces) {
         KvRows& last = pieces.back();
         last.bytes =
             last.bytes.first(last.bytes.size() / last.count.value() * (last.count - one).value());
         last.count -= one;
       }},
      {"a row too many",
       [=](KvSlice&, Pieces& pieces) {
         const KvRows& last = pieces.back();
         pieces.push_back({.first = last.first + last.count,
                           .count = one,
                           .bytes = last.bytes.first(last.bytes.size() / last.count.value())});
       }},
      {"no rows", [](KvSlice&, Pieces& pieces) { pieces.clear(); }},
      {"rows of other positions", [=](KvSlice&, Pieces& pieces) { pieces.front().first += one; }},
      {"pieces with a gap",
       [=](KvSlice&, Pieces& pieces) {
         KvRows next = pieces.back();
         next.first += next.count + one;
         pieces.push_back(next);
       }},
      {"one piece twice", [](KvSlice&, Pieces& pieces) { pieces.push_back(pieces.back()); }},
      {"a byte too few",
       [](KvSlice&, Pieces& pieces) {
         std::span<const std::byte>& bytes = pieces.back().bytes;
         bytes = bytes.first(bytes.size() - 1);
       }},
      {"no bytes", [](KvSlice&, Pieces& pieces) { pieces.back().bytes = {}; }},
      {"half of the groups",
       [](KvSlice& slice, Pieces&) {
         slice.rows.pop_back();
         for (KvSnapshot& snapshot : slice.snapshots) snapshot.groups.pop_back();
       }},
      {"a group too many", [](KvSlice& slice, Pieces&) { slice.rows.emplace_back(); }},
      {"covers nothing", [](KvSlice& slice, Pieces&) { slice.end = TokenCount(0); }},
      {"covers everything that may be", [](KvSlice& slice, Pieces&) { slice.end = kEndOfRun; }},
      {"begins later", [=](KvSlice& slice, Pieces&) { slice.begin = one; }},
      {"origin off by a bit",
       [](KvSlice& slice, Pieces&) { slice.origin.bytes[31] ^= std::byte(1); }},
  };
}

}  // namespace afterimage::testing
