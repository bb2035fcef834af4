// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <variant>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "caches/encoder/encode_once.h"
#include "caches/encoder/encoder_archive.h"
#include "caches/identity/fingerprint.h"
#include "storage/memory/lease_loop.h"

namespace afterimage {

/// Where the embeddings of one media item of a request came from.
enum class MediaSource : unsigned char {
  kCovered,   // none are needed: the item lies in the resumed prefix
  kReused,    // the cache had them
  kRepeated,  // the same item stands earlier in this request
  kAwaited,   // another request was encoding the item
  kEncoded,   // this request encoded it, and the cache stored it
  kUncached,  // this request encoded it, and it does not fit the budget
  kLoaded,    // the tier below memory had them, or another process stored them there meanwhile
  kDeclined,  // the tier had them, but encoding the item again was expected to be quicker
};
/// "covered", "reused", "repeated", "awaited", "encoded", "uncached", "loaded", "declined".
std::string_view to_string(MediaSource source);

/// The encoder outputs that one request needs: what it found, and what remains to be encoded.
/// Move-only. Dropping it releases every pin, lead and lease, so that waiting requests go on
/// without this one.
///
///   MediaPlan plan = reuse.plan_media(prints, agent);
///   for (;;) {
///     // Publish before waiting: others may be waiting for these.
///     for (item : plan.to_encode()) plan.commit(item, encode(item), cost);
///     AFI_TRY(const bool done, plan.await(stop));
///     if (done) break;  // else a leader gave up, and the lead passed to this request
///   }
///   engine.generate(prompt, plan.embeddings());
///
/// Threads  One request's thread at a time.
class [[nodiscard]] MediaPlan {
 public:
  MediaPlan(MediaPlan&&) = default;
  MediaPlan& operator=(MediaPlan&&) = default;

  /// Media items, by position in the request, that this request has to encode now.
  [[nodiscard]] std::vector<std::size_t> to_encode() const;

  /// The only step that adds content: hands an output to the cache and to every waiter. `item` is
  /// one of to_encode(). `cost` is how long encoding took.
  Result<void> commit(std::size_t item, EncoderOutput output, Duration cost);
  /// `item` could not be encoded.
  void fail(std::size_t item, const Error& error);

  /// Blocks until every output that other requests or processes are encoding is there. True: all
  /// outputs are there, and the eviction policy has recorded this request's use of them. False:
  /// another leader gave up, and to_encode() is no longer empty.
  Result<bool> await(std::stop_token stop = {});

  /// One list of tensors a media item, in order of appearance; valid while the plan lives. Empty
  /// for items that the resumed prefix covers. Requires that nothing is left to encode or to await.
  [[nodiscard]] std::vector<TensorViews> embeddings() const;

  /// One element a media item. Requires that every output is there.
  [[nodiscard]] std::vector<MediaSource> sources() const;

 private:
  friend class Reuse;
  struct Item {
    Modality modality = Modality::kImage;
    std::size_t same_as = 0;  // position of the first item with this key; its own if it is first
    std::optional<EncodeOnce::Claim> claim;  // only at the first item with this key
    MediaSource source = MediaSource::kReused;
    EncoderKey key;
    bool declined = false;   // loading it was expected to be slower than encoding it
    bool elsewhere = false;  // this request leads here, but another process holds the lease
    LeaseLoop lease_loop;
    std::unique_ptr<Lease> lease;  // other processes wait for this request
  };
  MediaPlan(EncodeOnce& front, EncoderArchive* archive, LeaseService* leases,
            const RequestFacts& facts, std::vector<Item> items)
      : front_(&front),
        archive_(archive),
        leases_(leases),
        facts_(facts),
        items_(std::move(items)) {}
  /// Publishes what the archive has of the item; if it has nothing, claims the item's lease.
  void load(Item& item);
  [[nodiscard]] static bool is_leader(const Item& item);
  void publish_loaded(Item& item, std::optional<EncoderArchive::Loaded> loaded);
  Result<LeaseLoop::Found> load_again(Item& item);
  Result<void> await_lease_holder(Item& item, const std::stop_token& stop);
  void note_request();

  EncodeOnce* front_;        // nullptr once the policy has recorded the request
  EncoderArchive* archive_;  // nullptr: no tier
  LeaseService* leases_;     // nullptr: no other process stores into the tier
  RequestFacts facts_;
  std::vector<Item> items_;
};

}  // namespace afterimage
