// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/serve.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "caches/answers/answer_once.h"
#include "caches/answers/scope.h"
#include "caches/prefix/resume_point.h"
#include "runtime/reuse/kv_exchange.h"

namespace afterimage {
namespace {

/// What this request has to encode now, handed over as it comes. Whoever waits for one of several
/// does not wait for all. The first error, once everything was tried.
Result<void> encode_missing(Plan& plan, std::span<const MediaItem* const> media,
                            const Engine& engine, const Clock& clock, Served& served) {
  const auto missing = plan.to_encode();
  std::vector<const MediaItem*> items;
  for (const std::size_t item : missing) items.push_back(media[item]);
  Duration since = clock.now();
  Result<void> outcome;
  engine.encode_all(items, [&](std::vector<Encoded> together) {
    const Duration took = clock.now() - since;
    served.encoder_calls += together.size();
    served.encoding += took;
    for (Encoded& one : together) {
      const std::size_t item = missing[one.item];
      if (!one.output.has_value()) plan.fail(item, one.output.error());
      const auto handed_over =
          one.output.has_value() ? plan.commit(item, *std::move(one.output), took / together.size())
                                 : std::unexpected(one.output.error());
      if (outcome.has_value()) outcome = handed_over;
    }
    since = clock.now();
  });
  return outcome;
}

Result<void> complete(Plan& plan, std::span<const MediaItem* const> media, const Engine& engine,
                      const Clock& clock, Served& served, std::stop_token stop) {
  for (bool done = false; !done;) {
    AFI_TRY_VOID(encode_missing(plan, media, engine, clock, served));
    AFI_TRY(done, plan.await(stop));
  }
  return {};
}

/// Hands a text on as it grows. Where it begins anew, what was handed on is not handed on again:
/// the same request is answered by the same text.
class StreamDeduplicator {
 public:
  explicit StreamDeduplicator(std::function<bool(std::string_view)> tell)
      : tell_(std::move(tell)) {}
  void begin_anew() { said_ = 0; }
  bool say(std::string_view more) {
    const std::size_t known = std::min(told_ - said_, more.size());
    said_ += more.size();
    told_ = std::max(told_, said_);
    more.remove_prefix(known);
    return more.empty() || tell_(more);
  }

