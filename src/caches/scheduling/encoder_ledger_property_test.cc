// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caches/scheduling/encoder_ledger.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using Amount = std::uint64_t;

/// The obvious model: it stores the references and recomputes everything else at each call.
struct ModelLedger {
  explicit ModelLedger(Amount all) : capacity(all) {}

  Amount capacity;
  std::map<std::pair<std::string, unsigned>, std::string> records;  // (request, input) -> item
  std::map<std::string, Amount> resident;
  std::vector<std::string> waiting;  // resident and unreferenced, oldest first
  std::vector<std::string> freed;

  std::set<std::string> requests_of(const std::string& item) const {
    std::set<std::string> requests;
    for (const auto& [place, held] : records) {
      if (held == item) requests.insert(place.first);
    }
    return requests;
  }
  Amount free() const {
    Amount used = 0;
    for (const auto& [item, size] : resident) used += size;
    return capacity - used;
  }
  Amount freeable() const {
    Amount sum = free();
    for (const auto& item : waiting) sum += resident.at(item);
    return sum;
  }
  void forget(const std::string& request, unsigned input) {
    const auto record = records.find({request, input});
    const std::string item = record->second;
    records.erase(record);
    if (requests_of(item).empty()) waiting.push_back(item);
  }
  bool take(const std::string& request, unsigned input, const std::string& item) {
    if (!resident.contains(item)) return false;
    if (records.contains({request, input})) {
      if (records.at({request, input}) == item) return true;
      forget(request, input);
    }
    records[{request, input}] = item;
    std::erase(waiting, item);
    return true;
  }
  bool make_room(Amount size, Amount compute, Amount scheduled) {
    if (size > compute || size + scheduled > freeable()) return false;
    while (free() < size + scheduled) {
      freed.push_back(waiting.front());
      resident.erase(waiting.front());
      waiting.erase(waiting.begin());
    }
    return true;
  }
  bool allocate(const std::string& request, unsigned input, const std::string& item, Amount size) {
    if (resident.contains(item)) return take(request, input, item);
    if (size > free()) return false;
    resident[item] = size;
    return take(request, input, item);
  }
  bool release(const std::string& request, unsigned input) {
    if (!records.contains({request, input})) return false;
    forget(request, input);
    return true;
  }
  std::size_t release_all(const std::string& request) {
    std::size_t released = 0;
    for (unsigned input = 0; input < 100; ++input) released += release(request, input) ? 1U : 0U;
    return released;
  }
  std::vector<std::string> drain() {
    std::vector<std::string> result;
    for (const auto& item : freed) {
      if (!resident.contains(item)) result.push_back(item);
    }
    freed.clear();
    return result;
  }
};

/// The whole observable state, so that two states can be compared.
struct Seen {
  Amount free = 0;
  Amount freeable = 0;
  std::map<std::string, std::set<std::string>> references;
  std::vector<std::pair<std::string, Amount>> waiting;
  std::vector<std::string> freed;
  std::map<std::string, std::vector<unsigned>> inputs;
  bool operator==(const Seen&) const = default;
};

std::vector<std::string> texts(const std::vector<ItemId>& items) {
  std::vector<std::string> result;
  for (const ItemId& item : items) result.push_back(item.text());
  return result;
}

const std::vector<std::string> kRequests = {"r0", "r1", "r2", "r3"};
constexpr unsigned kInputs = 4;

Seen see(const EncoderLedger& ledger) {
  Seen seen;
  seen.free = ledger.free_embeddings().value();
  seen.freeable = ledger.freeable_embeddings().value();
  seen.freed = texts(ledger.freed());
  for (const auto& [item, requests] : ledger.references()) {
    auto& names = seen.references[item.text()];
    for (const RequestId& request : requests) names.insert(request.text());
  }
  for (const auto& [item, size] : ledger.freeable()) {
    seen.waiting.emplace_back(item.text(), size.value());
  }
  for (const auto& request : kRequests) {
    for (const InputIndex input : ledger.inputs_of(RequestId(request))) {
      seen.inputs[request].push_back(std::to_underlying(input));
    }
  }
  return seen;
}

Seen see(const ModelLedger& model) {
  Seen seen;
  seen.free = model.free();
  seen.freeable = model.freeable();
  seen.freed = model.freed;
  for (const auto& [item, size] : model.resident) {
    seen.references[item] = model.requests_of(item);
  }
  for (const auto& item : model.waiting) seen.waiting.emplace_back(item, model.resident.at(item));
  for (const auto& [place, item] : model.records) seen.inputs[place.first].push_back(place.second);
  return seen;
}

