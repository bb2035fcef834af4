// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/vector_index.h"

// hnswlib's prefetches read one link beyond the last; its distance functions are not used.
#define NO_MANUAL_VECTORIZATION
#include <hnswlib/hnswlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <string>
#include <utility>

#include "afterimage/result.h"
#include "caches/similarity/dot.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxDimensions = 65'536;
constexpr std::size_t kRowsPerMove = 4;  // per call: the graph catches up, and no call takes long
constexpr std::size_t kFirstGraphRows = 1024;
constexpr float kLengthTolerance = 1e-3F;

float distance(const void* a, const void* b, const void* dimensions) {
  return 1.0F - dot_product()(static_cast<const float*>(a), static_cast<const float*>(b),
                              *static_cast<const std::size_t*>(dimensions));
}

/// hnswlib's view of our vectors; it keeps a pointer to this. Padding to an odd number of floats
/// aligns hnswlib's label, which follows the links, their count and the vector.
class CosineSpace final : public hnswlib::SpaceInterface<float> {
 public:
  explicit CosineSpace(std::size_t dimensions) : dimensions_(dimensions) {}
  std::size_t get_data_size() override { return odd(dimensions_) * sizeof(float); }
  static std::size_t odd(std::size_t floats) { return floats | 1U; }
  hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
  void* get_dist_func_param() override { return &dimensions_; }

 private:
  std::size_t dimensions_;
};

/// An HNSW graph that only grows. Erased rows are marked and stay until the graph is dropped.
class Graph {
 public:
  Graph(CosineSpace& space, const VectorIndexOptions& options)
      : links_(&space, kFirstGraphRows, options.graph_links, options.insert_effort) {
    links_.setEf(options.search_effort);
  }

  std::uint32_t add(RowId row, std::span<const float> vector) {
    const std::size_t label = rows_.size();
    if (label == links_.max_elements_) links_.resizeIndex(2 * links_.max_elements_);
    std::vector<float> padded(vector.begin(), vector.end());
    padded.resize(CosineSpace::odd(padded.size()));
    links_.addPoint(padded.data(), label);
    rows_.push_back(row);
    ++live_;
    return static_cast<std::uint32_t>(label);
  }
  void erase(std::uint32_t label) {
    links_.markDelete(label);
    --live_;
  }
  /// A label that is not erased. Requires that there is one.
  std::uint32_t next_live() {
    while (links_.isMarkedDeleted(drained_)) ++drained_;
    return drained_;
  }
  // Labels equal hnswlib's internal ids, because both are assigned in order.
  [[nodiscard]] std::span<const float> vector(std::uint32_t label, std::size_t dimensions) const {
    return {reinterpret_cast<const float*>(links_.getDataByInternalId(label)), dimensions};
  }
  [[nodiscard]] RowId row(std::uint32_t label) const { return rows_[label]; }
  [[nodiscard]] std::size_t live() const { return live_; }
  [[nodiscard]] std::size_t erased() const { return rows_.size() - live_; }
  [[nodiscard]] std::size_t capacity() const { return links_.max_elements_; }

  template <typename Take>
  void nearest(std::span<const float> vector, std::size_t count, const Take& take) const {
    if (live_ == 0) return;
    for (auto found = links_.searchKnn(vector.data(), count); !found.empty(); found.pop()) {
      take(Neighbour{.row = rows_[found.top().second], .similarity = 1.0F - found.top().first});
    }
  }

 private:
  hnswlib::HierarchicalNSW<float> links_;
  std::vector<RowId> rows_;  // by label
  std::size_t live_ = 0;
  std::uint32_t drained_ = 0;  // all labels below it are erased
};

/// The location of a row's vector.
struct Row {
  enum class In : unsigned char { kGraph0, kGraph1, kTable, kNowhere };
  In in = In::kNowhere;
  std::uint32_t at = 0;  // the line in the table, or the label in the graph
  [[nodiscard]] bool in_graph() const { return in <= In::kGraph1; }
  [[nodiscard]] std::size_t graph() const { return static_cast<std::size_t>(in); }
};

/// The best `count` of the offered neighbours, in order.
class Best {
 public:
  explicit Best(std::size_t count) : count_(count) { found_.reserve(count + 1); }
  void offer(const Neighbour& next) {
    if (found_.size() == count_ && (count_ == 0 || !nearer(next, found_.back()))) return;
    found_.insert(std::ranges::upper_bound(found_, next, nearer), next);
    if (found_.size() > count_) found_.pop_back();
  }
  [[nodiscard]] std::vector<Neighbour> take() && { return std::move(found_); }

