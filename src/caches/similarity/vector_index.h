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

/// A vector of an index. Reused after the vector is erased.
enum class RowId : std::uint32_t {};

struct Neighbour {
  RowId row{};
  float similarity = 0.0F;  // cosine
  bool operator==(const Neighbour&) const = default;
};

struct VectorIndexOptions {
  std::size_t dimensions = 0;
  /// Up to this many rows the search is exact. Beyond, rows move to an HNSW graph, a few at each
  /// insertion, and the search is approximate.
  std::size_t exact_rows = 10'000;
  std::size_t graph_links = 16;     // links per row in the graph (M)
  std::size_t insert_effort = 200;  // candidates per insertion (ef_construction)
  std::size_t search_effort = 96;   // candidates per search (ef), at least k
};

/// kInvalidArgument: another number of dimensions, a value that is not finite, or a length that is
/// neither 1 nor 0.
[[nodiscard]] Result<void> check_vector(std::span<const float> vector, std::size_t dimensions);

/// Nearest-neighbour index of unit vectors: exact while small, an HNSW graph beyond. An erased
/// vector is never found again; its floats are removed at once from the table, and from a graph
/// when half of the graph is erased.
///
/// Shape    Rows of `dimensions` floats. Use one index per partition: vectors that must not be
///          compared belong in different indices.
/// Errors   kInvalidArgument: as check_vector(), or a zero vector.
/// Threads  Not thread-safe, except that several nearest() may run concurrently.
/// Cost     nearest: rows × dimensions while exact; then about log(rows) comparisons of vectors.
///          insert: a copy while exact; then some hundreds of comparisons. erase: a copy of one
///          row.
/// Source   src/caches/similarity/DESIGN.md; the graph is hnswlib's.
class VectorIndex {
 public:
  /// kInvalidArgument: no dimensions, or more than 65,536.
  static Result<VectorIndex> create(const VectorIndexOptions& options);
  VectorIndex(VectorIndex&&) noexcept;
  VectorIndex& operator=(VectorIndex&&) noexcept;
  ~VectorIndex();

  Result<RowId> insert(std::span<const float> vector);
  /// Requires that `row` is in the index.
  void erase(RowId row);
  /// The `count` nearest rows, or all if there are fewer; nearest first, ties by row.
  [[nodiscard]] Result<std::vector<Neighbour>> nearest(std::span<const float> vector,
                                                       std::size_t count) const;

  /// The exact similarity of a row that is in the index. `vector` has the same dimensions.
  [[nodiscard]] float similarity(RowId row, std::span<const float> vector) const;

  /// The vector of a row that is in the index. The view is valid until the next insertion or
  /// erasure.
  [[nodiscard]] std::span<const float> vector(RowId row) const;

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t rows_in_graph() const;
  /// Allocated memory of vectors and links.
  [[nodiscard]] Bytes bytes() const;
  /// What one more row adds to bytes(), on average.
  [[nodiscard]] static Bytes bytes_per_row(const VectorIndexOptions& options);
  /// Recounts everything; aborts on any mismatch. O(rows): for tests.
  void check_invariants() const;

 private:
  struct State;
  explicit VectorIndex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
