// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "afterimage/encode_once.h"
#include "afterimage/plan.h"
#include "caches/encoder/encoder_archive.h"
#include "runtime/reuse/running_requests.h"
#include "storage/memory/lease_loop.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

struct MediaPlan::State {
  struct Item {
    Modality modality = Modality::kImage;
    std::size_t same_as = 0;  // position of the first item with this key; its own if it is first
    std::optional<EncodeOnce::Claim> claim;  // only at the first item with this key
    MediaSource source = MediaSource::kReused;
    EncoderKey key;
    std::vector<EntryLabel> labels;  // of what is not cached
    std::optional<ContentDigest> content;
    bool declined = false;   // loading it was expected to be slower than encoding it
    bool elsewhere = false;  // this request leads here, but another process holds the lease
    LeaseLoop lease_loop;
    std::unique_ptr<Lease> lease;  // other processes wait for this request
  };
  State(RunningRequests::Token its_running, EncodeOnce& its_front, EncoderArchive* its_archive,
        LeaseService* its_leases, const RequestFacts& its_facts, std::vector<Item> its_items)
      : running(std::move(its_running)),
        front(&its_front),
        archive(its_archive),
        leases(its_leases),
        facts(its_facts),
        items(std::move(its_items)) {}
  /// Publishes what the archive has of the item; if it has nothing, claims the item's lease.
  void load(Item& item);
  [[nodiscard]] static bool is_leader(const Item& item);
  void publish_loaded(Item& item, std::optional<EncoderArchive::Loaded> loaded);
  Result<LeaseLoop::Found> load_again(Item& item);
  Result<void> await_lease_holder(Item& item, const std::stop_token& stop);
  void note_request();

  RunningRequests::Token running;  // first: until everything else is gone
  EncodeOnce* front;               // nullptr once the policy has recorded the request
  EncoderArchive* archive;         // nullptr: no tier
  LeaseService* leases;            // nullptr: no other process stores into the tier
  RequestFacts facts;
  std::vector<Item> items;
};

}  // namespace afterimage
