// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/serve.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "afterimage/reuse.h"
#include "runtime/engine_api/token_sampler.h"
#include "runtime/reuse/plan.h"

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

/// Encodes and commits what the plan lacks, through one call of the engine. An output is handed over
/// as soon as it is there, so that its waiters do not wait for the others. Tries all, then returns the
/// first error.
class Encoding {
 public:
  Encoding(Plan& plan, const ServeContext& context, Served& served)
      : plan_(plan), context_(context), served_(served), since_(context.clock.now()) {}

  Result<void> run() && {
    sort_missing();
    if (!wholes_.empty()) {
      served_.encoder_calls += wholes_.size();
      context_.engine.encode_all(
          wholes_, [&](std::vector<Encoded> batch) { commit(whole_at_, std::move(batch)); });
    }
    if (!parts_.empty()) {
      served_.encoder_calls += items_.size();
      context_.engine.encode_parts(
          parts_, [&](std::vector<Encoded> batch) { commit(part_at_, std::move(batch)); });
    }
    return outcome_;
  }

 private:
  void sort_missing() {
    for (const std::size_t at : plan_.media().to_encode()) {
      const PlannedOutput output = plan_.media().output(at);
      if (!output.part.has_value()) {
        wholes_.push_back(context_.identity.media[output.item]);
        whole_at_.push_back(at);
        continue;
      }
      const auto split = plan_.split(output.item, context_.engine);
      const auto checked =
          split.has_value() ? check_part(**split, *output.part) : std::unexpected(split.error());
      if (!checked.has_value()) {
        plan_.media().fail(at, checked.error());
        if (outcome_.has_value()) outcome_ = checked;
        continue;
      }
      items_.insert(output.item);
      parts_.push_back({.item = *split, .part = *output.part});
      part_at_.push_back(at);
    }
  }
  static Result<void> check_part(const SplitMedia& split, std::size_t part) {
    if (part < split.parts().size()) return {};
    return fail(ErrorCode::kCorruption,
                "the engine split a media item into fewer parts than before");
  }
  void commit(const std::vector<std::size_t>& positions, std::vector<Encoded> batch) {
    const Duration took = context_.clock.now() - since_;
    served_.encoding += took;
    for (Encoded& one : batch) {
      const std::size_t at = positions[one.item];
      if (!one.output.has_value()) plan_.media().fail(at, one.output.error());
      const auto committed =
          one.output.has_value()
              ? plan_.media().commit(at, *std::move(one.output), took / batch.size())
              : std::unexpected(one.output.error());
      if (outcome_.has_value()) outcome_ = committed;
    }
    since_ = context_.clock.now();
  }

  Plan& plan_;
  const ServeContext& context_;
  Served& served_;
  Duration since_;
  Result<void> outcome_;
  std::vector<const MediaItem*> wholes_;
  std::vector<std::size_t> whole_at_;  // their positions in the plan
  std::vector<PartToEncode> parts_;
  std::vector<std::size_t> part_at_;
  std::set<std::size_t> items_;  // those that the parts are of
};

/// Until every encoder output of the plan is there.
Result<void> complete_media(Plan& plan, const ServeContext& context, Served& served,
                            const std::stop_token& stop) {
  for (bool done = false; !done;) {
    AFI_TRY_VOID(Encoding(plan, context, served).run());
    AFI_TRY(done, plan.media().await(stop));
  }
  return {};
}

/// Until every encoder output is there, and what parts were joined to is known to equal the whole.
Result<void> provide_media(Plan& plan, const ServeContext& context, Served& served,
                           const std::stop_token& stop) {
  AFI_TRY_VOID(plan.add_media(context.prompt, context.engine));
  AFI_TRY_VOID(complete_media(plan, context, served, stop));
  served.encoding += plan.split_time();
  const auto item = plan.unconfirmed_item(context.engine);
  if (!item.has_value()) return {};
  const Duration began = context.clock.now();
  AFI_TRY(const EncoderOutput whole, context.engine.encode(*context.identity.media[*item]));
  served.encoding += context.clock.now() - began;
  ++served.encoder_calls;
  if (plan.confirm_parts(*item, whole, context.engine)) return {};
  plan.add_media(context.prompt);
  return complete_media(plan, context, served, stop);
}

