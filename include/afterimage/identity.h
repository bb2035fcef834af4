// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// Everything about a model, besides content and tenant, that changes what it computes.
/// An engine fills in every field. A field that does not apply is empty, and empty is a distinct
/// value in keys.
struct ModelIdentity {
  std::string model;          // name or digest of the language model's weights
  std::string weights_epoch;  // changes whenever weights change under the same name
  std::string encoder;        // name and revision of the media encoder and projector
  std::string adapter;        // adapters by content, with their scales
  std::string chat_template;  // digest or version of the chat template
  DType kv_dtype = DType::kF32;

  bool operator==(const ModelIdentity&) const = default;
};

/// How a media item is preprocessed before it reaches the encoder. Part of every encoder key.
struct PreprocessRecipe {
  std::string processor;    // name and version of the preprocessing code
  std::uint32_t width = 0;  // pixels after resizing; 0: not resized
  std::uint32_t height = 0;
  std::uint32_t max_frames = 0;      // video: maximum number of frames; 0: not a video
  std::uint32_t frame_rate_mhz = 0;  // video: frames per 1,000 seconds sampled; 0: every frame
  std::uint32_t sample_rate_hz = 0;  // audio: after resampling; 0: not resampled
  DType output = DType::kF32;
  std::map<std::string, std::string> options;  // all other settings, by name

  bool operator==(const PreprocessRecipe&) const = default;
};

/// SHA-256 of a media item's raw bytes, the same digest that other tools compute.
///
/// Shape    One file: SHA-256 of its bytes. A folder of frames: SHA-256 of a framed list of the
///          frames' digests and their rate; the message begins with a label that no media file
///          begins with, so no decodable file has the digest of a folder.
/// Cost     One pass at the speed of OpenSSL (1.4 to 1.8 GB/s a core with SHA-NI).
/// Threads  Any.
ContentDigest content_digest(const MediaItem& item);

/// Pixels that are already decoded, for engines that never see the file.
struct Pixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::string_view format;  // meaning of one element: "rgb", "rgba", "grey", "palette", …
  DType dtype = DType::kU8;
  std::span<const std::byte> data;
  std::span<const std::byte> palette;  // empty unless elements are indices into it
};

/// Samples that are already decoded.
struct AudioSamples {
  std::uint32_t sample_rate_hz = 0;
  std::uint32_t channels = 1;
  DType dtype = DType::kF32;
  std::span<const std::byte> data;
};

/// SHA-256 of shape, format and dtype together with the data, so that a white 10×20 image differs
/// from a white 20×10 one.
DecodedDigest decoded_digest(const Pixels& pixels);
DecodedDigest decoded_digest(const AudioSamples& samples);

class FieldWriter;

/// Makes the labels by which entries are erased, under the installation's secret: without it nobody
/// can compute one, or tell what an entry was made from.
///
/// Threads  Any; immutable.
/// Source   docs/formats/keys.md.
class EntryLabels {
 public:
  /// Most labels of an entry. An entry made from more media than that allows has the label of any
  /// media item instead of theirs: it is erased with each.
  static constexpr std::size_t kMax = 48;
  static constexpr std::size_t kMaxTags = 32;  // of a request

  explicit EntryLabels(const Secret& root);

  /// By the tenant's name for its operator.
  [[nodiscard]] EntryLabel tenant(std::string_view name) const;
  /// By its name, whatever its weights.
  [[nodiscard]] EntryLabel model(std::string_view name) const;
  [[nodiscard]] EntryLabel media(const ContentDigest& content) const;
  /// Of entries made from more media than kMax allows.
  [[nodiscard]] EntryLabel any_media() const;
  /// Of a tag: "media:…", "tenant:…" and "model:…" are the labels above.
  [[nodiscard]] EntryLabel tag(std::string_view tag) const;
  /// Of the day on which an entry was made, in UTC. No tag has such a label, so no client can make its
  /// entries younger.
  [[nodiscard]] EntryLabel day(std::chrono::sys_days day) const;
  /// The entries that were made before the day `first_kept`, as seen on the day `today`.
  /// kInvalidArgument: more than kMaxDays apart, or after tomorrow.
  [[nodiscard]] Result<EntryFilter> made_before(std::chrono::sys_days first_kept,
                                                std::chrono::sys_days today) const;
  static constexpr int kMaxDays = 3660;
  /// The entries that were made from a media item.
  [[nodiscard]] EntryFilter made_from(const ContentDigest& content) const {
    return {.any_of = {media(content), any_media()}};
  }