 private:
  static bool nearer(const Neighbour& a, const Neighbour& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.row < b.row;
  }
  std::size_t count_;
  std::vector<Neighbour> found_;
};

}  // namespace

Result<void> check_vector(std::span<const float> vector, std::size_t dimensions) {
  if (vector.size() != dimensions) {
    return fail(ErrorCode::kInvalidArgument,
                "the vector has " + std::to_string(vector.size()) + " dimensions, expected " +
                    std::to_string(dimensions) + ": check the embedder and the layer's dimensions");
  }
  const float length = std::sqrt(dot_product()(vector.data(), vector.data(), vector.size()));
  if (length == 0.0F || std::abs(length - 1.0F) <= kLengthTolerance) return {};
  return fail(ErrorCode::kInvalidArgument,  // NaN fails this check too
              "the vector has length " + std::to_string(length) + ": normalize it to 1");
}

struct VectorIndex::State {
  explicit State(const VectorIndexOptions& chosen) : options(chosen), space(chosen.dimensions) {}

  [[nodiscard]] std::span<const float> line(std::size_t at) const {
    return std::span(table).subspan(at * options.dimensions, options.dimensions);
  }
  RowId take_row();
  void remove_line(std::uint32_t at);
  void add_to_graph(RowId row, std::span<const float> vector);
  void rebalance();
  void nearest_in_table(std::span<const float> vector, Best& best) const;

  VectorIndexOptions options;
  CosineSpace space;
  std::vector<Row> rows;
  std::vector<RowId> free_rows;
  std::vector<float> table;  // line after line, in any order
  std::vector<RowId> row_of_line;
  /// `growing` receives rows; when too much of it is erased, it drains into the other. nullptr:
  /// none.
  std::array<std::unique_ptr<Graph>, 2> graphs;
  std::size_t growing = 0;
};

RowId VectorIndex::State::take_row() {
  if (free_rows.empty()) {
    rows.emplace_back();
    return static_cast<RowId>(rows.size() - 1);
  }
  const RowId row = free_rows.back();
  free_rows.pop_back();
  return row;
}

/// Moves the last line into the gap and clears the old copy.
void VectorIndex::State::remove_line(std::uint32_t at) {
  const std::size_t last = row_of_line.size() - 1;
  if (at != last) {
    std::ranges::copy(line(last),
                      table.begin() + static_cast<std::ptrdiff_t>(at * options.dimensions));
    row_of_line[at] = row_of_line[last];
    rows[static_cast<std::size_t>(row_of_line[at])].at = at;
  }
  std::fill(table.end() - static_cast<std::ptrdiff_t>(options.dimensions), table.end(), 0.0F);
  table.resize(table.size() - options.dimensions);
  row_of_line.pop_back();
}

void VectorIndex::State::add_to_graph(RowId row, std::span<const float> vector) {
  std::unique_ptr<Graph>& graph = graphs[growing];
  if (graph == nullptr) graph = std::make_unique<Graph>(space, options);
  rows[static_cast<std::size_t>(row)] = {.in = static_cast<Row::In>(growing),
                                         .at = graph->add(row, vector)};
}

/// Moves a few rows per call to where they belong, so that no call pays for a whole rebuild.
void VectorIndex::State::rebalance() {
  const std::size_t other = 1 - growing;
  if (graphs[growing] != nullptr && graphs[other] == nullptr &&
      graphs[growing]->erased() > graphs[growing]->live()) {
    growing = other;
  }
  std::unique_ptr<Graph>& draining = graphs[1 - growing];
  std::size_t moves = kRowsPerMove;
  for (; moves > 0 && draining != nullptr && draining->live() > 0; --moves) {
    const std::uint32_t label = draining->next_live();
    add_to_graph(draining->row(label), draining->vector(label, options.dimensions));
    draining->erase(label);
  }
  if (draining != nullptr && draining->live() == 0) draining.reset();
  if (graphs[growing] == nullptr && row_of_line.size() <= options.exact_rows) return;
  for (; moves > 0 && !row_of_line.empty(); --moves) {
    const auto last = static_cast<std::uint32_t>(row_of_line.size() - 1);
    add_to_graph(row_of_line[last], line(last));
    remove_line(last);
  }
}

void VectorIndex::State::nearest_in_table(std::span<const float> vector, Best& best) const {
  const DotProduct dot = dot_product();
  for (std::size_t at = 0; at < row_of_line.size(); ++at) {
    best.offer(
        {.row = row_of_line[at], .similarity = dot(line(at).data(), vector.data(), vector.size())});
  }
}

VectorIndex::VectorIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
VectorIndex::VectorIndex(VectorIndex&&) noexcept = default;
VectorIndex& VectorIndex::operator=(VectorIndex&&) noexcept = default;
VectorIndex::~VectorIndex() = default;