/// Computes what the plan lacks: encoder outputs, then the prompt from where it resumes, then the
/// answer.
Result<Served> compute(Plan& plan, const ServeContext& context, const std::stop_token& stop) {
  Served served;
  AFI_TRY_VOID(provide_media(plan, context, served, stop));
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
  served.bounded = served.completion.moved.value() > 0;
  served.parts = plan.media().parts();
  served.encoded_parts = plan.media().encoded_parts();
  served.time_to_first_token = ready - context.arrived + served.completion.first_token_after;
  return served;
}

/// A request is never worse off for cached KV: if a run that resumed or moved some fails, it runs once
/// more from the start.
Result<Served> compute_or_restart(Plan& plan, const ServeContext& context,
                                  StreamDeduplicator& stream, const std::stop_token& stop) {
  auto served = compute(plan, context, stop);
  const bool failed = !served.has_value() && served.error().code != ErrorCode::kCancelled;
  if (!failed || (plan.resume().value() == 0 && !plan.is_bounded())) return served;
  plan.restart();
  stream.restart();
  served = compute(plan, context, stop);
  if (served.has_value()) served->restore_failed = true;
  return served;
}

/// Of an engine that says its context: whether the prompt and an answer fit it. Known before the media
/// are encoded, which may take a minute, and before a prefix is waited for.
Result<void> check_length(const Sequence& prompt, const Engine& engine,
                          const GenerateOptions& options) {
  const Tokenizer* const tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) return {};
  AFI_TRY([[maybe_unused]] const TokenCount limit,
          answer_limit(prompt, options.max_tokens, tokenizer->context()));
  return {};
}

