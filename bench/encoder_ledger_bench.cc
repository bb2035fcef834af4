// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What does the ledger cost a scheduler for a request with one image?
// The same life cycles in plain Python: bench/peers/ledger.py.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "afterimage/result.h"
#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {
namespace {

constexpr InputIndex kInput = InputIndex(0);
constexpr EmbeddingCount kSize = EmbeddingCount(256);

/// Names as long as an engine's: a SHA-256 in hexadecimal and a request id.
std::vector<ItemId> items(std::size_t count) {
  std::vector<ItemId> result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    result.emplace_back(std::string(64 - number.size(), 'a') + number);
  }
  return result;
}

std::vector<RequestId> requests(std::size_t count) {
  std::vector<RequestId> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.emplace_back("chatcmpl-0123456789abcdef-" + std::to_string(i));
  }
  return result;
}

/// A miss: space is made by evicting the oldest item, the item is charged and released. Items
/// repeat only after their eviction; the ledger is full throughout.
void BM_LedgerMissLifecycle(benchmark::State& state) {
  const auto resident = static_cast<std::size_t>(state.range(0));
  const auto names = items(2 * resident);
  const auto ids = requests(names.size());
  EncoderLedger ledger(EmbeddingCount(kSize.value() * resident));
  std::size_t next = 0;
  for (auto _ : state) {
    const ItemId& item = names[next];
    const RequestId& request = ids[next];
    next = next + 1 == names.size() ? 0 : next + 1;
    AFI_CHECK(!ledger.take(request, kInput, item));
    AFI_CHECK(ledger.make_room({.size = kSize}));
    AFI_CHECK(ledger.allocate(request, kInput, item, kSize).has_value());
    ledger.release_all(request);
    if (ledger.freed().size() == 32) benchmark::DoNotOptimize(ledger.drain_freed());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_LedgerMissLifecycle)->Arg(32)->Arg(1000);

/// A hit: the item is found, referenced and released.
void BM_LedgerHitLifecycle(benchmark::State& state) {
  const auto resident = static_cast<std::size_t>(state.range(0));
  const auto names = items(resident);
  const auto ids = requests(resident);
  EncoderLedger ledger(EmbeddingCount(kSize.value() * resident));
  for (std::size_t i = 0; i < resident; ++i) {
    AFI_CHECK(ledger.allocate(ids[i], kInput, names[i], kSize).has_value());
    ledger.release_all(ids[i]);
  }
  std::size_t next = 0;
  for (auto _ : state) {
    AFI_CHECK(ledger.take(ids[next], kInput, names[next]));
    ledger.release_all(ids[next]);
    next = next + 1 == resident ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_LedgerHitLifecycle)->Arg(32)->Arg(1000);

}  // namespace
}  // namespace afterimage
