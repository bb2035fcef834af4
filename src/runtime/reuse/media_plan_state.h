// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "afterimage/encode_once.h"
#include "afterimage/reuse.h"
#include "caches/encoder/encoder_archive.h"
#include "runtime/reuse/live_load.h"
#include "runtime/reuse/plan.h"
#include "runtime/reuse/running_requests.h"
#include "storage/memory/lease_loop.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

struct MediaPlan::State {
  /// One entry of the cache: of a whole item, or of one of its parts.
  struct Output {
    PlannedOutput of;
    TokenCount rows{};  // of a part
    Modality modality = Modality::kImage;
    std::size_t same_as = 0;  // position of the first output with this key; its own if it is first
    std::optional<EncodeOnce::Claim> claim;  // only at the first output with this key
    MediaSource source = MediaSource::kReused;
    EncoderKey key;
    std::vector<EntryLabel> labels;  // of what is not cached
    std::optional<ContentDigest> content;
    MediaSize size{};
    bool missed = false;     // at first
    bool declined = false;   // loading it was expected to be slower than encoding it
    bool elsewhere = false;  // this request leads here, but another process holds the lease
    LeaseLoop lease_loop;
    std::unique_ptr<Lease> lease;  // other processes wait for this request
  };
  /// A media item of the request.
  struct Item {
    std::size_t first = 0;  // of its outputs, which are adjacent
    std::size_t count = 1;
    bool is_split = false;
    EncoderOutput joined;  // of its parts, once all are there; it lives as long as the plan
    TensorViews views;
  };
  State(RunningRequests::Token its_running, EncodeOnce& its_front, EncoderArchive* its_archive,
        LeaseService* its_leases, const RequestFacts& its_facts, AgentId its_agent,
        std::vector<Item> its_items, std::vector<Output> its_outputs)
      : running(std::move(its_running)),
        front(&its_front),
        archive(its_archive),
        leases(its_leases),
        facts(its_facts),
        agent(its_agent),
        items(std::move(its_items)),
        outputs(std::move(its_outputs)) {}
  /// Publishes what the archive has of the output; if it has nothing, claims its lease.
  void load(Output& output);
  [[nodiscard]] static bool is_leader(const Output& output);
  void publish_loaded(Output& output, std::optional<EncoderArchive::Loaded> loaded);
  Result<LeaseLoop::Found> load_again(Output& output);
  Result<void> await_lease_holder(Output& output, const std::stop_token& stop);
  [[nodiscard]] std::span<const TensorView> tensors_of(const Output& output) const;
  Result<void> join(Item& item) const;
  [[nodiscard]] MediaSource source_of(const Item& item) const;
  void note_request();

  /// The outputs that a request needs, none claimed yet. The first `covered` items need none.
  struct Needed {
    std::vector<Item> items;
    std::vector<Output> outputs;
  };
  static Needed needed(const Fingerprint& prints, std::size_t covered, const PartsOfMedia& parts);
  static Output output_of(const Fingerprint& prints, std::size_t item);
  static Output output_of(const Fingerprint& prints, std::size_t item, std::size_t part,
                          const MediaPart& declared);
  static void claim(std::vector<Output>& outputs, const Fingerprint& prints,
                    const SizeOfMedia& size_of, EncodeOnce& front, AgentId agent);
  static EncoderEntryFacts facts_of(const Output& output, Duration cost);

  RunningRequests::Token running;  // first: until everything else is gone
  EncodeOnce* front;               // nullptr once the policy has recorded the request
  EncoderArchive* archive;         // nullptr: no tier
  LeaseService* leases;            // nullptr: no other process stores into the tier
  RequestFacts facts;
  AgentId agent;
  std::optional<LiveLoad::Request> in_flight{};  // nullopt: the floor is fixed
  std::vector<Item> items;
  std::vector<Output> outputs;
};

}  // namespace afterimage