 private:
  std::function<bool(std::string_view)> tell_;
  std::size_t said_ = 0;  // since the last beginning
  std::size_t told_ = 0;
};

/// One request on its way, once it is known what it is.
struct ServeContext {
  const Request& request;
  std::span<const MediaItem* const> media;
  const Fingerprint& prints;
  const Sequence& prompt;
  NamespaceId root;
  const Engine& engine;
  Reuse& reuse;
  const Clock& clock;
  const GenerateOptions& options;
  RequestFacts facts;              // `now` is when it arrived
  const ArchivedPrompt* archived;  // nullptr: KV is kept in memory only
  StreamDeduplicator& told;
};

/// The duty to prefill a prompt: for the requests of this process, and for other processes.
struct Lead {
  PrefillLeader turn;
  std::unique_ptr<Lease> shared;  // nullptr: no other process waits
};

/// Generates from where the lead's match ends, and keeps what was prefilled as soon as it is.
Result<Completion> resume_and_keep(const ServeContext& way, Lead& lead,
                                   std::span<const TensorViews> embeddings) {
  PrefillLeader& turn = lead.turn;
  const KvLayout& layout = *way.engine.kv_layout();
  const TokenCount resume = turn.match().resume();
  KvState state;
  KvUse use;
  if (resume.value() > 0) {
    const CachedKv cached = way.reuse.prefix()->kv(turn.match());
    AFI_TRY(state, state_of(cached, layout, kv_origin(way.engine.identity(), layout)));
    use.resume_from = &state;
  }
  PrefixArchive* const archive = way.archived == nullptr ? nullptr : way.reuse.prefix_archive();
  use.wanted = {.rows_from = archive == nullptr ? resume : PrefixArchive::capture_from(resume),
                .rows_to = TokenCount(static_cast<std::uint32_t>(way.prompt.tokens.size())),
                .snapshots = turn.snapshots()};
  const Duration began = way.clock.now();
  use.on_captured = [&](const KvCapture& kv) {
    // No room is no error, and the answer goes on: what cannot be kept is not kept.
    const CapturedKv captured = captured_of(kv, way.clock.now() - began);
    static_cast<void>(turn.commit(captured));
    if (archive != nullptr) archive->keep(*way.archived, captured);
    lead.shared.reset();  // after what others will look for is on its way
  };
  AFI_TRY(Generation made, way.engine.generate_from(way.prompt, embeddings, way.options, use));
  return std::move(made.completion);
}

/// `lead` is nullptr if there is nothing to keep KV in, or none to keep.
Result<Served> answer(const ServeContext& way, Lead* lead, const std::stop_token& stop) {
  Served served;
  const TokenCount resume = lead == nullptr ? TokenCount(0) : lead->turn.match().resume();
  const auto to_encode = media_to_encode(way.prompt.spans, resume);
  Plan plan = way.reuse.plan(way.prints, way.request.agent,
                             way.prompt.spans.size() - to_encode.size(), way.facts);
  AFI_TRY_VOID(complete(plan, way.media, way.engine, way.clock, served, stop));
  const Duration ready = way.clock.now();
  if (lead != nullptr) {
    AFI_TRY(served.completion, resume_and_keep(way, *lead, plan.embeddings()));
  } else {
    AFI_TRY(served.completion, way.engine.generate(way.prompt, plan.embeddings(), way.options));
  }
  served.sources = plan.sources();
  served.time_to_first_token = ready - way.facts.now + served.completion.first_token_after;
  served.total = way.clock.now() - way.facts.now;
  return served;
}

/// What the tier has of the prompt beyond what memory has goes up before anybody computes it.
Result<void> bring_up(const ServeContext& way, PrefillLeader& turn, PrefixArchive::Look look,
                      const std::stop_token& stop) {
  if (way.archived == nullptr) return {};
  PrefillOnce& front = *way.reuse.prefix();
  PrefixMatch asks(TokenCount(0), way.facts);  // of nothing: who inserts
  const bool more = way.reuse.prefix_archive()->promote(
      *way.archived, turn.match().matched(), turn.match().resume(),
      [&](const CapturedKv& kv) -> Result<void> {
        AFI_TRY_VOID(front.insert(way.root, *way.engine.kv_layout(), way.prompt, kv, &asks));
        return {};
      },
      stop, look);
  return more ? turn.look_again() : Result<void>();
}

/// What several processes lack one of them prefills; the others wait for it and load it, up to
/// where their prompts part. nullptr: nobody will wait for this request, or nobody can be asked.
Result<std::unique_ptr<Lease>> lead_elsewhere(const ServeContext& way, PrefillLeader& turn,
                                              const std::stop_token& stop) {
  LeaseService* const others = way.reuse.others();
  if (way.archived == nullptr || others == nullptr) return nullptr;
  const Duration began = way.clock.now();
  for (std::uint32_t attempt = 0;;) {
    const TokenCount resume = turn.match().resume();
    const auto duty = way.reuse.prefix_archive()->duty(*way.archived, resume, turn.snapshots());
    if (!duty.has_value()) return nullptr;
    LeaseService::Claim claim = others->claim(duty->turn, duty->last);
    if (claim.status == LeaseStatus::kUnknown) return nullptr;
    if (claim.status == LeaseStatus::kTheirs) {
      const bool late =
          duty->longest_wait > Duration(0) && way.clock.now() - began > duty->longest_wait;
      if (!late && others->wait(attempt++, stop)) continue;
      if (!stop.stop_requested()) return nullptr;  // long enough: we do it ourselves
      return fail(ErrorCode::kCancelled, "nobody waits for it any more");
    }
    // Whoever had the turn before us may have put it since we looked.
    AFI_TRY_VOID(bring_up(way, turn, PrefixArchive::Look::kAgain, stop));
    if (turn.match().resume() == resume) return std::move(claim.lease);
    // What is still missing has a turn of its own.
  }
}

/// The prefix comes before the encoder: whoever waits here holds nothing that another waits for.
Result<Served> answer_with_prefix(const ServeContext& way, const std::stop_token& stop) {
  const PrefillRequest asked{.space = way.root,
                             .layout = way.engine.kv_layout(),
                             .prompt = &way.prompt,
                             .facts = way.facts};
  AFI_TRY(PrefillLeader mine, way.reuse.prefix()->wait_and_lead(asked, stop));
  Lead lead{.turn = std::move(mine), .shared = nullptr};
  PrefillLeader& turn = lead.turn;
  AFI_TRY_VOID(bring_up(way, turn, PrefixArchive::Look::kOnce, stop));
  AFI_TRY(lead.shared, lead_elsewhere(way, turn, stop));
  auto served = answer(way, &lead, stop);
  const auto failed = [&] {
    return !served.has_value() && served.error().code != ErrorCode::kCancelled;
  };
  // Whatever a restore ran into, the request does not suffer for it: it is computed from the start.
  if (failed() && turn.match().resume().value() > 0) {
    turn.start_over();
    way.told.begin_anew();
    served = answer(way, &lead, stop);
    if (served.has_value()) served->restore_failed = true;
  }
  if (failed()) turn.fail();
  return served;
}

/// nullopt: the request asks nothing that could be looked up.
std::optional<Question> question_of(const Request& request, const Fingerprint& prints,
                                    const Namespace& space, const NamespaceId& inputs,
                                    const GenerateOptions& options) {
  auto split = split_request(request, prints.contents);
  if (!split.has_value()) return std::nullopt;
  const Scope scope{.inputs = inputs,
                    .messages = std::move(split->messages),
                    .tools = "",
                    .response_format = "",
                    // As Engine::generate decodes.
                    .sampling = {{"temperature", "0"},
                                 {"max_tokens", std::to_string(options.max_tokens.value())}},
                    .other = {}};
  return Question(identify(scope, space), std::move(split->question));
}

/// An answer that is kept, or another's, or the one that `compute` gives.
Result<Served> answer_once(Question& question, const std::string& model, Reuse& reuse,
                           const std::function<Result<Served>()>& compute,
                           const std::stop_token& stop) {
  std::optional<Served> computed;
  const AnswerReuse& how = reuse.answer_options();
  const auto generate = [&]() -> Result<AnswerOnce::Generated> {
    AFI_TRY(computed, compute());
    const Completion& said = computed->completion;
    return AnswerOnce::Generated{
        .answer = {.text = said.text,
                   .finish_reason = said.ended ? "stop" : "length",
                   .model = model,
                   .prompt_tokens = said.prefilled + said.resumed_from,
                   .output_tokens = TokenCount(static_cast<std::uint32_t>(said.tokens.size()))},
        .facts = {.ttl = how.ttl}};
  };
  AFI_TRY(AnswerLookup found, reuse.answers()->get_or_answer(question, how.rules, generate, stop));
  Served served;
  if (computed.has_value()) {
    served = *std::move(computed);
  } else {
    served.answered = true;
    served.completion.text = std::move(found.answer->text);
    served.completion.ended = true;
  }
  served.ladder = std::move(found.steps);
  return served;
}

}  // namespace

TurnKind turn_kind(const Request& request) {
  if (request.messages.empty()) return TurnKind::kUnknown;
  switch (request.messages.back().role) {
    case Role::kUser:
      return TurnKind::kHuman;
    case Role::kTool:
      return TurnKind::kToolResult;
    case Role::kSystem:
    case Role::kAssistant:
      break;
  }
  return TurnKind::kUnknown;
}

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
  const NamespaceId root = space.prefix_root(recipes.image, recipes.audio, recipes.video);
  const auto compute = [&]() -> Result<Served> {
    AFI_TRY(const Sequence prompt, engine.prepare(request, prints.contents));
    const bool keeps_kv = reuse.prefix() != nullptr && engine.kv_layout() != nullptr;
    std::optional<ArchivedPrompt> archived;
    if (keeps_kv && reuse.prefix_archive() != nullptr) {
      AFI_TRY(archived, ArchivedPrompt::of(space, root, *engine.kv_layout(), prompt));
    }
    StreamDeduplicator told(options.on_text);
    GenerateOptions own = options;
    if (own.on_text) own.on_text = [&told](std::string_view more) { return told.say(more); };
    const ServeContext way{
        .request = request,
        .media = media,
        .prints = prints,
        .prompt = prompt,
        .root = root,
        .engine = engine,
        .reuse = reuse,
        .clock = clock,
        .options = own,
        .facts = {.now = arrived, .kind = turn_kind(request), .hint = request.conversation},
        .archived = archived.has_value() ? &*archived : nullptr,
        .told = told};
    return keeps_kv ? answer_with_prefix(way, stop) : answer(way, nullptr, stop);
  };
  auto question = reuse.answers() == nullptr ? std::nullopt
                                             : question_of(request, prints, space, root, options);
  auto served = question.has_value()
                    ? answer_once(*question, engine.identity().model, reuse, compute, stop)
                    : compute();
  if (!served.has_value()) return served;
  if (served->answered) {
    served->time_to_first_token = served->total = clock.now() - arrived;
    served->sources.assign(media.size(), MediaSource::kCovered);
  }
  served->prints = std::move(prints);
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
  AFI_TRY(served.completion, engine.generate(prompt, embeddings, options));
  served.sources.assign(media.size(), MediaSource::kEncoded);
  served.time_to_first_token = ready - arrived + served.completion.first_token_after;
  served.total = clock.now() - arrived;
  return served;
}

}  // namespace afterimage