Result<VectorIndex> VectorIndex::create(const VectorIndexOptions& options) {
  if (options.dimensions == 0 || options.dimensions > kMaxDimensions) {
    return fail(ErrorCode::kInvalidArgument,
                "an index has 1 to 65536 dimensions, not " + std::to_string(options.dimensions));
  }
  return VectorIndex(std::make_unique<State>(options));
}

Result<RowId> VectorIndex::insert(std::span<const float> vector) {
  State& state = *state_;
  AFI_TRY_VOID(check_vector(vector, state.options.dimensions));
  if (std::ranges::all_of(vector, [](float x) { return x == 0.0F; })) {
    return fail(ErrorCode::kInvalidArgument, "a zero vector cannot be indexed");
  }
  const RowId row = state.take_row();
  state.rows[static_cast<std::size_t>(row)] = {
      .in = Row::In::kTable, .at = static_cast<std::uint32_t>(state.row_of_line.size())};
  state.table.insert(state.table.end(), vector.begin(), vector.end());
  state.row_of_line.push_back(row);
  state.rebalance();
  return row;
}

void VectorIndex::erase(RowId row) {
  State& state = *state_;
  Row& place = state.rows.at(static_cast<std::size_t>(row));
  AFI_CHECK(place.in != Row::In::kNowhere);
  if (place.in_graph()) {
    state.graphs[place.graph()]->erase(place.at);
  } else {
    state.remove_line(place.at);
  }
  place = {};
  state.free_rows.push_back(row);
  state.rebalance();
}

Result<std::vector<Neighbour>> VectorIndex::nearest(std::span<const float> vector,
                                                    std::size_t count) const {
  const State& state = *state_;
  AFI_TRY_VOID(check_vector(vector, state.options.dimensions));
  Best best(count);
  state.nearest_in_table(vector, best);
  const auto offer = [&best](const Neighbour& found) { best.offer(found); };
  for (const auto& graph : state.graphs) {
    if (graph != nullptr) graph->nearest(vector, count, offer);
  }
  return std::move(best).take();
}

float VectorIndex::similarity(RowId row, std::span<const float> vector) const {
  const State& state = *state_;
  AFI_CHECK(vector.size() == state.options.dimensions);
  return dot_product()(this->vector(row).data(), vector.data(), vector.size());
}

std::span<const float> VectorIndex::vector(RowId row) const {
  const State& state = *state_;
  const Row& place = state.rows.at(static_cast<std::size_t>(row));
  AFI_CHECK(place.in != Row::In::kNowhere);
  return place.in_graph() ? state.graphs[place.graph()]->vector(place.at, state.options.dimensions)
                          : state.line(place.at);
}

std::size_t VectorIndex::size() const { return state_->row_of_line.size() + rows_in_graph(); }

std::size_t VectorIndex::rows_in_graph() const {
  std::size_t rows = 0;
  for (const auto& graph : state_->graphs) {
    if (graph != nullptr) rows += graph->live();
  }
  return rows;
}

Bytes VectorIndex::bytes() const {
  const State& state = *state_;
  std::size_t graph_rows = 0;
  for (const auto& graph : state.graphs) {
    if (graph != nullptr) graph_rows += graph->capacity();
  }
  return Bytes(state.table.capacity() * sizeof(float) +
               graph_rows * bytes_per_row(state.options).value());
}

Bytes VectorIndex::bytes_per_row(const VectorIndexOptions& options) {
  constexpr std::size_t kUpperLevels = 2;  // links: one row in M has more than the lowest level
  return Bytes(options.dimensions * sizeof(float) +
               (2 * options.graph_links + kUpperLevels) * sizeof(std::uint32_t) +
               sizeof(hnswlib::labeltype) + sizeof(std::mutex));
}

void VectorIndex::check_invariants() const {
  const State& state = *state_;
  std::size_t in_table = 0;
  std::size_t in_graph = 0;
  for (std::uint32_t i = 0; i < state.rows.size(); ++i) {
    const Row& row = state.rows[i];
    if (row.in == Row::In::kNowhere) continue;
    ++(row.in_graph() ? in_graph : in_table);
    AFI_CHECK(RowId{i} == (row.in_graph() ? state.graphs[row.graph()]->row(row.at)
                                          : state.row_of_line[row.at]));
  }
  AFI_CHECK(in_table == state.row_of_line.size());
  AFI_CHECK(in_graph == rows_in_graph());
  AFI_CHECK(state.table.size() == in_table * state.options.dimensions);
  AFI_CHECK(state.rows.size() == in_table + in_graph + state.free_rows.size());
}

}  // namespace afterimage
