// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/eviction/lru.h"

namespace afterimage::testing {

/// An LRU policy that records its calls. Slots are named in order of insertion.
class RecordingPolicy final : public EvictionPolicy {
 public:
  struct Log {
    std::vector<std::string> heard;
    std::vector<RequestFacts> requests;
    std::map<std::string, EntryFacts> facts;
    std::map<std::string, std::vector<std::uint64_t>> contains;

    std::vector<std::string> take() { return std::exchange(heard, {}); }
  };
  explicit RecordingPolicy(std::shared_ptr<Log> log) : log_(std::move(log)) {}

  [[nodiscard]] std::string_view name() const override { return "recording"; }
  void begin_request(const RequestFacts& facts) override {
    log_->heard.emplace_back("request");
    log_->requests.push_back(facts);
  }
  void insert(SlotId slot, const EntryFacts& facts) override {
    lru_.insert(slot, facts);
    note("insert", slot, facts);
  }
  void touch(SlotId slot) override {
    lru_.touch(slot);
    log_->heard.push_back("touch " + names_.at(slot));
  }
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override {
    lru_.insert(upper, of_upper);
    log_->facts[names_.at(lower)] = of_lower;
    note("split " + names_.at(lower), upper, of_upper);
  }
  void erase(SlotId slot, RemovalReason why) override {
    lru_.erase(slot, why);
    log_->heard.push_back((why == RemovalReason::kEvicted ? "evict " : "erase ") + names_.at(slot));
  }
  void park(SlotId slot) override { lru_.park(slot); }
  void unpark(SlotId slot) override { lru_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override { return lru_.victim(); }

 private:
  void note(const std::string& what, SlotId slot, const EntryFacts& facts) {
    const std::string name(1, static_cast<char>('a' + names_.size()));
    names_[slot] = name;
    log_->heard.push_back(what + " " + name);
    log_->facts[name] = facts;
    log_->facts[name].contains = {};
    log_->contains[name].assign(facts.contains.begin(), facts.contains.end());
  }

  std::shared_ptr<Log> log_;
  Lru lru_;
  std::map<SlotId, std::string> names_;
};

}  // namespace afterimage::testing
