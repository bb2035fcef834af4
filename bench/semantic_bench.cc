// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// What does it cost to find an answer by its text, and by similarity, as the cache grows?
#include <benchmark/benchmark.h>
#include <hnswlib/hnswlib.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "caches/similarity/dot.h"
#include "caches/similarity/similarity.h"
#include "caches/similarity/vector_index.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

constexpr std::size_t kDimensions = 384;  // as small sentence encoders have
constexpr std::size_t kAsked = 4096;      // different questions, so that no branch is predicted
constexpr std::size_t kMillion = 1'000'000;

/// Graphs of a million vectors take about twenty minutes each to build, so they are asked for.
bool wants_million() { return std::getenv("AFTERIMAGE_BENCH_MILLION") != nullptr; }
/// Adds these sizes, and a million if it is asked for.
template <std::int64_t... kSizes>
void sizes(benchmark::internal::Benchmark* bench) {
  (bench->Arg(kSizes), ...);
  if (wants_million()) bench->Arg(kMillion);
}

/// Names without numbers, since numbers would veto every neighbour.
std::string words(std::uint64_t n) {
  std::string name;
  for (; name.size() < 7; n /= 26) name.push_back(static_cast<char>('a' + n % 26));
  return "What is the color of the " + name + " in the second row of the shelf?";
}

ScopeId some_scope() {
  ScopeId id;
  id.key.bytes[9] = std::byte{7};
  return id;
}

Answer some_answer() { return {.text = "It is red.", .finish_reason = "stop", .model = "m"}; }

struct Answers {
  explicit Answers(std::size_t entries) {
    for (std::size_t i = 0; i < entries; ++i) {
      Question question(some_scope(), words(i));
      AFI_CHECK(cache->insert(question, some_answer(), {.cost = Duration(1)}).has_value());
    }
  }
  MemoryBudget budget{16_GiB};
  SystemClock clock;
  std::unique_ptr<AnswerCache> cache = AnswerCache::create({}, budget, clock).value();
};

/// One per size, because a million answers are not generated twice.
Answers& answers(std::size_t entries) {
  static std::map<std::size_t, std::unique_ptr<Answers>> all;
  std::unique_ptr<Answers>& one = all[entries];
  if (one == nullptr) one = std::make_unique<Answers>(entries);
  return *one;
}

void BM_AnswerExactHit(benchmark::State& state) {
  const auto entries = static_cast<std::size_t>(state.range(0));
  Answers& kept = answers(entries);
  Rng rng(2);
  std::vector<std::string> asked(kAsked);
  for (std::string& text : asked) text = words(rng.below(entries));
  std::size_t next = 0;
  for (auto _ : state) {
    Question question(some_scope(), asked[next++ % kAsked]);
    benchmark::DoNotOptimize(kept.cache->find(question, {.serve = MatchLevel::kExact}));
  }
}
BENCHMARK(BM_AnswerExactHit)->Arg(1000)->Arg(100'000)->Arg(1'000'000);

void BM_AnswerExactMiss(benchmark::State& state) {
  Answers& kept = answers(static_cast<std::size_t>(state.range(0)));
  std::uint64_t next = 1U << 30U;
  for (auto _ : state) {
    Question question(some_scope(), words(next++));
    benchmark::DoNotOptimize(kept.cache->find(question, {.serve = MatchLevel::kExact}));
  }
}
BENCHMARK(BM_AnswerExactMiss)->Arg(1000)->Arg(1'000'000);

/// All three match levels, with the folding that they need.
void BM_AnswerLadderMiss(benchmark::State& state) {
  Answers& kept = answers(static_cast<std::size_t>(state.range(0)));
  std::uint64_t next = 1U << 30U;
  for (auto _ : state) {
    Question question(some_scope(), words(next++));
    benchmark::DoNotOptimize(kept.cache->find(question));
  }
}
BENCHMARK(BM_AnswerLadderMiss)->Arg(1000)->Arg(1'000'000);

/// Hits while another thread lists all entries repeatedly: how long does a listing hold the lock?
void BM_AnswerHitWhileListed(benchmark::State& state) {
  const auto entries = static_cast<std::size_t>(state.range(0));
  Answers& kept = answers(entries);
  const std::jthread lister([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      benchmark::DoNotOptimize(kept.cache->count({.tag = "none", .words = "nobody says so"}));
    }
  });
  Rng rng(2);
  std::vector<Duration> took;
  for (auto _ : state) {
    Question question(some_scope(), words(rng.below(entries)));
    const Duration began = kept.clock.now();
    benchmark::DoNotOptimize(kept.cache->find(question, {.serve = MatchLevel::kExact}));
    took.push_back(kept.clock.now() - began);
  }
  std::ranges::sort(took);
  const auto at = [&](double share) {
    return to_milliseconds(took[static_cast<std::size_t>(share * double(took.size() - 1))]) * 1e3;
  };
  state.counters["p50_us"] = at(0.5);
  state.counters["p99_us"] = at(0.99);
  state.counters["max_us"] = at(1);
}
BENCHMARK(BM_AnswerHitWhileListed)->Arg(1'000'000)->UseRealTime();

