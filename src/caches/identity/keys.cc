// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "afterimage/identity.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "foundation/types/request_work.h"

namespace afterimage {
namespace {

void add_recipe(FieldWriter& fields, const PreprocessRecipe& recipe) {
  fields.text("processor", recipe.processor)
      .number("width", recipe.width)
      .number("height", recipe.height)
      .number("max_frames", recipe.max_frames)
      .number("frame_rate_mhz", recipe.frame_rate_mhz)
      .number("sample_rate_hz", recipe.sample_rate_hz)
      .number("output", static_cast<std::uint64_t>(recipe.output))
      .texts("options", recipe.options);
}

}  // namespace

Secret tenant_salt(const Secret& root, const TenantId& tenant) {
  FieldWriter fields("afterimage/tenant-salt/1");
  fields.text("tenant", tenant.text());
  return hmac_sha256(root, fields.message());
}

Result<Namespace> Namespace::of(const ModelIdentity& model, const TenantId& tenant,
                                const Secret& root, std::string_view tenant_name) {
  if (model.model.empty() || model.encoder.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the engine does not name its model and encoder, so nothing is cached for it: set "
                "both");
  }
  RequestWork::add(request_work().namespaces);
  FieldWriter fields("afterimage/namespace/1");
  fields.text("model", model.model)
      .text("weights_epoch", model.weights_epoch)
      .text("encoder", model.encoder)
      .text("adapter", model.adapter)
      .text("chat_template", model.chat_template)
      .number("kv_dtype", static_cast<std::uint64_t>(model.kv_dtype));
  const EntryLabels labels(root);
  return Namespace(hmac_sha256(tenant_salt(root, tenant), fields.message()), labels,
                   labels.tenant(tenant_name.empty() ? tenant.text() : tenant_name),
                   labels.model(model.model));
}

EncoderKey Namespace::encoder_key(const MediaItem& item, const ContentDigest& content,
                                  const PreprocessRecipe& recipe) const {
  FieldWriter fields("afterimage/encoder-key/1");
  fields.number("modality", static_cast<std::uint64_t>(item.modality))
      .number("files", item.files.size())
      .number("file_frame_rate_mhz", item.frame_rate_mhz)
      .bytes("content", content.bytes);
  add_recipe(fields, recipe);
  return EncoderKey{hmac_sha256(key_, fields.message())};
}

NamespaceId Namespace::prefix_root(const PreprocessRecipe& image, const PreprocessRecipe& audio,
                                   const PreprocessRecipe& video) const {
  FieldWriter fields("afterimage/prefix-root/1");
  for (const PreprocessRecipe* recipe : {&image, &audio, &video}) add_recipe(fields, *recipe);
  return NamespaceId{hmac_sha256(key_, fields.message())};
}

EncoderKey Namespace::part_key(Modality modality, const DecodedDigest& input, TokenCount rows,
                               const PreprocessRecipe& recipe) const {
  FieldWriter fields("afterimage/part-key/1");
  fields.number("modality", static_cast<std::uint64_t>(modality))
      .bytes("input", input.bytes)
      .number("rows", rows.value());
  add_recipe(fields, recipe);
  return EncoderKey{hmac_sha256(key_, fields.message())};
}

Secret Namespace::derive(const FieldWriter& fields) const {
  return hmac_sha256(key_, fields.message());
}

std::vector<EntryLabel> Namespace::media_labels(std::span<const ContentDigest> media) const {
  std::vector<EntryLabel> labels;
  for (const ContentDigest& content : media) labels.push_back(labels_.media(content));
  return labels;
}

std::vector<EntryLabel> Namespace::labels(std::span<const ContentDigest> media) const {
  return labels(media_labels(media));
}

void Namespace::add_labels(std::span<const EntryLabel> labels) {
  added_.insert(added_.end(), labels.begin(), labels.end());
}

std::vector<EntryLabel> Namespace::labels(std::span<const EntryLabel> media) const {
  std::vector<EntryLabel> labels{tenant_, model_};
  labels.insert(labels.end(), added_.begin(), added_.end());
  const std::size_t of_space = labels.size();
  for (const EntryLabel label : media) {
    if (std::ranges::find(labels, label) != labels.end()) continue;
    if (labels.size() == EntryLabels::kMax) {
      labels.resize(of_space);
      labels.push_back(labels_.any_media());
      break;
    }
    labels.push_back(label);
  }
  return labels;
}

std::vector<EntryLabel> Namespace::part_labels() const {
  return labels(std::to_array({labels_.any_media()}));
}

EntryLabels::EntryLabels(const Secret& root)
    : key_(hmac_sha256(root, FieldWriter("afterimage/entry-labels/1").message())) {}

EntryLabel EntryLabels::label(std::string_view kind, std::string_view text) const {
  FieldWriter fields("afterimage/entry-label/1");
  fields.text(kind, text);
  const Secret hash = hmac_sha256(key_, fields.message());
  EntryLabel label;
  std::memcpy(&label.bits, hash.data(), sizeof label.bits);
  return label;
}

EntryLabel EntryLabels::tag(std::string_view tag) const { return label("tag", tag); }
EntryLabel EntryLabels::tenant(std::string_view name) const {
  return tag("tenant:" + std::string(name));
}
EntryLabel EntryLabels::model(std::string_view name) const {
  return tag("model:" + std::string(name));
}
EntryLabel EntryLabels::media(const ContentDigest& content) const {
  return tag("media:" + content.hex());
}
EntryLabel EntryLabels::day(std::chrono::sys_days day) const {
  const std::chrono::year_month_day date(day);
  return label("day",
               fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                           static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day())));
}
Result<EntryFilter> EntryLabels::made_before(std::chrono::sys_days first_kept,
                                             std::chrono::sys_days today) const {
  const auto days = (today - first_kept).count();
  if (days < -1 || days > kMaxDays) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("an age is 0 to {} days, not {}", kMaxDays, days + 1));
  }
  // A gateway whose clock runs ahead, or a day that ends meanwhile: tomorrow's entries stay, too.
  EntryFilter filter;
  for (auto at = first_kept; at <= today + std::chrono::days(1); at += std::chrono::days(1)) {
    filter.none_of.push_back(day(at));
  }
  return filter;
}
EntryLabel EntryLabels::any_media() const { return tag("media:any"); }

}  // namespace afterimage