 private:
  [[nodiscard]] EntryLabel label(std::string_view kind, std::string_view text) const;

  Secret key_;
};

/// Everything besides content that changes a result: model, weights, encoder, adapter, template, KV
/// dtype and tenant, under the tenant's salt. Without that salt nobody can tell whether two tenants
/// hold the same image.
///
/// Errors   kInvalidArgument: the engine does not name its model and encoder. Without an identity
///          nothing is cached.
/// Threads  Any; immutable.
/// Source   docs/formats/keys.md; golden vectors in keys_test.cc.
class Namespace {
 public:
  /// `tenant_name` is the tenant's in labels; empty: the text of `tenant`.
  static Result<Namespace> of(const ModelIdentity& model, const TenantId& tenant,
                              const Secret& root, std::string_view tenant_name = {});

  /// The key of one encoder output.
  [[nodiscard]] EncoderKey encoder_key(const MediaItem& item, const ContentDigest& content,
                                       const PreprocessRecipe& recipe) const;

  /// The key of the encoder output of one part of an item, whichever item that is: `input` is the
  /// digest of all that goes into the encoder (MediaPart), `rows` are those of the output.
  [[nodiscard]] EncoderKey part_key(Modality modality, const DecodedDigest& input, TokenCount rows,
                                    const PreprocessRecipe& recipe) const;

  /// The root of this namespace's prefix keys: everything besides the sequence that changes KV.
  /// Preprocessing changes KV, so the recipes are part of it.
  [[nodiscard]] NamespaceId prefix_root(const PreprocessRecipe& image,
                                        const PreprocessRecipe& audio,
                                        const PreprocessRecipe& video) const;

  /// Those of its installation.
  [[nodiscard]] const EntryLabels& entry_labels() const { return labels_; }

  /// Derives a secret of this namespace from `fields`, whose domain is the caller's own.
  [[nodiscard]] Secret derive(const FieldWriter& fields) const;

  /// Entries that are made from now on have these labels, too. They change no key.
  void add_labels(std::span<const EntryLabel> labels);

  /// The labels of an entry made in this namespace, from these media: tenant, model, those added,
  /// and each media item once.
  [[nodiscard]] std::vector<EntryLabel> labels(std::span<const ContentDigest> media) const;
  /// The same from the labels of the media, one an item.
  [[nodiscard]] std::vector<EntryLabel> labels(std::span<const EntryLabel> media) const;
  /// The labels of a part. Any item may contain it, so it is erased with each.
  [[nodiscard]] std::vector<EntryLabel> part_labels() const;
  [[nodiscard]] std::vector<EntryLabel> media_labels(std::span<const ContentDigest> media) const;

 private:
  Namespace(const Secret& key, const EntryLabels& labels, EntryLabel tenant, EntryLabel model)
      : key_(key), labels_(labels), tenant_(tenant), model_(model) {}

  Secret key_;
  EntryLabels labels_;
  EntryLabel tenant_;
  EntryLabel model_;
  std::vector<EntryLabel> added_;
};

/// Derives a tenant's salt from the secret of the whole installation.
Secret tenant_salt(const Secret& root, const TenantId& tenant);

/// The preprocessing of each modality.
struct Recipes {
  PreprocessRecipe image;
  PreprocessRecipe audio;
  PreprocessRecipe video;

  [[nodiscard]] const PreprocessRecipe& of(Modality modality) const;
};

/// The identities of a request's media: one element per media item, in order of appearance.
struct Fingerprint {
  std::vector<ContentDigest> contents;
  std::vector<EncoderKey> keys;
  std::vector<Modality> modalities;
  std::optional<Namespace> space = std::nullopt;  // for labels and parts; nullopt: none
  Recipes recipes = {};                           // by which the items are preprocessed

  /// Of the encoder output of one item.
  [[nodiscard]] std::vector<EntryLabel> labels(std::size_t item) const;
};

/// Hashes every byte of every item. Pure; any thread.
Fingerprint fingerprint(std::span<const MediaItem* const> media, const Namespace& space,
                        const Recipes& recipes);

}  // namespace afterimage
