// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/serve.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "afterimage/plan.h"

namespace afterimage {
namespace {

/// Passes a text and its tokens on as they grow. A run that starts over repeats what was passed on
/// already; nothing is passed on twice.
class StreamDeduplicator {
 public:
  explicit StreamDeduplicator(const GenerateOptions& options)
      : sink_(options.on_text), tokens_(options.on_logprobs) {}
  void restart() { received_ = tokens_received_ = 0; }
  void receive(const TokenLogprobs& token) {
    if (tokens_received_++ < tokens_passed_on_) return;
    tokens_passed_on_ = tokens_received_;
    tokens_(token);
  }
  bool receive(std::string_view more) {
    const std::size_t known = std::min(passed_on_ - received_, more.size());
    received_ += more.size();
    passed_on_ = std::max(passed_on_, received_);
    more.remove_prefix(known);
    return more.empty() || sink_(more);
  }

 private:
  std::function<bool(std::string_view)> sink_;
  std::function<void(const TokenLogprobs&)> tokens_;
  std::size_t received_ = 0;  // since the last start
  std::size_t passed_on_ = 0;
  std::size_t tokens_received_ = 0;
  std::size_t tokens_passed_on_ = 0;
};

/// What computing one request needs.
struct ServeContext {
  const RequestIdentity& identity;
  const Sequence& prompt;
  const Engine& engine;
  const Clock& clock;
  const GenerateOptions& options;
  Duration arrived;
};

/// Encodes and commits every missing item. An item is handed over as soon as it is encoded, so that
/// its waiters do not wait for the others. Tries all, then returns the first error.
Result<void> encode_missing(MediaPlan& plan, const ServeContext& context, Served& served) {
  const auto missing = plan.to_encode();
  std::vector<const MediaItem*> items;
  for (const std::size_t item : missing) items.push_back(context.identity.media[item]);
  Duration since = context.clock.now();
  Result<void> outcome;
  context.engine.encode_all(items, [&](std::vector<Encoded> batch) {
    const Duration took = context.clock.now() - since;
    served.encoder_calls += batch.size();
    served.encoding += took;
    for (Encoded& one : batch) {
      const std::size_t item = missing[one.item];
      if (!one.output.has_value()) plan.fail(item, one.output.error());
      const auto committed = one.output.has_value()
                                 ? plan.commit(item, *std::move(one.output), took / batch.size())
                                 : std::unexpected(one.output.error());
      if (outcome.has_value()) outcome = committed;
    }
    since = context.clock.now();
  });
  return outcome;
}

/// Until every encoder output of the plan is there.
Result<void> complete_media(MediaPlan& plan, const ServeContext& context, Served& served,
                            const std::stop_token& stop) {
  for (bool done = false; !done;) {
    AFI_TRY_VOID(encode_missing(plan, context, served));
    AFI_TRY(done, plan.await(stop));
  }
  return {};
}

/// Computes what the plan lacks: encoder outputs, then the prompt from where it resumes, then the
/// answer.
Result<Served> compute(Plan& plan, const ServeContext& context, const std::stop_token& stop) {
  Served served;
  plan.add_media(context.prompt);
  AFI_TRY_VOID(complete_media(plan.media(), context, served, stop));
  const Duration ready = context.clock.now();
  const auto embeddings = plan.media().embeddings();
  if (plan.has_prefix()) {
    const Engine& engine = context.engine;
    const KvUse use = plan.kv_use(kv_origin(engine.identity(), *engine.kv_layout()));
    AFI_TRY(Generation made,
            engine.generate_from(context.prompt, embeddings, context.options, use));
    served.completion = std::move(made.completion);
  } else {
    AFI_TRY(served.completion,
            context.engine.generate(context.prompt, embeddings, context.options));
  }
  served.format = context.options.format;
  served.sources = plan.media().sources();
  served.time_to_first_token = ready - context.arrived + served.completion.first_token_after;
  return served;
}

/// A request is never worse off for cached KV: if a resumed run fails, it runs once more from the
/// start.
Result<Served> compute_or_restart(Plan& plan, const ServeContext& context,
                                  StreamDeduplicator& stream, const std::stop_token& stop) {
  auto served = compute(plan, context, stop);
  const bool failed = !served.has_value() && served.error().code != ErrorCode::kCancelled;
  if (!failed || plan.resume().value() == 0) return served;
  plan.restart();
  stream.restart();
  served = compute(plan, context, stop);
  if (served.has_value()) served->restore_failed = true;
  return served;
}

/// The rungs below the answer. `prompt` is filled; it outlives the plan, which refers to it.
Result<Served> plan_and_compute(Plan& plan, Sequence& prompt, const RequestIdentity& identity,
                                const Engine& engine, const Clock& clock,
                                const GenerateOptions& options, Duration arrived,
                                const std::stop_token& stop) {
  AFI_TRY(PreparedRequest prepared,
          engine.prepare_answer(*identity.request, identity.prints.contents));
  prompt = std::move(prepared.prompt);
  if (engine.kv_layout() != nullptr) {
    AFI_TRY_VOID(plan.add_prefix(prompt, *engine.kv_layout(), stop));
  }
  StreamDeduplicator stream(options);
  GenerateOptions own = options;
  own.cancel = stop;
  own.format = std::move(prepared.format);
  if (own.on_format) own.on_format(own.format);
  if (own.on_text) own.on_text = [&](std::string_view more) { return stream.receive(more); };
  if (own.on_logprobs) {
    own.on_logprobs = [&](const TokenLogprobs& token) { stream.receive(token); };
  }
  const ServeContext context{.identity = identity,
                             .prompt = prompt,
                             .engine = engine,
                             .clock = clock,
                             .options = own,
                             .arrived = arrived};
  return compute_or_restart(plan, context, stream, stop);
}

Served served_from_cache(const AnswerLookup& found, std::size_t media_items) {
  Served served;
  served.answered = true;
  served.completion.text = found.answer->text;
  served.completion.ended = is_whole(*found.answer);
  served.sources.assign(media_items, MediaSource::kCovered);
  return served;
}

}  // namespace

Result<Served> serve(const Request& request, const Engine& engine, Reuse& reuse,
                     const GenerateOptions& options, const std::stop_token& stop) {
  const Clock& clock = reuse.clock();
  const Duration arrived = clock.now();
  AFI_TRY(RequestIdentity identity, identify(request, engine, reuse.secret(), options));
  const RequestFacts facts{
      .now = arrived, .kind = turn_kind(request), .hint = request.conversation};
  Sequence prompt;
  AFI_TRY(Plan plan, reuse.plan(identity, facts, stop));
  Served served;
  if (plan.is_answered()) {
    served = served_from_cache(plan.answer(), identity.media.size());
    served.time_to_first_token = clock.now() - arrived;
  } else {
    auto computed = plan_and_compute(plan, prompt, identity, engine, clock, options, arrived, stop);
    if (!computed.has_value()) {
      plan.fail(computed.error());
      return computed;
    }
    served = *std::move(computed);
    AFI_TRY_VOID(plan.publish(served.completion, engine.identity().model));
  }
  served.match_steps = plan.answer().steps;
  if (!served.answered) {
    served.target =
        std::make_shared<const PrefetchTarget>(PrefetchTarget{.prints = identity.prints,
                                                              .space = identity.space,
                                                              .root = identity.root,
                                                              .prompt = std::move(prompt)});
  }
  served.prints = std::move(identity.prints);
  served.total = clock.now() - arrived;
  return served;
}

Result<Served> serve_without_reuse(const Request& request, const Engine& engine, const Clock& clock,
                                   const GenerateOptions& options) {
  const Duration arrived = clock.now();
  Served served;
  const auto media = media_of(request);
  // Nothing is looked up, so the media need no identity: engines do not compute with it.
  const std::vector<ContentDigest> unidentified(media.size());
  AFI_TRY(const PreparedRequest prepared, engine.prepare_answer(request, unidentified));
  std::vector<EncoderOutput> outputs;
  std::vector<TensorViews> embeddings;
  for (const MediaItem* item : media) {
    const Duration began = clock.now();
    AFI_TRY(EncoderOutput output, engine.encode(*item));
    served.encodes.push_back(clock.now() - began);
    served.encoding += served.encodes.back();
    ++served.encoder_calls;
    outputs.push_back(std::move(output));
    AFI_TRY(TensorViews views, views_of(outputs.back()));
    embeddings.push_back(std::move(views));
  }
  const Duration ready = clock.now();
  GenerateOptions own = options;
  served.format = own.format = prepared.format;
  AFI_TRY(served.completion, engine.generate(prepared.prompt, embeddings, own));
  served.sources.assign(media.size(), MediaSource::kEncoded);
  served.time_to_first_token = ready - arrived + served.completion.first_token_after;
  served.total = clock.now() - arrived;
  return served;
}

}  // namespace afterimage
