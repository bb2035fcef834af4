// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/engine/serve.h"

#include "afterimage/engine/kv_exchange.h"
#include "afterimage/prefix/resume_point.h"

namespace afterimage {
namespace {

Result<EncoderOutput> encode_timed(const Engine& engine, const MediaItem& item, const Clock& clock,
                                   Served& served, Duration& cost) {
  const Duration began = clock.now();
  auto output = engine.encode(item);
  cost = clock.now() - began;
  ++served.encoder_calls;
  served.encoding += cost;
  return output;
}

Result<void> complete(Plan& plan, std::span<const MediaItem* const> media, const Engine& engine,
                      const Clock& clock, Served& served, std::stop_token stop) {
  for (bool done = false; !done;) {
    for (const std::size_t item : plan.to_encode()) {
      Duration cost{0};
      auto output = encode_timed(engine, *media[item], clock, served, cost);
      if (!output.has_value()) {
        plan.fail(item, output.error());
        return std::unexpected(output.error());
      }
      AFI_TRY_VOID(plan.commit(item, *std::move(output), cost));
    }
    AFI_TRY(done, plan.await(stop));
  }
  return {};
}

/// One request on its way, once it is known what it is.
struct Way {
  const Request& request;
  std::span<const MediaItem* const> media;
  const Fingerprint& prints;
  const Sequence& prompt;
  NamespaceId root;
  const Engine& engine;
  Reuse& reuse;
  const Clock& clock;
  const GenerateOptions& options;
  Duration arrived;
};

/// Generates from where `match` ends, and keeps what was computed.
Result<Completion> resume_and_keep(const Way& way, const PrefixMatch& match,
                                   std::span<const TensorViews> embeddings) {
  const KvLayout& layout = *way.engine.kv_layout();
  PrefillOnce& prefix = *way.reuse.prefix();
  KvState state;
  KvUse use;
  if (match.resume().value() > 0) {
    AFI_TRY(state, state_of(prefix.kv(match), layout, kv_origin(way.engine.identity(), layout)));
    use.resume_from = &state;
  }
  use.wanted = {.rows_from = match.resume(),
                .rows_to = TokenCount(static_cast<std::uint32_t>(way.prompt.tokens.size())),
                .snapshots = snapshot_positions(way.prompt, layout, match)};
  AFI_TRY(const Generation made,
          way.engine.generate_from(way.prompt, embeddings, way.options, use));
  // No room is no error, and the answer is there already: what cannot be kept is not kept.
  static_cast<void>(prefix.insert(way.root, layout, way.prompt,
                                  captured_of(made.kv, made.completion.first_token_after)));
  return made.completion;
}

/// `match` is held until what stands on it has been kept.
Result<Served> answer(const Way& way, PrefixMatch match, const std::stop_token& stop) {
  Served served;
  const auto to_encode = media_to_encode(way.prompt.spans, match.resume());
  Plan plan =
      way.reuse.plan(way.prints, way.request.agent, way.prompt.spans.size() - to_encode.size());
  AFI_TRY_VOID(complete(plan, way.media, way.engine, way.clock, served, stop));
  const Duration ready = way.clock.now();
  if (way.reuse.prefix() != nullptr && way.engine.kv_layout() != nullptr) {
    AFI_TRY(served.completion, resume_and_keep(way, match, plan.embeddings()));
  } else {
    AFI_TRY(served.completion, way.engine.generate(way.prompt, plan.embeddings(), way.options));
  }
  served.sources = plan.sources();
  served.time_to_first_token = ready - way.arrived + served.completion.first_token_after;
  served.total = way.clock.now() - way.arrived;
  return served;
}

}  // namespace

Recipes recipes_of(const Engine& engine) {
  return {.image = engine.recipe(Modality::kImage),
          .audio = engine.recipe(Modality::kAudio),
          .video = engine.recipe(Modality::kVideo)};
}

Result<Served> serve(const Request& request, const Engine& engine, Reuse& reuse, const Clock& clock,
                     const GenerateOptions& options, std::stop_token stop) {
  const Duration arrived = clock.now();
  const auto media = media_of(request);
  const Recipes recipes = recipes_of(engine);
  AFI_TRY(const Namespace space, reuse.space(engine.identity(), request.tenant));
  Fingerprint prints = fingerprint(media, space, recipes);
  AFI_TRY(const Sequence prompt, engine.prepare(request, prints.contents));
  const Way way{.request = request,
                .media = media,
                .prints = prints,
                .prompt = prompt,
                .root = space.prefix_root(recipes.image, recipes.audio, recipes.video),
                .engine = engine,
                .reuse = reuse,
                .clock = clock,
                .options = options,
                .arrived = arrived};
  PrefixMatch match(TokenCount(0));
  if (reuse.prefix() != nullptr && engine.kv_layout() != nullptr) {
    AFI_TRY(match, reuse.prefix()->match(way.root, prompt));
  }
  const bool resumed = match.resume().value() > 0;
  auto served = answer(way, std::move(match), stop);
  // Whatever a restore ran into, the request does not suffer for it: it is computed from the start.
  if (!served.has_value() && resumed && served.error().code != ErrorCode::kCancelled) {
    served = answer(way, PrefixMatch(TokenCount(0)), stop);
    if (served.has_value()) served->restore_failed = true;
  }
  if (served.has_value()) served->prints = std::move(prints);
  return served;
}

Result<Served> serve_without_reuse(const Request& request, const Engine& engine, const Clock& clock,
                                   const GenerateOptions& options) {
  const Duration arrived = clock.now();
  Served served;
  const auto media = media_of(request);
  // Nothing is looked up, so nothing needs an identity; the engine does not compute with it.
  const std::vector<ContentDigest> unidentified(media.size());
  AFI_TRY(const Sequence prompt, engine.prepare(request, unidentified));
  std::vector<EncoderOutput> outputs;
  std::vector<TensorViews> embeddings;
  for (const MediaItem* item : media) {
    Duration cost{0};
    AFI_TRY(EncoderOutput output, encode_timed(engine, *item, clock, served, cost));
    served.encodes.push_back(cost);
    outputs.push_back(std::move(output));
    AFI_TRY(TensorViews views, views_of(outputs.back()));
    embeddings.push_back(std::move(views));
  }
  const Duration ready = clock.now();
  AFI_TRY(served.completion, engine.generate(prompt, embeddings, options));
  served.sources.assign(media.size(), MediaSource::kEncoded);
  served.time_to_first_token = ready - arrived + served.completion.first_token_after;
  served.total = clock.now() - arrived;
  return served;
}

}  // namespace afterimage
