// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// One vector of an index, until it is erased; then its number may be another's.
enum class RowId : std::uint32_t {};

struct Neighbour {
  RowId row{};
  float similarity = 0.0F;  // the cosine: 1 is the same direction
  bool operator==(const Neighbour&) const = default;
};

struct VectorIndexOptions {
  std::size_t dimensions = 0;
  /// Up to so many rows every one is compared. Beyond, they move to a graph, a few at each
  /// insertion, and the nearest are found nearly always.
  std::size_t exact_rows = 10'000;
  std::size_t graph_links = 16;     // of a row to its neighbours in the graph (M)
  std::size_t insert_effort = 200;  // candidates looked at for them (ef_construction)
  std::size_t search_effort = 96;   // candidates of a search in the graph (ef), at least k
};

/// kInvalidArgument: another number of dimensions, a value that is not finite, or a length that is
/// neither 1 nor 0.
[[nodiscard]] Result<void> check_vector(std::span<const float> vector, std::size_t dimensions);

/// Vectors of length 1, and the nearest to another one among them. What is erased is never found
/// again; its floats are gone at once from the table, and from a graph when half of it is erased.
///
/// Shape    Rows of `dimensions` floats. One index a partition: what must not be compared is not in
///          one index.
/// Errors   kInvalidArgument: as check_vector(); all zero is near to nothing and not kept.
/// Threads  Not thread-safe, but for several nearest() at a time.
/// Cost     nearest: rows × dimensions while exact; then about log(rows) comparisons of vectors.
///          insert: a copy while exact; then some hundreds of comparisons. erase: a copy of one
///          row.
/// Source   src/vectors/DESIGN.md; the graph is hnswlib's.
class VectorIndex {
 public:
  /// kInvalidArgument: no dimensions, or more than 65,536.
  static Result<VectorIndex> create(const VectorIndexOptions& options);
  VectorIndex(VectorIndex&&) noexcept;
  VectorIndex& operator=(VectorIndex&&) noexcept;
  ~VectorIndex();

  Result<RowId> insert(std::span<const float> vector);
  /// `row` is in the index.
  void erase(RowId row);
  /// The `count` nearest, or all; the nearest first, ties by row.
  [[nodiscard]] Result<std::vector<Neighbour>> nearest(std::span<const float> vector,
                                                       std::size_t count) const;

  /// Of one row that is in the index, exactly. `vector` is of the same dimensions.
  [[nodiscard]] float similarity(RowId row, std::span<const float> vector) const;

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t rows_in_graph() const;
  /// Of vectors and links, as allocated.
  [[nodiscard]] Bytes bytes() const;
  /// What one more row adds to bytes(), on average.
  [[nodiscard]] static Bytes bytes_per_row(const VectorIndexOptions& options);
  /// Aborts where the books disagree. O(rows): tests.
  void check_invariants() const;

 private:
  struct State;
  explicit VectorIndex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