/// The match levels below the answer. `prepared` is filled, unless the request was prepared before; it outlives
/// the plan, which refers to it.
Result<Served> plan_and_compute(Plan& plan, std::optional<PreparedRequest>& prepared,
                                const RequestIdentity& identity, const Engine& engine,
                                const Clock& clock, const GenerateOptions& options,
                                Duration arrived, const std::stop_token& stop,
                                bool may_move = true) {
  if (!prepared.has_value()) {
    AFI_TRY(prepared, engine.prepare_answer(*identity.request, identity.prints.contents));
  }
  const Sequence& prompt = prepared->prompt;
  AFI_TRY_VOID(check_length(prompt, engine, options));
  if (engine.kv_layout() != nullptr) {
    AFI_TRY_VOID(plan.add_prefix(prompt, *engine.kv_layout(), stop));
    // An answer that no other run can give could not be compared with an exact one.
    plan.add_moved(engine, may_move && options.sampling.is_reproducible());
  }
  StreamDeduplicator stream(options);
  GenerateOptions own = options;
  own.cancel = stop;
  own.format = prepared->format;
  if (own.on_format) own.on_format(own.format);
  if (own.on_bounded && plan.is_bounded()) own.on_bounded();
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

/// The same request without moved KV: its answer for the samples, and exact KV for the caches.
Result<Served> serve_exactly(const RequestIdentity& identity, const RequestFacts& facts,
                             const Engine& engine, Reuse& reuse, const GenerateOptions& options,
                             const std::stop_token& stop) {
  RequestIdentity own = identity;
  own.question = std::nullopt;
  GenerateOptions silent = options;
  silent.on_text = {};
  silent.on_logprobs = {};
  silent.on_format = {};
  silent.on_bounded = {};
  std::optional<PreparedRequest> prepared;
  AFI_TRY(Plan plan, reuse.plan(own, facts, stop));
  return plan_and_compute(plan, prepared, own, engine, reuse.clock(), silent, reuse.clock().now(),
                          stop, /*may_move=*/false);
}

/// What only a cache of answers looks up is not made for others.
Result<RequestIdentity> identity_of(const Request& request, const Engine& engine, Reuse& reuse,
                                    const GenerateOptions& options) {
  if (reuse.answers() != nullptr) {
    return identify(request, engine, reuse.secret(), options, &reuse.wall_clock());
  }
  AFI_TRY(Namespace space,
          Namespace::of(engine.identity(), request.tenant, reuse.secret(), request.tenant_name));
  return identify_inputs(request, engine, std::move(space), &reuse.wall_clock());
}

Result<Served> serve_identified(const RequestIdentity& identity,
                                std::optional<PreparedRequest> prepared, const Engine& engine,
                                Reuse& reuse, const GenerateOptions& options, Duration arrived,
                                const std::stop_token& stop) {
  const Clock& clock = reuse.clock();
  const Request& request = *identity.request;
  const RequestFacts facts{.now = arrived,
                           .kind = turn_kind(request),
                           .hint = request.hints.conversation,
                           .step = reuse.begin_step(request)};
  AFI_TRY(Plan plan, reuse.plan(identity, facts, stop));
  Served served;
  if (plan.is_answered()) {
    served = served_from_cache(plan.answer(), identity.media.size());
    served.time_to_first_token = clock.now() - arrived;
  } else {
    auto computed =
        plan_and_compute(plan, prepared, identity, engine, clock, options, arrived, stop);
    if (!computed.has_value()) {
      plan.fail(computed.error());
      return computed;
    }
    served = *std::move(computed);
    AFI_TRY_VOID(plan.publish(served.completion, engine.identity().model));
    if (plan.wants_exact(served.completion)) {
      const auto exact = serve_exactly(identity, facts, engine, reuse, options, stop);
      if (exact.has_value()) plan.compare(served.completion, exact->completion);
      served.compared = exact.has_value();
    }
  }
  served.match_steps = plan.answer().steps;
  if (!served.answered) {
    served.target = std::make_shared<const PrefetchTarget>(
        PrefetchTarget{.prints = identity.prints,
                       .space = identity.space,
                       .root = identity.root,
                       .prompt = std::move(prepared->prompt)});
  }
  served.prints = identity.prints;
  served.total = clock.now() - arrived;
  return served;
}

}  // namespace

Result<Served> serve(const RequestIdentity& identity, const Engine& engine, Reuse& reuse,
                     const GenerateOptions& options, const std::stop_token& stop) {
  return serve_identified(identity, std::nullopt, engine, reuse, options, reuse.clock().now(),
                          stop);
}

Result<Served> serve(const RequestIdentity& identity, PreparedRequest prepared,
                     const Engine& engine, Reuse& reuse, const GenerateOptions& options,
                     const std::stop_token& stop) {
  return serve_identified(identity, std::move(prepared), engine, reuse, options,
                          reuse.clock().now(), stop);
}

Result<Served> serve(const Request& request, const Engine& engine, Reuse& reuse,
                     const GenerateOptions& options, const std::stop_token& stop) {
  const Duration arrived = reuse.clock().now();
  AFI_TRY(const RequestIdentity identity, identity_of(request, engine, reuse, options));
  return serve_identified(identity, std::nullopt, engine, reuse, options, arrived, stop);
}

Result<Served> serve_without_reuse(const Request& request, const Engine& engine, const Clock& clock,
                                   const GenerateOptions& options) {
  const Duration arrived = clock.now();
  Served served;
  const auto media = media_of(request);
  // Nothing is looked up, so the media need no identity: engines do not compute with it.
  const std::vector<ContentDigest> unidentified(media.size());
  AFI_TRY(const PreparedRequest prepared, engine.prepare_answer(request, unidentified));
  AFI_TRY_VOID(check_length(prepared.prompt, engine, options));
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