/// Inserts an answer into a cache that is full by its number of entries.
void BM_AnswerInsert(benchmark::State& state) {
  Answers& kept = answers(static_cast<std::size_t>(state.range(0)));
  std::uint64_t next = 1U << 30U;
  for (auto _ : state) {
    Question question(some_scope(), words(next++));
    AFI_CHECK(kept.cache->insert(question, some_answer(), {.cost = Duration(1)}).has_value());
  }
}
BENCHMARK(BM_AnswerInsert)->Arg(1'000'000);

/// The limit: the exact text in a map, and a copy of the answer.
void BM_BareMapHit(benchmark::State& state) {
  const auto entries = static_cast<std::size_t>(state.range(0));
  boost::unordered_flat_map<std::string, Answer> map;
  for (std::size_t i = 0; i < entries; ++i) map.emplace(words(i), some_answer());
  Rng rng(2);
  std::vector<std::string> asked(kAsked);
  for (std::string& text : asked) text = words(rng.below(entries));
  std::size_t next = 0;
  for (auto _ : state) {
    Answer found = map.find(asked[next++ % kAsked])->second;
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(BM_BareMapHit)->Arg(1000)->Arg(100'000)->Arg(1'000'000);

/// Clustered, as sentences are.
Vector vector_at(std::uint64_t n) {
  Rng centre(n % 997);
  Rng own(n);
  Vector vector(kDimensions);
  for (float& x : vector) {
    x = static_cast<float>(centre.normal()) + 0.4F * static_cast<float>(own.normal());
  }
  normalize(vector);
  return vector;
}

const std::vector<Vector>& queries() {
  static const std::vector<Vector> all = [] {
    std::vector<Vector> made;
    for (std::uint64_t i = 0; i < kAsked; ++i) made.push_back(vector_at((1U << 30U) + i));
    return made;
  }();
  return all;
}

const std::vector<Vector>& kept_vectors() {
  static const std::vector<Vector> all = [] {
    std::vector<Vector> made;
    for (std::uint64_t i = 0; i < (wants_million() ? kMillion : 100'000); ++i) {
      made.push_back(vector_at(i));
    }
    return made;
  }();
  return all;
}

/// 20,000 rows use a graph, a thousand do not.
VectorIndex& index_of(std::size_t rows) {
  static std::map<std::size_t, VectorIndex> all;
  if (const auto found = all.find(rows); found != all.end()) return found->second;
  VectorIndex index = VectorIndex::create({.dimensions = kDimensions}).value();
  for (std::size_t i = 0; i < rows; ++i) (void)index.insert(kept_vectors()[i]).value();
  return all.emplace(rows, std::move(index)).first->second;
}

void BM_NearestVectors(benchmark::State& state) {
  const VectorIndex& index = index_of(static_cast<std::size_t>(state.range(0)));
  std::size_t next = queries().size();  // generated before the clock runs
  for (auto _ : state) {
    benchmark::DoNotOptimize(index.nearest(queries()[next++ % kAsked], 8));
  }
}
BENCHMARK(BM_NearestVectors)->Apply(sizes<1000, 20'000>)->Unit(benchmark::kMicrosecond);

/// Without a graph at any size.
void BM_NearestVectorsExact(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  VectorIndex index =
      VectorIndex::create({.dimensions = kDimensions, .exact_rows = kMillion}).value();
  for (std::size_t i = 0; i < rows; ++i) (void)index.insert(kept_vectors()[i]).value();
  std::size_t next = queries().size();
  for (auto _ : state) {
    benchmark::DoNotOptimize(index.nearest(queries()[next++ % kAsked], 8));
  }
}
BENCHMARK(BM_NearestVectorsExact)->Apply(sizes<1000, 50'000>)->Unit(benchmark::kMicrosecond);

/// The whole similarity step: neighbours, vetoes, evidence, and the answer from the cache. Nothing
/// is served, so that every neighbour takes the full path.
void BM_SimilarityFind(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  static MemoryBudget budget{16_GiB};
  static SystemClock clock;
  static auto cache = AnswerCache::create({}, budget, clock).value();
  static std::map<std::size_t, std::unique_ptr<SimilarityLevel>> levels;
  std::unique_ptr<SimilarityLevel>& level = levels[rows];
  if (level == nullptr) {
    SimilarityOptions options;
    options.layers = {{.name = "text", .dimensions = kDimensions, .threshold = 0.5F}};
    options.mode = SimilarityMode::kLearned;
    level = SimilarityLevel::create(std::move(options), *cache, budget, clock).value();
    for (std::size_t i = 0; i < rows; ++i) {
      Question question(some_scope(), words(i));
      AFI_CHECK(level->insert(question, std::span(&kept_vectors()[i], 1)).has_value());
    }
  }
  std::size_t next = queries().size();
  for (auto _ : state) {
    const std::size_t i = next++ % kAsked;
    const Question question(some_scope(), words(i));
    benchmark::DoNotOptimize(level->find(question, std::span(&queries()[i], 1)));
  }
}
BENCHMARK(BM_SimilarityFind)->Apply(sizes<1000, 50'000, 100'000>)->Unit(benchmark::kMicrosecond);

/// As the distribution builds it.
hnswlib::HierarchicalNSW<float>& bare_graph(std::size_t rows) {
  static hnswlib::InnerProductSpace space(kDimensions);
  static std::map<std::size_t, std::unique_ptr<hnswlib::HierarchicalNSW<float>>> all;
  auto& graph = all[rows];
  if (graph != nullptr) return *graph;
  graph = std::make_unique<hnswlib::HierarchicalNSW<float>>(&space, rows + 1, 16, 200);
  graph->setEf(96);
  for (std::size_t i = 0; i < rows; ++i) graph->addPoint(kept_vectors()[i].data(), i);
  return *graph;
}

void BM_BareHnswlib(benchmark::State& state) {
  const auto& graph = bare_graph(static_cast<std::size_t>(state.range(0)));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(graph.searchKnn(queries()[next++ % kAsked].data(), 8));
  }
}
BENCHMARK(BM_BareHnswlib)->Apply(sizes<20'000, 50'000, 100'000>)->Unit(benchmark::kMicrosecond);

void BM_BareScan(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  std::vector<float> table;
  for (std::size_t i = 0; i < rows; ++i) {
    table.insert(table.end(), kept_vectors()[i].begin(), kept_vectors()[i].end());
  }
  const DotProduct dot = dot_product();
  std::size_t next = 0;
  for (auto _ : state) {
    const Vector& query = queries()[next++ % kAsked];
    float best = -1.0F;
    for (std::size_t i = 0; i < rows; ++i) {
      best = std::max(best, dot(table.data() + i * kDimensions, query.data(), kDimensions));
    }
    benchmark::DoNotOptimize(best);
  }
}
BENCHMARK(BM_BareScan)->Apply(sizes<1000, 50'000>)->Unit(benchmark::kMicrosecond);

/// Replaces a vector at a steady size.
void BM_VectorReplace(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  VectorIndex& index = index_of(size);
  static std::map<std::size_t, std::vector<RowId>> all;
  std::vector<RowId>& rows = all[size];
  while (rows.size() < size) rows.push_back(static_cast<RowId>(rows.size()));
  static std::size_t next = 0;
  for (auto _ : state) {
    RowId& row = rows[next * 7919 % rows.size()];
    index.erase(row);
    row = index.insert(queries()[next++ % kAsked]).value();
  }
}
BENCHMARK(BM_VectorReplace)->Arg(1000)->Arg(20'000)->Unit(benchmark::kMicrosecond);

void BM_BareHnswlibReplace(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  auto& graph = bare_graph(rows);
  static std::size_t next = 0;
  for (auto _ : state) {
    const std::size_t label = next * 7919 % rows;
    graph.markDelete(label);
    graph.addPoint(queries()[next++ % kAsked].data(), label);
  }
}
BENCHMARK(BM_BareHnswlibReplace)->Arg(20'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace afterimage