/// A small crowded scenario: four requests of four inputs over seven items, some of them repeated.
struct World {
  explicit World(Rng& rng) : capacity(4 + rng.below(16)), sizes(7), items(16) {
    for (Amount& size : sizes) size = rng.below(7);
    for (std::size_t& item : items) item = rng.below(sizes.size());
  }
  Amount capacity;
  std::vector<Amount> sizes;
  std::vector<std::size_t> items;  // by request, then input
};

/// The guarantees of make_room, besides agreeing with the model.
void expect_promises(const Seen& before, const Seen& after, bool made) {
  if (!made) {
    EXPECT_EQ(before, after) << "a refusal left traces";
    return;
  }
  EXPECT_EQ(before.freeable, after.freeable) << "eviction was counted already";
  for (const auto& [item, requests] : before.references) {
    if (!requests.empty()) {
      EXPECT_TRUE(after.references.contains(item)) << item << " was evicted while referenced";
    }
  }
}

void one_step(Rng& rng, const World& world, EncoderLedger& ledger, ModelLedger& model) {
  const std::size_t which = rng.below(kRequests.size());
  const auto place = static_cast<unsigned>(rng.below(kInputs));
  // Sometimes an input returns with another item.
  const std::size_t chosen =
      rng.chance(0.03) ? rng.below(world.sizes.size()) : world.items[which * kInputs + place];
  const Amount size = world.sizes[chosen];
  const std::string& request_name = kRequests[which];
  const std::string item_name = "item" + std::to_string(chosen);
  const RequestId request(request_name);
  const ItemId item(item_name);
  const auto input = InputIndex(place);

  const auto make_room = [&](Amount compute, Amount scheduled) {
    const EncoderDemand demand{EmbeddingCount(size), EmbeddingCount(compute),
                               EmbeddingCount(scheduled)};
    const Seen before = see(ledger);
    const bool fits = ledger.fits(demand);
    EXPECT_EQ(see(ledger), before) << "a const call changed the ledger";
    const bool made = ledger.make_room(demand);
    EXPECT_EQ(made, fits);
    EXPECT_EQ(made, model.make_room(size, compute, scheduled));
    expect_promises(before, see(ledger), made);
    return made;
  };
  const auto allocate = [&] {
    const Seen before = see(ledger);
    const bool allocated = ledger.allocate(request, input, item, EmbeddingCount(size)).has_value();
    EXPECT_EQ(allocated, model.allocate(request_name, place, item_name, size));
    if (!allocated) {
      EXPECT_EQ(see(ledger), before) << "an error left traces";
    }
    return allocated;
  };

  const Amount dice = rng.below(100);
  if (dice < 40) {  // a correct scheduler
    const bool hit = ledger.take(request, input, item);
    ASSERT_EQ(hit, model.take(request_name, place, item_name));
    if (!hit && make_room(100, 0)) {
      EXPECT_TRUE(allocate()) << "make_room succeeded";
    }
  } else if (dice < 50) {  // an incorrect scheduler
    allocate();
  } else if (dice < 60) {
    make_room(rng.below(8), rng.below(8));
  } else if (dice < 80) {
    const bool released = ledger.release(request, input);
    ASSERT_EQ(released, model.release(request_name, place));
    const Seen before = see(ledger);
    ASSERT_FALSE(ledger.release(request, input));
    ASSERT_EQ(see(ledger), before) << "a second release did something";
  } else if (dice < 90) {
    ASSERT_EQ(ledger.release_all(request), model.release_all(request_name));
  } else if (dice < 99) {
    const auto freed = texts(ledger.drain_freed());
    ASSERT_EQ(freed, model.drain());
    for (const auto& name : freed) ASSERT_FALSE(see(ledger).references.contains(name));
  } else {
    ledger.reset();
    model = ModelLedger(world.capacity);
  }
}

TEST(EncoderLedgerProperty, AgreesWithAnObviousModel) {
  testing::for_each_seed(200, [](Rng& rng) {
    const World world(rng);
    EncoderLedger ledger{EmbeddingCount(world.capacity)};
    ModelLedger model(world.capacity);
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      one_step(rng, world, ledger, model);
      ASSERT_EQ(see(ledger), see(model));
      ledger.check_invariants();
      if (::testing::Test::HasFailure()) return;
    }
    for (const auto& request : kRequests) ledger.release_all(RequestId(request));
    EXPECT_EQ(ledger.freeable_embeddings(), ledger.capacity()) << "embeddings leaked";
  });
}

}  // namespace
}  // namespace afterimage
