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
#include "storage/memory/lease_service.h"

namespace afterimage {

/// How one media item of a request came by its embeddings.
enum class MediaSource : unsigned char {
  kCovered,   // none are needed: the item lies in the prefix that was resumed
  kReused,    // they were in the cache
  kRepeated,  // the same item stands earlier in this request
  kAwaited,   // another request was encoding it
  kEncoded,   // this request encoded it, and the cache keeps it
  kUncached,  // this request encoded it, and it does not fit the budget
  kLoaded,    // they were in the tier below memory, or another process put them there meanwhile
  kDeclined,  // they were there, too, and this request encoded the item because that is quicker
};
/// "covered", "reused", "repeated", "awaited", "encoded", "uncached", "loaded", "declined".
std::string_view to_string(MediaSource source);

/// What one request found and what remains to be computed. Move-only; dropping it gives back every
/// pin and every turn, so that whoever waits for this request goes on without it.
///
///   Plan plan = reuse.plan(prints, agent);
///   for (;;) {
///     for (item : plan.to_encode()) plan.commit(item, encode(item), cost);   // before waiting for
///     others AFI_TRY(const bool done, plan.await(stop)); if (done) break;
///     // else: a turn came to us
///   }
///   engine.generate(prompt, plan.embeddings());
///
/// Threads  One request's thread at a time.
class [[nodiscard]] Plan {
 public:
  Plan(Plan&&) = default;
  Plan& operator=(Plan&&) = default;

  /// Media items (by position in the request) that this request has to encode now.
  [[nodiscard]] std::vector<std::size_t> to_encode() const;

  /// The only step that adds content: hands an output over to the cache and to whoever waits for
  /// it. `item` is one of to_encode(). `cost` is what encoding took.
  Result<void> commit(std::size_t item, EncoderOutput output, Duration cost);
  /// `item` could not be encoded.
  void fail(std::size_t item, const Error& error);

  /// Blocks until what others are encoding, here or in other processes, is there. True: everything
  /// is, and the eviction policy
  /// was told that this request used it. False: somebody gave up, and to_encode() is not empty any
  /// more.
  Result<bool> await(std::stop_token stop = {});

  /// One list of tensors a media item, in order of appearance; valid while the plan lives. Empty
  /// for items that the resumed prefix covers. Requires that nothing is left to encode or to await.
  [[nodiscard]] std::vector<TensorViews> embeddings() const;

  /// One element a media item. Only after everything is there.
  [[nodiscard]] std::vector<MediaSource> sources() const;

 private:
  friend class Reuse;
  struct Item {
    Modality modality = Modality::kImage;
    std::size_t same_as =
        0;  // position of the first item with this key; its own if it is the first
    std::optional<EncodeOnce::Claim> claim;  // only at the first
    MediaSource source = MediaSource::kReused;
    EncoderKey key;
    bool declined = false;          // to be loaded
    bool elsewhere = false;         // the turn is ours here, and another process encodes it
    std::unique_ptr<Lease> shared;  // other processes wait for us
  };
  Plan(EncodeOnce& front, EncoderArchive* archive, LeaseService* others, const RequestFacts& facts,
       std::vector<Item> items)
      : front_(&front),
        archive_(archive),
        others_(others),
        facts_(facts),
        items_(std::move(items)) {}
  /// Publishes what the archive has of the item, if it has; if not, asks whether another process
  /// is at it.
  void load(Item& item);
  [[nodiscard]] static bool holds_turn(const Item& item);
  void publish_loaded(Item& item, std::optional<EncoderArchive::Loaded> loaded);
  void ask_others(Item& item);
  Result<void> await_elsewhere(Item& item, const std::stop_token& stop);
  void note_request();

  EncodeOnce* front_;        // until the policy was told
  EncoderArchive* archive_;  // nullptr: none
  LeaseService* others_;     // nullptr: nobody else puts into the archive
  RequestFacts facts_;
  std::vector<Item> items_;
};

}  // namespace afterimage
